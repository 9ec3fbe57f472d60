package dev.verbena.messaging;

import dev.verbena.internal.verbs.CoarseClock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The time of a {@link Poller}, in nanoseconds and in ticks of 100 ms, at which deadlines are
 * checked. It is read in each round, so it is the kernel's coarse one. For the polling thread.
 */
final class PollerClock {
    static final long TICK_NANOSECONDS = TimeUnit.MILLISECONDS.toNanos(100);

    private final LongSupplier source;
    private final LongSupplier precise;
    private final long resolution; // of the source
    private final long start;
    private long nextTick;
    private int tick;

    /** The kernel's clocks. */
    PollerClock() {
        CoarseClock coarse = new CoarseClock();
        this(coarse, coarse.resolution(), System::nanoTime);
    }

    PollerClock(LongSupplier source) {
        this(source, 0, source);
    }

    private PollerClock(LongSupplier source, long resolution, LongSupplier precise) {
        this.source = source;
        this.resolution = resolution;
        this.precise = precise;
        this.start = source.getAsLong();
        this.nextTick = start + TICK_NANOSECONDS;
    }

    /** How many ticks a time takes, rounded up. */
    static int ticks(Duration duration) {
        return Math.clamp(
                Math.ceilDiv(TimeUnit.NANOSECONDS.convert(duration), TICK_NANOSECONDS),
                1,
                Integer.MAX_VALUE / 2);
    }

    /** The time of ticks: the kernel's, up to 10 ms old. */
    long now() {
        return source.getAsLong();
    }

    /**
     * How much time has passed for certain since {@link #now} returned this, unless the kernel's
     * timer is late.
     */
    long since(long then) {
        return now() - then - resolution;
    }

    /** A precise time, which takes five times as long to read, from another origin. */
    long precise() {
        return precise.getAsLong();
    }

    boolean isTickDue(long now) {
        return now - nextTick >= 0;
    }

    /** Whether nobody has polled for longer than a tick. */
    boolean isTickLate(long now) {
        return now - nextTick > TICK_NANOSECONDS;
    }

    void tick(long now) {
        tick = (int) ((now - start) / TICK_NANOSECONDS);
        nextTick = now + TICK_NANOSECONDS;
    }

    /** The number of the current tick. */
    int tick() {
        return tick;
    }
}
