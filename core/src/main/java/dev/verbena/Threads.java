package dev.verbena;

import dev.verbena.internal.connect.Uncaught;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** What this layer's own threads have in common. */
final class Threads {
    /**
     * Threads for callbacks: each runs on one that is its own meanwhile, so that one which waits
     * holds up nobody, least of all the thread that brings what it waits for. Threads stay for some
     * seconds and serve again, as starting one takes longer than most callbacks (2 ms of a
     * connection's 20, under emulation). Not virtual ones: a handler is likely to wait for
     * completions, which is a call of the C library that holds its carrier, and as many of them as
     * there are processors would hold up all others. Throws when no thread can be started.
     */
    static final Executor POOL =
            new ThreadPoolExecutor(
                    0,
                    Integer.MAX_VALUE,
                    5,
                    TimeUnit.SECONDS,
                    new SynchronousQueue<>(), // holds nothing: whoever finds no idle thread starts
                    // one
                    Thread.ofPlatform().daemon().name("verbena-callback-", 0).factory());

    /** Where callbacks run that must not be lost for want of a thread. */
    static final Callbacks CALLBACKS = new Callbacks(POOL);

    private Threads() {}

    /**
     * Runs a callback of the caller's; what it throws is reported as any thread's, and ends
     * nothing.
     */
    static void runCallback(Runnable callback) {
        Uncaught.run(callback);
    }

    /** Something to wait for. */
    private interface Wait {
        boolean until(long nanoseconds) throws InterruptedException;
    }

    /**
     * Waits for a thread that was told to end. Not for the current one: a callback may close what
     * it was called for.
     */
    static void join(Thread thread, Duration patience, String what) {
        if (thread != Thread.currentThread()) {
            await(left -> thread.join(Duration.ofNanos(left)), patience, what);
        }
    }

    /** Waits for a thread to get there. */
    static void await(CountDownLatch latch, Duration patience, String what) {
        await(left -> latch.await(left, TimeUnit.NANOSECONDS), patience, what);
    }

    private static void await(Wait wait, Duration patience, String what) {
        boolean interrupted = false;
        long deadline = System.nanoTime() + patience.toNanos();
        try {
            while (true) {
                try {
                    if (!wait.until(deadline - System.nanoTime())) {
                        throw new VerbenaException(
                                Status.IO_TIMEOUT,
                                "Closed, but %s is still running after %d s"
                                        .formatted(what, patience.toSeconds()));
                    }
                    return;
                } catch (InterruptedException e) {
                    interrupted = true; // closing is not given up half way
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
