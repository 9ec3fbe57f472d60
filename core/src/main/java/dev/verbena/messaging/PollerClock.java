package dev.verbena.messaging;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The time of a {@link Poller}, in nanoseconds and in ticks of 100 ms, at which deadlines are
 * checked. Reading a clock costs as much as a poll, so a time that was just read is used again, and
 * empty polls rarely read the clock. For the polling thread only, except for {@link #now}.
 */
final class PollerClock {
    static final long TICK_NANOSECONDS = TimeUnit.MILLISECONDS.toNanos(100);

    private static final int READ_EVERY = 64; // empty polls

    private final LongSupplier source;
    private final long start;
    private long nextTick;
    private int tick;
    private int emptyPolls;
    private long lastWork; // when the last work ended
    private boolean isNow; // no time has passed since then

    PollerClock(LongSupplier source) {
        this.source = source;
        this.start = source.getAsLong();
        this.lastWork = start;
        this.nextTick = start + TICK_NANOSECONDS;
    }

    /** How many ticks a time takes, rounded up. */
    static int ticks(Duration duration) {
        return Math.clamp(
                Math.ceilDiv(TimeUnit.NANOSECONDS.convert(duration), TICK_NANOSECONDS),
                1,
                Integer.MAX_VALUE / 2);
    }

    long now() {
        return source.getAsLong();
    }

    /** Notes that time has passed since the last work ended. */
    void timePassed() {
        isNow = false;
    }

    /** Whether no time has passed since the last work ended. */
    boolean isAtEndOfWork() {
        return isNow;
    }

    /** Returns the time at which work begins. */
    long workBegins() {
        return isNow ? lastWork : now();
    }

    /** Notes and returns the time at which work, or a sleep, ended. */
    long workEnds() {
        lastWork = now();
        isNow = true;
        return lastWork;
    }

    /** When the last work ended. */
    long lastWork() {
        return lastWork;
    }

    /** Counts an empty poll. Returns whether it is time to read the clock. */
    boolean isToBeRead() {
        return ++emptyPolls % READ_EVERY == 0;
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
        isNow = false; // what the tick does takes time
    }

    /** The number of the current tick. */
    int tick() {
        return tick;
    }
}
