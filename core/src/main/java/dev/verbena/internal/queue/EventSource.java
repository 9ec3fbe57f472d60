package dev.verbena.internal.queue;

/**
 * Where the device's events for one completion queue arrive, and how the thread that waits for them
 * is woken: a channel of its own ({@link PrivateChannel}), or one that it shares with others
 * ({@link SharedChannel}).
 */
interface EventSource {
    /** Wakes the waiting thread. From any thread. */
    void raise();

    /** Undoes {@link #raise}: the queue is armed again before the consumer was notified. */
    void clear();

    /**
     * Takes events that nobody waited for: they would end the next wait at once, and the kernel
     * would keep each of them until the channel is destroyed.
     *
     * @param unread how many were asked for and not taken
     */
    void takeUnread(int unread);

    /**
     * Whether the program waits for events by a loop of its own. Otherwise a thread waits here, and
     * looks from time to time for failures that the device gives no event for.
     */
    boolean isWatchedElsewhere();

    /** Releases what belongs to this queue alone; no thread waits any more. */
    void free();
}
