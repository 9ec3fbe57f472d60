package dev.verbena;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;

/**
 * Runs callbacks one after the other, on threads of their own: one that waits holds up the next
 * one, and not the thread that brings what it waits for.
 */
final class SerialCallbacks implements Executor {
    private final LimitedExecutor one;
    private volatile Thread running;

    /**
     * Makes one.
     *
     * @param threads where the callbacks run
     */
    SerialCallbacks(Executor threads) {
        one = new LimitedExecutor(threads, 1, Integer.MAX_VALUE);
    }

    @Override
    public void execute(Runnable callback) {
        one.execute(() -> run(callback));
    }

    private void run(Runnable callback) {
        running = Thread.currentThread();
        try {
            callback.run();
        } finally {
            running = null;
        }
    }

    /** Waits until what was given so far is over; not when called by it. */
    void finish(Duration patience, String what) {
        if (Thread.currentThread() != running && !one.idle()) {
            CountDownLatch over = new CountDownLatch(1);
            execute(over::countDown);
            Threads.await(over, patience, what);
        }
    }
}
