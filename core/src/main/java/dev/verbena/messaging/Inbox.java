package dev.verbena.messaging;

import dev.verbena.PostResult;
import dev.verbena.Status;
import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;

/**
 * What a {@link MessageChannel} receives: its frames, and the messages that wait for a thread or
 * are kept by one. Its state is guarded by the lock of the channel.
 */
final class Inbox {
    private final MessageChannel channel;
    private final ConnectionLock lock;
    private final Credits credits;
    private final Outbox outbox;
    private final Exposures exposures;
    private Queue<Message> waiting = SafeQueue.empty();
    private @Nullable Condition changed; // null until a thread waits
    private @Nullable LargeArrivals large; // null until the peer announces one

    Inbox(MessageChannel channel) {
        this.channel = channel;
        this.lock = channel.lock;
        this.credits = channel.credits;
        this.outbox = channel.outbox;
        this.exposures = channel.exposures;
    }

    /** A frame has come. By the polling thread. */
    void received(RawMessage frame) {
        Message message = null;
        Exposure taken = null;
        boolean toHandler = false;
        boolean isUsed = true; // the receive, until it is posted or its message was handed out
        try (var _ = lock.hold()) {
            long first = Frame.first(frame.buffer());
            long second = Frame.second(frame.buffer());
            byte kind = Frame.kind(first);
            String wrong = wrong(frame, first, second);
            if (wrong == null && kind == Frame.MESSAGE) { // first: there may be no memory for it
                message = frame.message();
                message.arrived(channel, Frame.length(second));
                if (frame.hasInvalidated()) {
                    message.reserve();
                }
            }
            if (wrong == null && frame.hasInvalidated()) {
                taken =
                        exposures.takenBack(
                                frame.invalidatedToken(),
                                kind,
                                large == null ? null : large.next());
                wrong = taken == null ? wrongToken(frame.invalidatedToken()) : null;
            }
            if (wrong != null) {
                channel.fail(Status.INTERNAL_ERROR, "the peer " + wrong, null);
                isUsed = false;
                discard(frame, message); // others may share the receive
                return;
            }
            outbox.heard(kind == Frame.KEEP_ALIVE);
            if (message != null) {
                isUsed = !movesIfScarce(message, frame);
            } else {
                isUsed = false;
                repost(frame.slot());
                switch (kind) {
                    case Frame.LARGE -> announced(Frame.length(second));
                    case Frame.WRITTEN -> {
                        message = Objects.requireNonNull(Objects.requireNonNull(large).next());
                        message.written(channel);
                        taken = null;
                    }
                    case Frame.CLOSE -> channel.reason.peerClosed();
                    default -> credits.returnOne(true);
                }
            }
            if (message != null) {
                channel.counts.messageReceived(message.length());
                toHandler = taken == null && channel.handler != null;
                if (taken == null && !toHandler) {
                    waits(message);
                }
                if (kind == Frame.WRITTEN && large != null) {
                    large.written(); // last: there may be no memory for what is before
                }
                isUsed = false;
            }
            goOn(frame.hasInvalidated() || Frame.notes(first) > 0);
        } catch (Throwable t) { // out of memory, most likely: the channel ends
            if (isUsed) {
                discard(frame, message);
            }
            throw t;
        }
        if (taken != null && message != null) {
            answered(taken, message);
        } else if (message != null && toHandler) {
            handle(message);
        }
    }

    /**
     * Posts what has room now. If that fails, the channel ends, and keeps what it has received.
     *
     * @param keysCame a frame had something to say of keys: a window may be free
     */
    private void goOn(boolean keysCame) {
        try {
            if (keysCame) {
                channel.ownMemory.serve();
            }
            offerMemory();
            outbox.roomChanged();
            outbox.reportIfDue();
        } catch (Throwable t) {
            channel.endFor(t);
        }
    }

