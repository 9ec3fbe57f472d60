package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

/**
 * The requests of a connection that have not ended. They end in the order in which they were
 * posted, so their slots are a ring. Guarded by the lock of the connection.
 *
 * <p>Each request gets its deadline at the first tick after its post: a post reads no clock, and a
 * poller that was not polled for a long time does not consider a request late.
 *
 * @param <C> the type of their callbacks
 */
final class RequestRing<C> {
    private final @Nullable Object[] callbacks;
    private final @Nullable Object[] attachments;
    private final int timeout; // in ticks; 0 for none
    private final int[] expires; // the last tick in time
    private int next;
    private int outstanding;
    private int unmarked; // of those: posted since the last tick

    RequestRing(int most, int timeoutTicks) {
        this.callbacks = new Object[most];
        this.attachments = new Object[most];
        this.expires = new int[most];
        this.timeout = timeoutTicks;
    }

    boolean isFull() {
        return outstanding == callbacks.length;
    }

    /** The slot of the next request. */
    int next() {
        return next;
    }

    /**
     * The next request was posted. Writes references only where they change, because the collector
     * has to learn of each write: consecutive requests often have the same callback.
     */
    @SuppressWarnings("ReferenceEquality") // it is about the references
    void posted(@Nullable C callback, @Nullable Object attachment) {
        if (callbacks[next] != callback) {
            callbacks[next] = callback;
        }
        if (attachments[next] != attachment) {
            attachments[next] = attachment;
        }
        next = next + 1 == callbacks.length ? 0 : next + 1;
        outstanding++;
        unmarked++;
    }

    /** The slot of the request that is to end first; -1 when there is none. */
    int oldest() {
        return outstanding == 0 ? -1 : before(outstanding);
    }

    private int before(int count) {
        return Math.floorMod(next - count, callbacks.length);
    }

    @SuppressWarnings("unchecked") // what posted() was given
    @Nullable C callback(int slot) {
        return (C) callbacks[slot];
    }

    @Nullable Object attachment(int slot) {
        return attachments[slot];
    }

    /** The oldest request has ended. */
    void ended(int slot) {
        if (attachments[slot] != null) {
            attachments[slot] = null;
        }
        outstanding--;
        unmarked = Math.min(unmarked, outstanding);
    }

    /** At a tick: whether the oldest request is late. */
    boolean isLate(int now) {
        for (; unmarked > 0; unmarked--) {
            expires[before(unmarked)] = now + timeout;
        }
        return timeout > 0 && outstanding > 0 && now - expires[before(outstanding)] > 0;
    }
}
