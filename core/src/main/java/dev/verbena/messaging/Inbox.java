package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;

/**
 * What a {@link MessageChannel} receives: its posted receives, and the messages that wait for a
 * thread or are kept by one. Guarded by the lock of the channel.
 */
final class Inbox {
    private final MessageChannelEnd end;
    private final QueuePair pair;
    private final Credits credits;
    private final BufferList[] receives;
    private final Message[] messages;
    private final Deque<Message> waiting = new ArrayDeque<>();
    private final Condition changed;
    private int unreleased; // messages

    /** Posts all receives; their buffers are at the start of the region. */
    Inbox(MessageChannel channel, int count, int stride) {
        this.end = channel.end;
        this.pair = channel.pair;
        this.credits = channel.credits;
        this.changed = channel.lock.newCondition();
        MemoryRegion region = channel.region;
        this.receives = new BufferList[count];
        this.messages = new Message[count];
        for (int i = 0; i < count; i++) {
            long at = (long) i * stride;
            messages[i] = new Message(channel, i, region.memory().asSlice(at, stride));
            receives[i] = new BufferList(1).add(region, at, stride);
            pair.receive(i, receives[i]).orThrow();
        }
    }

    Message message(int slot) {
        return messages[slot];
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

    /** Posts a receive again. One that is refused would be missing for ever: the channel ends. */
    void repost(int slot, boolean control) {
        PostResult result = pair.receive(slot, receives[slot]);
        if (result.isAccepted()) {
            credits.returnOne(control);
        } else {
            end.receiveRefused(result.status());
        }
    }

    /** A message was given back; the next one in its slot has this object. */
    void released(Message next) {
        unreleased--;
        messages[next.slot()] = next;
    }

    /** Whether somebody may read the memory of messages. */
    boolean inUse() {
        return unreleased > 0;
    }

    /** As {@link MessageChannel#receive}; takes the lock. */
    @Nullable Message receive(MessageChannel channel, Duration timeout)
            throws InterruptedException {
        long left = TimeUnit.NANOSECONDS.convert(timeout);
        long deadline = System.nanoTime() + left;
        boolean polls = channel.poller.onPollingThread();
        channel.poller.checkThread();
        channel.poller.checkMayWait();
        while (true) {
            channel.lock.lockInterruptibly();
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
                channel.lock.unlock();
            }
            int ignored = channel.poller.await(Duration.ofNanos(left));
            left = deadline - System.nanoTime();
        }
    }

    private @Nullable Message next() {
        Message message = waiting.poll();
        if (message == null && end.isFinal()) {
            throw end.exception(Status.CONNECTION_INVALID);
        }
        return message;
    }

    /** Wakes all threads that wait: the channel has ended, and no more comes. */
    void wakeAll() {
        changed.signalAll();
    }

    /** What waits can be received still, without the channel's memory. */
    void detachWaiting() {
        for (Message message : waiting) {
            if (message.detach()) {
                unreleased--;
            }
        }
    }
}