    /** Copies a message if messages that are kept have most of the receives. Under the lock. */
    private boolean movesIfScarce(Message message, RawMessage frame) {
        if (!channel.receives.areScarce()) {
            return false;
        }
        try {
            message.movesUnasked();
            leaves(frame, message.successor(), false);
            return true;
        } catch (OutOfMemoryError e) {
            return false; // it stays where it is
        }
    }

    /** The peer has announced a large message. */
    private void announced(int length) {
        LargeArrivals arrivals = large;
        if (arrivals == null) {
            arrivals = new LargeArrivals(channel, outbox);
            large = arrivals;
        }
        arrivals.announced(length);
    }

    /** A message is for a thread that receives. */
    void waits(Message message) {
        waiting = SafeQueue.own(waiting);
        waiting.add(message.retain());
        lock.signal(changed);
    }

    /** Whether a large message may wait for memory that others give back. */
    boolean awaitsMemory() {
        return large != null && large.next() != null;
    }

    /** Offers memory to large messages, as far as the limits allow. Under the lock. */
    void offerMemory() {
        if (large != null) {
            large.offerMemory();
        }
    }

    /**
     * Returns what is wrong with a peer's frame, or null. Applies the report and the notes of a
     * frame up to the first error.
     */
    private @Nullable String wrong(RawMessage frame, long first, long second) {
        if (frame.hasImmediate()) {
            return "sent immediate data, which no channel does";
        }
        if (!Frame.isValid(first, second, frame.length()) || !Frame.grant(first, second, credits)) {
            return "sent a frame that is not valid";
        }
        for (int i = 0; i < Frame.notes(first); i++) {
            long note = Frame.note(frame.buffer(), first, second, i);
            if (!outbox.noted((int) note, (int) (note >>> Integer.SIZE))) {
                return "exposed more memory than was agreed, or asked back or gave back memory that was not exposed";
            }
        }
        byte kind = Frame.kind(first);
        if (channel.reason.hasPeerClosed()) {
            return "sent a frame after it had closed the channel";
        }
        if (kind == Frame.MESSAGE && large != null && large.next() != null) {
            return "sent a message before a large one that it had announced";
        }
        if (Frame.length(second) > channel.maxMessage() && kind != Frame.OFFER) {
            return "sent a message of %,d bytes, which is longer than the %,d that both ends take"
                    .formatted(Frame.length(second), channel.maxMessage());
        }
        if ((kind == Frame.LARGE && !channel.offersMemory)
                || ((kind == Frame.MESSAGE || kind == Frame.LARGE) && !credits.messageReceived())) {
            return "sent or announced a message without a credit for it";
        }
        if (Frame.isControl(kind) && !credits.controlReceived(kind == Frame.CLOSE)) {
            return "sent a control frame without a credit for it";
        }
        if (kind == Frame.LARGE && Frame.length(second) <= outbox.eagerLimit) {
            return "announced a message that fits a receive";
        }
        if (kind == Frame.OFFER
                && !outbox.large.offered(
                        Frame.offerAddress(frame.buffer()), Frame.offerToken(frame.buffer()))) {
            return "offered memory for no message";
        }
        return kind == Frame.WRITTEN && !frame.hasInvalidated()
                ? "wrote a large message, and kept the memory"
                : null;
    }

    private static String wrongToken(int token) {
        return "invalidated the token %s, which is not exposed to it, or must be invalidated by a message"
                .formatted(Text.key(token));
    }

    /** A message took an exposure back. The program releases a future's. */
    private void answered(Exposure taken, Message message) {
        if (!taken.reusable()) {
            message.retain();
        }
        try {
            exposures.report(taken, Status.SUCCESS, message);
        } finally {
            handled(message);
        }
    }

    private void handle(Message message) {
        try {
            if (channel.handler != null) {
                channel.handler.received(channel, message);
            }
        } catch (Throwable t) {
            channel.failedInProgram("its handler", t);
        } finally {
            handled(message);
        }
    }

    private void handled(Message message) {
        if (!message.retained()) {
            release(message);
        }
    }

