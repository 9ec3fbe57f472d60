package dev.verbena;

import java.time.Duration;

/** What this layer's own threads have in common. */
final class Threads {
    private Threads() {}

    /**
     * Runs a callback of the caller's; what it throws is reported as any thread's, and ends
     * nothing.
     */
    static void runCallback(Runnable callback) {
        try {
            callback.run();
        } catch (Throwable t) {
            Thread current = Thread.currentThread();
            current.getUncaughtExceptionHandler().uncaughtException(current, t);
        }
    }

    /**
     * Waits for a thread that was told to end. Not for the current one: a callback may close what
     * it was called for.
     */
    static void join(Thread thread, Duration patience, String what) {
        if (thread == Thread.currentThread()) {
            return;
        }
        boolean interrupted = false;
        long deadline = System.nanoTime() + patience.toNanos();
        try {
            while (true) {
                try {
                    if (!thread.join(Duration.ofNanos(deadline - System.nanoTime()))) {
                        throw new VerbenaException(
                                Status.IO_TIMEOUT,
                                "Closed, but %s is still running after %d s, in thread %s"
                                        .formatted(what, patience.toSeconds(), thread.getName()));
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
