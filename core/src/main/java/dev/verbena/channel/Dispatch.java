package dev.verbena.channel;

import dev.verbena.Completions;
import dev.verbena.OperationType;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.locks.ReentrantLock;

/**
 * What the polling thread does for a {@link Channel}: it takes the channel's completions, and calls
 * its handler and callbacks, without the lock.
 */
final class Dispatch {
    private final Channel channel;
    private final ReentrantLock lock;
    private final ChannelEnd end;
    private final Outbox outbox;
    private final Inbox inbox;

    Dispatch(Channel channel, Outbox outbox, Inbox inbox) {
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
            end.requestFailed(status);
        } else if (from.type(index) == OperationType.RECEIVE) {
            received((int) context, from.bytes(index));
        } else if ((context & Outbox.CONTROL) != 0) {
            controlEnded();
        } else {
            messageEnded((int) context);
        }
    }

    private void messageEnded(int slot) {
        SendCallback callback;
        Object attachment;
        lock.lock();
        try {
            callback = outbox.callback(slot);
            attachment = outbox.attachment(slot);
            if (end.isOpen()) {
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

    private void controlEnded() {
        lock.lock();
        try {
            if (end.isOpen()) {
                outbox.controlEnded();
            }
        } finally {
            lock.unlock();
        }
    }

    void call(SendCallback callback, @Nullable Object attachment, Status status) {
        try {
            callback.ended(channel, attachment, status);
        } catch (Throwable t) {
            end.fail(Status.INTERNAL_ERROR, "a callback has thrown", t);
        }
    }

    private void received(int slot, long bytes) {
        Message message = inbox.message(slot);
        boolean toHandler = false;
        lock.lock();
        try {
            if (!end.isOpen()) {
                return; // its memory may be gone
            }
            if (!Frame.isValid(message.frame(), bytes)
                    || !Frame.grant(message.frame(), channel.credits)) {
                end.fail(Status.INTERNAL_ERROR, "the peer sent a frame that is none", null);
                return;
            }
            if (Frame.kind(message.frame()) == Frame.MESSAGE) {
                toHandler = channel.handler != null;
                inbox.arrived(message, Frame.length(message.frame()), toHandler);
            } else {
                channel.counts.controlReceived();
                inbox.repost(slot, true);
            }
            outbox.roomChanged();
            outbox.reportIfDue();
        } finally {
            lock.unlock();
        }
        if (toHandler) {
            handle(message);
        }
    }

    private void handle(Message message) {
        try {
            if (channel.handler != null) {
                channel.handler.received(channel, message);
            }
        } catch (Throwable t) {
            end.fail(Status.INTERNAL_ERROR, "its handler has thrown", t);
        }
        if (!message.retained()) {
            release(message);
        }
    }

    /** A message is not needed any more. From any thread. */
    void release(Message message) {
        lock.lock();
        try {
            if (!message.drop()) {
                return; // it was released before
            }
            inbox.released();
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
        boolean late = false;
        lock.lock();
        try {
            if (end.isOpen()) {
                late = outbox.isLate(now);
                if (!late && outbox.idleTicks(now) >= channel.keepAliveTicks) {
                    outbox.control(Frame.KEEP_ALIVE);
                }
            }
        } finally {
            lock.unlock();
        }
        if (late) {
            end.fail(
                    Status.IO_TIMEOUT,
                    "a message was not acknowledged within " + channel.options.timeout,
                    null);
        }
    }
}
