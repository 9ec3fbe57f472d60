package dev.verbena.internal.connect;

import java.lang.invoke.VarHandle;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** What is to be done at some time, by one thread that looks here between its events. */
public final class Timers {
    /** Something to be done, and how to call it off. */
    public interface Timer {
        /** Calls it off; too late does nothing. */
        void cancel();
    }

    /** Nanosecond clocks wrap around: only differences mean anything. */
    private record Moment(long time, long number) implements Comparable<Moment> {
        @Override
        public int compareTo(Moment other) {
            long later = time - other.time;
            return later != 0 ? Long.signum(later) : Long.compare(number, other.number);
        }
    }

    // A hundred years: differences of two moments must not overflow, some late and some far away.
    private static final long LONGEST = TimeUnit.DAYS.toNanos(36_500);
    private static final long FOR_EVER = LONGEST / 2;

    private final ConcurrentSkipListMap<Moment, Runnable> due = new ConcurrentSkipListMap<>();
    private final AtomicLong numbers = new AtomicLong();
    private final Runnable wake;
    // When the thread looks here unless it is woken, or later than that. A connection's steps each
    // have a deadline that is seconds away, and are over in milliseconds: the thread stays with the
    // first moment it was told of, and need not be woken for each that is later.
    private volatile long asleepUntil = System.nanoTime() + LONGEST;

    /**
     * Makes it.
     *
     * @param wake makes the thread look here
     */
    public Timers(Runnable wake) {
        this.wake = wake;
    }

    /**
     * Has something done.
     *
     * @param nanoseconds when, from now
     * @param task what
     * @return how to call it off
     */
    public Timer after(long nanoseconds, Runnable task) {
        long wait = Math.clamp(nanoseconds, 0, LONGEST);
        Moment moment = new Moment(System.nanoTime() + wait, numbers.getAndIncrement());
        due.put(moment, task);
        VarHandle.fullFence(); // first the task is there, then this looks; patience() the reverse
        if (moment.time - asleepUntil < 0) {
            asleepUntil = moment.time;
            wake.run();
        }
        return () -> due.remove(moment);
    }

    /** Does what is due. */
    public void run() {
        for (var first = due.firstEntry();
                first != null && first.getKey().time - System.nanoTime() <= 0;
                first = due.firstEntry()) {
            if (due.remove(first.getKey()) != null) {
                // May end in the last close of an object, of which the device may complain.
                Uncaught.run(first.getValue());
            }
        }
    }

    /**
     * How long the thread may sleep.
     *
     * @return milliseconds, or -1 for ever
     */
    public int patience() {
        long now = System.nanoTime();
        long before = asleepUntil;
        var first = due.firstEntry();
        long until =
                first != null ? first.getKey().time : before - now > 0 ? before : now + LONGEST;
        asleepUntil = until;
        // Whoever adds something earlier now wakes the thread; whoever did before is seen here. The
        // map's own reads have no fence for that.
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
