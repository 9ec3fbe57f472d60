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
            if (!end.takesCompletions()) {
                return; // its memory may be gone
            }
            long first = Frame.first(message.frame());
            long second = Frame.second(message.frame());
            if (!Frame.isValid(first, second, bytes)
                    || !Frame.grant(first, second, channel.credits)) {
                end.fail(Status.INTERNAL_ERROR, "the peer sent a frame that is none", null);
                return;
            }
            byte kind = Frame.kind(first);
            outbox.heard(kind == Frame.KEEP_ALIVE);
            if (kind == Frame.MESSAGE) {
                toHandler = channel.handler != null;
                inbox.arrived(message, Frame.length(second), toHandler);
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
        boolean silent = false;
        lock.lock();
        try {
            if (end.isOpen() && outbox.isEstablished()) {
                late = outbox.isLate(now);
                silent = outbox.isSilent(now);
                if (!late && !silent) {
                    outbox.askIfIdle(now, channel.keepAliveTicks);
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
        } else if (silent) {
            end.fail(
                    Status.IO_TIMEOUT,
                    "the peer has not answered within %s whether it is there: its process hangs, or its poller is not polled"
                            .formatted(channel.options.timeout),
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
