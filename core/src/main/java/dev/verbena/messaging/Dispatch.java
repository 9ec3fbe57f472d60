package dev.verbena.messaging;

import dev.verbena.Completions;
import dev.verbena.Status;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.locks.ReentrantLock;

/**
 * What the polling thread does for a {@link MessageChannel}: it takes the channel's completions,
 * and calls its handler and callbacks, without the lock.
 */
final class Dispatch {
    private final MessageChannel channel;
    private final ReentrantLock lock;
    private final MessageChannelEnd end;
    private final Outbox outbox;
    private final Inbox inbox;

    Dispatch(MessageChannel channel, Outbox outbox, Inbox inbox) {
        this.channel = channel;
        this.lock = channel.lock;
        this.end = channel.end;
        this.outbox = outbox;
        this.inbox = inbox;
    }

    /** A completion of the channel's. */
    void completed(Completions from, int index) {
        Status status = from.status(index);
        long context = from.context(index);
        if (!status.isSuccess()) {
            end.requestFailed(from, index);
            return;
        }
        switch (from.type(index)) {
            case RECEIVE -> received((int) context, from.bytes(index), false, 0);
            case RECEIVE_AND_INVALIDATE ->
                    received((int) context, from.bytes(index), true, from.invalidatedToken(index));
            case INVALIDATE -> invalidated((int) context);
            case RECEIVE_OF_WRITE ->
                    end.fail(
                            Status.INTERNAL_ERROR,
                            "the peer wrote with immediate data, which no channel does",
                            null);
            default -> {
                if ((context & Outbox.CONTROL) != 0) {
                    controlEnded((int) context);
                } else {
                    requestEnded((int) context);
                }
            }
        }
    }

    private void invalidated(int token) {
        Exposure exposure = null;
        lock.lock();
        try {
            if (end.takesCompletions()) {
                exposure = channel.exposures.invalidated(token);
            }
        } finally {
            lock.unlock();
        }
        if (exposure != null) {
            channel.exposures.report(exposure, exposure.why, null);
        }
    }

    private void requestEnded(int slot) {
        SendCallback callback;
        Object attachment;
        lock.lock();
        try {
            callback = outbox.callback(slot);
            attachment = outbox.attachment(slot);
            if (end.takesCompletions()) {
                outbox.ended(slot);
            } else {
                callback = null; // the end calls it
            }
        } finally {
            lock.unlock();
        }
        if (callback != null) {
            call(callback, attachment, Status.SUCCESS);
        }
    }

    private void controlEnded(int index) {
        lock.lock();
        try {
            if (end.isOpen()) {
                outbox.controlEnded(index);
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * After the end: the oldest outstanding request gets the reason. A future has it before its
     * request is forgotten: there may be no memory to complete it.
     *
     * @return false when there is none
     */
    @SuppressWarnings("ReferenceEquality") // all futures have the same callback
    boolean cancelOldest(Status status) {
        SendCallback callback;
        Object attachment;
        int slot;
        lock.lock();
        try {
            slot = outbox.oldest();
            if (slot < 0) {
                return false;
            }
            callback = outbox.callback(slot);
            attachment = outbox.attachment(slot);
            if (callback != RoomWait.COMPLETE_FUTURE) {
                outbox.cancelled(slot);
            }
        } finally {
            lock.unlock();
        }
        if (callback == RoomWait.COMPLETE_FUTURE) {
            RoomWait.completeFuture(channel, attachment, status);
            lock.lock();
            try {
                outbox.cancelled(slot);
            } finally {
                lock.unlock();
            }
        } else if (callback != null) {
            call(callback, attachment, status);
        }
        return true;
    }

    private void call(SendCallback callback, @Nullable Object attachment, Status status) {
        try {
            callback.ended(channel, attachment, status);
        } catch (Throwable t) {
            channel.failedInProgram("a callback", t);
        }
    }

    private void received(int slot, long bytes, boolean takesBack, int token) {
        Message message = inbox.message(slot);
        MemorySegment at = message.frame();
        Exposure taken = null;
        boolean toHandler = false;
        lock.lock();
        try {
            if (!end.takesCompletions()) {
                return; // its memory may be gone
            }
            long first = Frame.first(at);
            long second = Frame.second(at);
            if (!Frame.isValid(first, second, bytes)
                    || !Frame.grant(first, second, channel.credits)) {
                end.fail(Status.INTERNAL_ERROR, "the peer sent a frame that is not valid", null);
                return;
            }
            if (!takeNotes(at, first, second)) {
                end.fail(
                        Status.INTERNAL_ERROR,
                        "the peer exposed more memory than was agreed, or asked back or gave back memory that was not exposed",
                        null);
                return;
            }
            if (Frame.length(second) > channel.maxMessage()) {
                end.fail(
                        Status.INTERNAL_ERROR,
                        "the peer sent a message of %,d bytes, which is longer than the %,d that both ends take"
                                .formatted(Frame.length(second), channel.maxMessage()),
                        null);
                return;
            }
            byte kind = Frame.kind(first);
            if (takesBack && kind == Frame.MESSAGE) {
                taken = channel.exposures.takenBack(token);
            }
            if (takesBack && taken == null) {
                end.fail(
                        Status.INTERNAL_ERROR,
                        "the peer invalidated the token 0x%08x, which is not exposed to it, or must be invalidated by a message"
                                .formatted(token),
                        null);
                return;
            }
            outbox.heard(kind == Frame.KEEP_ALIVE);
            if (kind == Frame.MESSAGE) {
                channel.counts.messageReceived(Frame.length(second));
                toHandler = taken == null && channel.handler != null;
                inbox.arrived(message, Frame.length(second), toHandler || taken != null);
            } else {
                inbox.repost(slot, true);
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

    private boolean takeNotes(MemorySegment at, long first, long second) {
        for (int i = 0; i < Frame.notes(first); i++) {
            long note = Frame.note(at, second, i);
            if (!outbox.noted((int) note, (int) (note >>> Integer.SIZE))) {
                return false;
            }
        }
        return true;
    }

    /** A message took an exposure back. The program releases a future's. */
    private void answered(Exposure taken, Message message) {
        if (!taken.reusable()) {
            message.retain();
        }
        channel.exposures.report(taken, Status.SUCCESS, message);
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
            inbox.released(next);
            if (end.isOpen()) {
                inbox.repost(message.slot(), false);
                outbox.reportIfDue();
            } else {
                end.freeIfUnused();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Looks at deadlines, and at whether the peer is to be asked. */
    void tick(int now) {
        String late = null;
        boolean silent = false;
        lock.lock();
        try {
            if (end.isOpen() && outbox.isEstablished()) {
                late = outbox.late(now);
                if (late == null && channel.exposures.isLate(now)) {
                    late = "memory that was asked back was not given back";
                }
                silent = outbox.isSilent(now);
                if (late == null && !silent) {
                    outbox.askIfIdle(now, channel.keepAliveTicks);
                }
            }
        } finally {
            lock.unlock();
        }
        if (late != null) {
            end.fail(
                    Status.IO_TIMEOUT,
                    late + " within " + Text.time(channel.options.values.timeout),
                    null);
        } else if (silent) {
            end.fail(
                    Status.IO_TIMEOUT,
                    "the peer has not answered within %s whether it is there: its process hangs, or its poller is not polled"
                            .formatted(Text.time(channel.options.values.timeout)),
                    null);
        }
    }

    /** The connection stands: from now on messages are sent, and deadlines looked at. */
    void established() {
        lock.lock();
        try {
            if (end.isOpen()) {
                outbox.established();
            }
        } finally {
            lock.unlock();
        }
    }
}
