package dev.verbena.tools;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Ctrl-C and kill: what waits is woken, connections are ended and memory is given back before the
 * process ends. A thread that polls while the process ends would use a library whose memory is gone
 * already, and crash.
 */
final class PerfStop {
    private static final long STOP_TIMEOUT_MILLIS =
            TimeUnit.SECONDS.toMillis(15); // of a slow, emulated machine

    private static final Set<Runnable> WAKERS = ConcurrentHashMap.newKeySet();
    private static volatile boolean asked;
    private static volatile boolean over;

    private PerfStop() {}

    /** From now on, a signal makes this thread's work end, and waits for that. */
    static void watch() {
        begin();
        Thread worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(worker), "perf-stop"));
    }

    /** Work begins that nobody has asked to end. */
    static void begin() {
        asked = false;
        over = false;
    }

    /** Asks this thread's work to end. */
    static void ask(Thread worker) {
        asked = true;
        WAKERS.forEach(Runnable::run);
        worker.interrupt();
    }

    private static void stop(Thread worker) {
        if (over) {
            return;
        }
        ask(worker);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_TIMEOUT_MILLIS);
        try {
            synchronized (PerfStop.class) {
                while (!over && end - System.nanoTime() > 0) {
                    TimeUnit.NANOSECONDS.timedWait(PerfStop.class, end - System.nanoTime());
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The work has ended, and nothing of it is left. */
    static synchronized void over() {
        over = true;
        PerfStop.class.notifyAll();
    }

    /** Whether it is to end. */
    static boolean asked() {
        return asked;
    }

    /** Adds an action that wakes a waiting thread; closing the result removes it. */
    static AutoCloseable waking(Runnable waker) {
        WAKERS.add(waker);
        if (asked) {
            waker.run();
        }
        return () -> WAKERS.remove(waker);
    }
}
