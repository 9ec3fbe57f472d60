package dev.verbena.internal.runtime;

import dev.verbena.internal.util.Uncaught;

import java.lang.invoke.VarHandle;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Tasks for a later time, run by one thread that calls {@link #run} between its events and sleeps
 * for {@link #sleepMillis} at most.
 *
 * <p>Any thread may add or cancel tasks.
 */
public final class Timers {
    /**
     * A task that was added. Tasks are ordered by the time at which they are due. Nanosecond clocks
     * wrap around: only differences mean anything.
     */
    public final class Timer implements Comparable<Timer> {
        private final long time;
        private final long number;

        Timer(long time, long number) {
            this.time = time;
            this.number = number;
        }

        /** Removes the task; does nothing when it runs or has run. */
        public void cancel() {
            due.remove(this);
        }

        @Override
        public int compareTo(Timer other) {
            long later = time - other.time;
            return later != 0 ? Long.signum(later) : Long.compare(number, other.number);
        }
    }

    // A hundred years: differences of two moments must not overflow, some late and some far away.
    private static final long LONGEST = TimeUnit.DAYS.toNanos(36_500);
    private static final long FOR_EVER = LONGEST / 2;

    private final ConcurrentSkipListMap<Timer, Runnable> due = new ConcurrentSkipListMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final Runnable wake;
    // When the thread calls run() unless it is woken, or later than that. A connection's steps each
    // have a deadline that is seconds away, and end within milliseconds: the thread keeps the first
    // moment that was asked for, and is not woken for each that is later.
    private volatile long asleepUntil = System.nanoTime() + LONGEST;

    public Timers(Runnable wake) {
        this.wake = wake;
    }

    /**
     * Adds a task. What it throws is reported. After an OutOfMemoryError it runs again: it may not
     * have had the memory to add its next run, or to end what waits for it.
     */
    public Timer after(long nanoseconds, Runnable task) {
        long wait = Math.clamp(nanoseconds, 0, LONGEST);
        Timer timer = new Timer(System.nanoTime() + wait, numbers.getAndIncrement());
        due.put(timer, task);
        VarHandle.fullFence(); // the task is stored before this reads; sleepMillis() the reverse
        if (timer.time - asleepUntil < 0) {
            asleepUntil = timer.time;
            wake.run();
        }
        return timer;
    }

    /**
     * Runs the tasks that are due.
     *
     * @throws OutOfMemoryError of a task, which stays due; the others have run
     */
    public void run() {
        OutOfMemoryError last = null;
        for (var next = due.firstEntry();
                next != null && next.getKey().time - System.nanoTime() <= 0;
                next = due.higherEntry(next.getKey())) {
            try {
                next.getValue().run();
            } catch (OutOfMemoryError e) {
                last = e;
                continue;
            } catch (Throwable t) { // of the last close of an object, which the device may refuse
                Uncaught.report(t);
            }
            next.getKey().cancel();
        }
        if (last != null) {
            throw last;
        }
    }

    /** How many milliseconds the thread may sleep, or -1 without limit. */
    public int sleepMillis() {
        long now = System.nanoTime();
        long before = asleepUntil;
        var first = due.firstEntry();
        long until =
                first != null ? first.getKey().time : before - now > 0 ? before : now + LONGEST;
        asleepUntil = until;
        // A thread that adds an earlier task from now on wakes this one; what was added before is
        // found by the next read. The map's own reads have no fence for that.
        VarHandle.fullFence();
        first = due.firstEntry();
        if (first != null && first.getKey().time - until < 0) {
            until = first.getKey().time;
        }
        long left = until - now;
        if (left >= FOR_EVER) {
            return -1;
        }
        // One more than the whole ones: never too early, which would be a loop.
        return left <= 0
                ? 0
                : (int) Math.min(Integer.MAX_VALUE, TimeUnit.NANOSECONDS.toMillis(left) + 1);
    }
}
