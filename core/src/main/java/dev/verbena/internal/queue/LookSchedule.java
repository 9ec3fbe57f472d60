package dev.verbena.internal.queue;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * When to look for failures that the device gives no event for: soon after a wait that brought
 * nothing, then ever less often, as each look is a system call for each queue pair. For one thread.
 */
final class LookSchedule {
    /** The time between two looks while traffic was seen lately. */
    static final int SHORTEST_MILLISECONDS = 20;

    private static final int LONGEST_MILLISECONDS = 1280;

    private final LongSupplier nanoTime;
    private int gap = SHORTEST_MILLISECONDS;
    private long last;

    /**
     * The first look is due after {@link #SHORTEST_MILLISECONDS}.
     *
     * @param nanoTime the clock
     */
    LookSchedule(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
        this.last = nanoTime.getAsLong();
    }

    /** How long to sleep at most until the next look. */
    int gapMilliseconds() {
        return gap;
    }

    /** The connection works: no need to look for a while. */
    void eventCame() {
        gap = SHORTEST_MILLISECONDS;
        last = nanoTime.getAsLong();
    }

    /** No event came. Looks, if it is time. */
    void look(Runnable look) {
        if (nanoTime.getAsLong() - last >= TimeUnit.MILLISECONDS.toNanos(gap)) {
            look.run();
            gap = Math.min(2 * gap, LONGEST_MILLISECONDS);
            last = nanoTime.getAsLong();
        }
    }
}
