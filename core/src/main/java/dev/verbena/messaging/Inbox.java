package dev.verbena.messaging;

import dev.verbena.PostResult;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * What a {@link MessageChannel} receives: its frames, and the messages that wait for a thread or
 * are kept by one. Its state is guarded by the lock of the channel.
 */
final class Inbox {
    private final MessageChannel channel;
    private final ReentrantLock lock;
    private final Credits credits;
    private final Outbox outbox;
    private final Exposures exposures;
    private final Message[] messages; // by the slot of their receive
    private final Deque<Message> waiting = new ArrayDeque<>();
    private final Condition changed;
    private int unreleased; // messages
    private boolean freed; // as soon as no message is in use

    Inbox(MessageChannel channel, Credits credits, Outbox outbox, Exposures exposures) {
        this.channel = channel;
        this.lock = channel.lock;
        this.credits = credits;
        this.outbox = outbox;
        this.exposures = exposures;
        this.changed = lock.newCondition();
        this.messages = new Message[channel.receives.count()];
        for (int i = 0; i < messages.length; i++) {
            messages[i] = new Message(channel, channel.receives.message(i));
        }
    }

    /** A frame has come. By the polling thread. */
    void received(RawMessage frame) {
        Message message = messages[frame.slot()];
        Exposure taken = null;
        boolean toHandler = false;
        lock.lock();
        try {
            long first = Frame.first(frame.buffer());
            long second = Frame.second(frame.buffer());
            String wrong = wrong(frame, first, second);
            if (wrong == null && frame.hasInvalidated()) {
                taken =
                        Frame.kind(first) == Frame.MESSAGE
                                ? exposures.takenBack(frame.invalidatedToken())
                                : null;
                wrong = taken == null ? wrongToken(frame.invalidatedToken()) : null;
            }
            if (wrong != null) {
                channel.fail(Status.INTERNAL_ERROR, "the peer " + wrong, null);
                return;
            }
            byte kind = Frame.kind(first);
            outbox.heard(kind == Frame.KEEP_ALIVE);
            if (kind == Frame.MESSAGE) {
                channel.counts.messageReceived(Frame.length(second));
                toHandler = taken == null && channel.handler != null;
                arrived(message, Frame.length(second), toHandler || taken != null);
            } else {
                repost(message, true);
            }
            outbox.roomChanged();
            outbox.reportIfDue();
        } finally {
            lock.unlock();
        }
        if (taken != null) {
            answered(taken, message);
        } else if (toHandler) {
            handle(message);
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
            long note = Frame.note(frame.buffer(), second, i);
            if (!outbox.noted((int) note, (int) (note >>> Integer.SIZE))) {
                return "exposed more memory than was agreed, or asked back or gave back memory that was not exposed";
            }
        }
        if (Frame.length(second) > channel.maxMessage()) {
            return "sent a message of %,d bytes, which is longer than the %,d that both ends take"
                    .formatted(Frame.length(second), channel.maxMessage());
        }
        return null;
    }

    private static String wrongToken(int token) {
        return "invalidated the token 0x%08x, which is not exposed to it, or must be invalidated by a message"
                .formatted(token);
    }

    /** A message has come, for a handler or, if there is none, for a thread. */
    void arrived(Message message, int length, boolean toHandler) {
        message.arrived(length);
        unreleased++;
        if (!toHandler) {
            waiting.add(message.retain());
            changed.signal();
        }
    }

    /** A message took an exposure back. The program releases a future's. */
    private void answered(Exposure taken, Message message) {
        if (!taken.reusable()) {
            message.retain();
        }
        exposures.report(taken, Status.SUCCESS, message);
        if (!message.retained()) {
            release(message);
        }
    }

    private void handle(Message message) {
        try {
            if (channel.handler != null) {
                channel.handler.received(channel, message);
            }
        } catch (Throwable t) {
            channel.failedInProgram("its handler", t);
        }
        if (!message.retained()) {
            release(message);
        }
    }

    /** A message is not needed any more. From any thread. */
    void release(Message message) {
        channel.poller.checkThread();
        lock.lock();
        try {
            Message next = message.successor(); // first: there may be no memory for it
            if (!message.drop()) {
                return; // it was released before
            }
            unreleased--;
            messages[message.slot()] = next;
            if (channel.isOpen()) {
                repost(message, false);
                outbox.reportIfDue();
            } else {
                freeIfUnused();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Posts a receive again. One that is refused would be missing for ever: the channel ends. */
    private void repost(Message message, boolean control) {
        PostResult result = channel.receives.post(message.slot());
        if (result.isAccepted()) {
            credits.returnOne(control);
        } else {
            channel.reason.refused("a receive", result.status());
        }
    }

    /** The message that is now in a slot. */
    Message message(int slot) {
        return messages[slot];
    }

    /** As {@link MessageChannel#receive}; takes the lock. */
    @Nullable Message receive(Duration timeout) throws InterruptedException {
        long left = TimeUnit.NANOSECONDS.convert(timeout);
        long deadline = System.nanoTime() + left;
        boolean polls = channel.poller.onPollingThread();
        channel.poller.checkThread();
        channel.poller.checkMayWait();
        while (true) {
            lock.lockInterruptibly();
            try {
                Message message = next();
                while (message == null && left > 0 && !polls) {
                    // Interrupted after a signal, it returns: then there is a message to take.
                    left = changed.awaitNanos(left);
                    message = next();
                }
                if (message != null || left <= 0) {
                    return message;
                }
            } finally {
                lock.unlock();
            }
            int ignored = channel.poller.await(Duration.ofNanos(left));
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

    /** No more comes: what waits can be received still, without the channel's memory. */
    void ended() {
        for (Message message : waiting) {
            if (message.detach()) {
                unreleased--;
            }
        }
        changed.signalAll();
    }

    /** Frees the receives, now or when the last message is released. */
    void free() {
        freed = true;
        freeIfUnused();
    }

    private void freeIfUnused() {
        if (freed && unreleased == 0) {
            channel.receives.close();
        }
    }
}
