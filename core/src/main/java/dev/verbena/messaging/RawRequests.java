package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

/**
 * The requests of a {@link RawConnection} that have a callback and have not ended. They end in the
 * order in which they were posted, so their slots are a ring. Guarded by the lock of the channel.
 */
final class RawRequests {
    private final @Nullable RawCallback[] callbacks;
    private final @Nullable Object[] attachments;
    private final Deadlines deadlines;
    private int next;
    private int outstanding;

    RawRequests(int most, int timeoutTicks) {
        callbacks = new RawCallback[most];
        attachments = new Object[most];
        deadlines = new Deadlines(most, timeoutTicks);
    }

    boolean isFull() {
        return outstanding == callbacks.length;
    }

    /** The slot of the next request. */
    int next() {
        return next;
    }

    /** The next request was posted. */
    void posted(@Nullable RawCallback callback, @Nullable Object attachment) {
        callbacks[next] = callback;
        attachments[next] = attachment;
        deadlines.posted();
        next = next + 1 == callbacks.length ? 0 : next + 1;
        outstanding++;
    }

    /** Which request is to end first; -1 when there is none. */
    int oldest() {
        return outstanding == 0 ? -1 : Math.floorMod(next - outstanding, callbacks.length);
    }

    @Nullable RawCallback callback(int slot) {
        return callbacks[slot];
    }

    @Nullable Object attachment(int slot) {
        return attachments[slot];
    }

    /** The oldest request has ended. */
    void ended(int slot) {
        callbacks[slot] = null;
        attachments[slot] = null;
        outstanding--;
        deadlines.completed();
    }

    boolean isLate(int now) {
        return deadlines.isLate(now);
    }
}
