package dev.verbena.internal.runtime;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;

/**
 * Runs callbacks one after the other, on threads of another executor.
 *
 * <p>A callback that waits holds up the next callback, and not the event thread, which may have to
 * bring what it waits for.
 */
public final class SerialCallbacks implements Executor {
    private final LimitedExecutor one;
    private volatile @Nullable Thread running;

    public SerialCallbacks(Executor threads) {
        one = new LimitedExecutor(threads, 1);
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

    /**
     * Waits until the callbacks that were given so far have run. Does not wait when a callback
     * calls it.
     */
    public boolean finish(Duration timeout) {
        if (Thread.currentThread() == running || one.idle()) {
            return true;
        }
        CountDownLatch over = new CountDownLatch(1);
        execute(over::countDown);
        return Threads.await(over, timeout);
    }
}