    /** A message is not needed any more. From any thread. */
    void release(Message message) {
        try (var _ = lock.hold()) {
            boolean holds = message.drop();
            if (!holds && !message.endsMove()) {
                return; // it was released before
            }
            RawMessage frame = message.frame();
            if (frame == null) {
                Objects.requireNonNull(large).released(message, message.successor());
            } else if (holds) {
                leaves(frame, message.successor(), message.hasOutlived());
            }
            if (channel.isOpen()) {
                credits.returnOne(false);
                goOn(false); // the next large message may have waited for memory
            }
        }
    }

    /** The receive of a message may be used again. */
    private void leaves(RawMessage frame, Message next, boolean outlived) {
        frame.next(next);
        if (outlived) {
            channel.receives.released();
        } else {
            repost(frame.slot());
        }
    }

    /** Nobody gets the message of a frame, if it has one: its receive may be used again. */
    private void discard(RawMessage frame, @Nullable Message message) {
        if (message == null) {
            repost(frame.slot());
        } else {
            boolean ignored = message.drop();
            leaves(frame, message.successor(), false);
        }
    }

    /** Frees the memory of a message that the program keeps. From any thread. */
    void detach(Message message) {
        try (var _ = lock.hold()) {
            RawMessage frame = message.frame();
            boolean outlived = message.hasOutlived();
            if (!message.moves()) {
                return;
            }
            if (frame != null) {
                leaves(frame, message.successor(), outlived);
            } else {
                Objects.requireNonNull(large).detached(message);
            }
        }
    }

    /** Posts a receive again. One that is refused would be missing for ever: the channel ends. */
    private void repost(int slot) {
        if (channel.receives.isShared()) {
            channel.receives.giveBack(slot);
        } else if (channel.isOpen()) {
            PostResult result = channel.receives.post(slot);
            if (!result.isAccepted()) {
                channel.reason.refused("a receive", result.status());
            }
        }
    }

    /** As {@link MessageChannel#receive}; takes the lock. */
    @Nullable Message receive(Duration timeout) throws InterruptedException {
        long left = TimeUnit.NANOSECONDS.convert(timeout);
        long deadline = System.nanoTime() + left;
        boolean polls = channel.poller.onPollingThread();
        channel.poller.checkMayWait();
        while (true) {
            try (var _ = lock.holdInterruptibly()) {
                Message message = next();
                while (message == null && left > 0 && !polls) {
                    // Interrupted after a signal, it returns: then there is a message to take.
                    changed = changed == null ? lock.newCondition() : changed;
                    left = changed.awaitNanos(left);
                    message = next();
                }
                if (message != null || left <= 0) {
                    return message;
                }
            }
            long most = Math.min(left, PollerClock.TICK_NANOSECONDS); // or an interrupt waits
            int ignored = channel.poller.await(Duration.ofNanos(most));
            left = deadline - System.nanoTime();
        }
    }

    private @Nullable Message next() {
        Message message = waiting.poll();
        if (message == null && channel.reason.isFinal()) {
            throw channel.exception(Status.CONNECTION_INVALID);
        }
        return message;
    }

    // ---- the end; under the lock

    /**
     * No more comes: what waits can be received still, without the channel's memory. Only a large
     * message that the heap has no room for keeps its memory until it is released.
     */
    void ended() {
        for (Message message : waiting) {
            RawMessage frame = message.frame();
            if (frame == null) {
                if (fitsHeap(message)) {
                    Objects.requireNonNull(large).free(message);
                }
            } else if (message.copyOut()) {
                leaves(frame, message.successor(), false);
            }
        }
        lock.signalAll(changed);
    }

    private static boolean fitsHeap(Message large) {
        try {
            return large.copyOut();
        } catch (OutOfMemoryError e) {
            return false;
        }
    }

    /** Once the queue pair is destroyed: frees the memory of messages that were not written. */
    void freeComing() {
        if (large != null) {
            large.freeComing();
        }
    }
}
