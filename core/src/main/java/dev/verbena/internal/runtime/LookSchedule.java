package dev.verbena.internal.runtime;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * When to look for failures that the device raises no event for: soon after traffic stops, then
 * less and less often, because each look is a system call for each queue pair. While there is
 * traffic, at the longest interval: traffic shows that one queue pair works, not that all do. For
 * one thread.
 */
public final class LookSchedule {
    /** The time from the last traffic to the first look. */
    public static final int SHORTEST_MILLISECONDS = 20;

    private static final int LONGEST_MILLISECONDS = 1280;

    private final LongSupplier nanoTime;
    private int gap = SHORTEST_MILLISECONDS;
    private long last; // look or traffic
    private long lastLook;

    /** The first look is due after {@link #SHORTEST_MILLISECONDS}. */
    public LookSchedule(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
        this.last = nanoTime.getAsLong();
        this.lastLook = last;
    }

    /** Completions came. No need to look for a while, unless the last look was long ago. */
    public void trafficSeen(Runnable look) {
        gap = SHORTEST_MILLISECONDS;
        last = nanoTime.getAsLong();
        if (last - lastLook >= TimeUnit.MILLISECONDS.toNanos(LONGEST_MILLISECONDS)) {
            look.run();
            lastLook = last;
        }
    }

    /** No completion came. Looks, if it is time. */
    public void look(Runnable look) {
        if (nanoTime.getAsLong() - last >= TimeUnit.MILLISECONDS.toNanos(gap)) {
            look.run();
            gap = Math.min(2 * gap, LONGEST_MILLISECONDS);
            last = nanoTime.getAsLong();
            lastLook = last;
        }
    }
}
