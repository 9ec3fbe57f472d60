package dev.verbena;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** How tests wait for facts, for 30 seconds at most. */
public final class Until {
    private static final long LIMIT = TimeUnit.SECONDS.toNanos(30);
    private static final long INTERVAL = TimeUnit.MICROSECONDS.toNanos(100);

    private Until() {}

    /** Without a library of assertions, so that tests of other modules may use this class. */
    private static void check(boolean inTime) {
        if (!inTime) {
            throw new AssertionError("Not within 30 seconds");
        }
    }

    /**
     * Waits for a fact that changes under a monitor and is followed by a {@code notifyAll} there.
     * Code that the fact calls must need no other lock.
     */
    public static void notified(Object monitor, BooleanSupplier fact) {
        long end = System.nanoTime() + LIMIT;
        boolean interrupted = false;
        synchronized (monitor) {
            while (!fact.getAsBoolean()) {
                long left = end - System.nanoTime();
                check(left > 0);
                try {
                    TimeUnit.NANOSECONDS.timedWait(monitor, left);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits for a latch, in a thread that nobody interrupts. */
    public static void reached(CountDownLatch latch) {
        try {
            check(latch.await(LIMIT, TimeUnit.NANOSECONDS));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits for the next element. */
    public static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T next = queue.poll(LIMIT, TimeUnit.NANOSECONDS);
        check(next != null);
        return next;
    }

    /** Waits for the next elements. */
    public static <T> List<T> next(BlockingQueue<T> queue, int count) throws InterruptedException {
        List<T> all = new ArrayList<>();
        while (all.size() < count) {
            all.add(next(queue));
        }
        return all;
    }

    /** Waits for a fact that the library does not report: asks for it every 0.1 ms. */
    public static void holds(BooleanSupplier fact) {
        long end = System.nanoTime() + LIMIT;
        while (!fact.getAsBoolean()) {
            check(end - System.nanoTime() > 0);
            LockSupport.parkNanos(INTERVAL);
        }
    }

    /** Waits until a thread is in one of these states, which the JDK does not report. */
    public static void isIn(Thread thread, Thread.State... states) {
        holds(() -> Arrays.asList(states).contains(thread.getState()));
    }
}
