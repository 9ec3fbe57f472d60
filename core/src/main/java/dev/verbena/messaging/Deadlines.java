package dev.verbena.messaging;

/**
 * The deadlines of requests that complete in the order in which they were posted. Each gets its
 * deadline at the first tick after its post: a post reads no clock, and a poller that has not been
 * polled for long takes no request for late. Guarded by the lock of the channel.
 */
final class Deadlines {
    private final int timeout; // in ticks
    private final int[] expires; // the last tick in time
    private int next;
    private int outstanding;
    private int unmarked; // of those: posted since the last tick

    /**
     * The deadlines of no request.
     *
     * @param most how many requests may be outstanding
     * @param timeout how many ticks each has
     */
    Deadlines(int most, int timeout) {
        this.timeout = timeout;
        this.expires = new int[most];
    }

    void posted() {
        next = next + 1 == expires.length ? 0 : next + 1;
        outstanding++;
        unmarked++;
    }

    /** The oldest request completed. */
    void completed() {
        outstanding--;
        unmarked = Math.min(unmarked, outstanding);
    }

    /** At a tick: whether the oldest request is late. */
    boolean isLate(int now) {
        for (; unmarked > 0; unmarked--) {
            expires[Math.floorMod(next - unmarked, expires.length)] = now + timeout;
        }
        return outstanding > 0
                && now - expires[Math.floorMod(next - outstanding, expires.length)] > 0;
    }
}
