package dev.verbena.messaging;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The time of a {@link Poller}, in nanoseconds and in ticks of 100 ms, at which deadlines are
 * looked at. To read a clock costs as much as to poll, so a time that was read just now serves
 * again, and polls that find nothing read it seldom. Of the polling thread, except for {@link
 * #now}.
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
    private boolean isNow; // that was just now

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

    /** Something else was done, which took time. */
    void timePassed() {
        isNow = false;
    }

    /** Whether no time has passed since the last work ended. */
    boolean isAtEndOfWork() {
        return isNow;
    }

    /** Work begins: the time. */
    long workBegins() {
        return isNow ? lastWork : now();
    }

    /** Work, or a sleep, has ended: the time. */
    long workEnds() {
        lastWork = now();
        isNow = true;
        return lastWork;
    }

    /** When the last work ended. */
    long lastWork() {
        return lastWork;
    }

    /** A poll found nothing: whether it is time to look at the clock. */
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
    }

    /** The number of the current tick. */
    int tick() {
        return tick;
    }
}
