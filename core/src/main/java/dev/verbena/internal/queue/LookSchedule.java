package dev.verbena.internal.queue;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * When to look for failures that the device gives no event for: soon after a wait that brought
 * nothing, then ever less often, as each look is a system call for each queue pair. While events
 * come, as seldom as at last: they say that a queue pair works, not that all do. For one thread.
 */
final class LookSchedule {
    /** The time between two looks while traffic was seen lately. */
    static final int SHORTEST_MILLISECONDS = 20;

    private static final int LONGEST_MILLISECONDS = 1280;

    private final LongSupplier nanoTime;
    private int gap = SHORTEST_MILLISECONDS;
    private long last; // look or event
    private long lastLook;

    /**
     * The first look is due after {@link #SHORTEST_MILLISECONDS}.
     *
     * @param nanoTime the clock
     */
    LookSchedule(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
        this.last = nanoTime.getAsLong();
        this.lastLook = last;
    }

    /** How long to sleep at most until the next look. */
    int gapMilliseconds() {
        return gap;
    }

    /** An event came. No need to look for a while, unless the last look was long ago. */
    void eventCame(Runnable look) {
        gap = SHORTEST_MILLISECONDS;
        last = nanoTime.getAsLong();
        if (last - lastLook >= TimeUnit.MILLISECONDS.toNanos(LONGEST_MILLISECONDS)) {
            look.run();
            lastLook = last;
        }
    }

    /** No event came. Looks, if it is time. */
    void look(Runnable look) {
        if (nanoTime.getAsLong() - last >= TimeUnit.MILLISECONDS.toNanos(gap)) {
            look.run();
            gap = Math.min(2 * gap, LONGEST_MILLISECONDS);
            last = nanoTime.getAsLong();
            lastLook = last;
        }
    }
}
