package dev.verbena.internal.runtime;

import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Runs callbacks on threads of another executor, and loses none.
 *
 * <p>Where no thread can be started (pids.max of a container, ulimit -u), a callback is kept until
 * one can: it comes late then.
 */
public final class Callbacks implements Executor {
    private static final long RETRY_MILLIS = 100;

    private final Executor threads;
    private final BlockingQueue<Runnable> kept = new LinkedBlockingQueue<>();
    private @Nullable Thread keeper; // under this object's lock

    /**
     * Makes one; {@link #prepare} has to be called before the first callback. The executor runs
     * each callback at once on a thread of its own, or throws.
     */
    public Callbacks(Executor threads) {
        this.threads = threads;
    }

    /**
     * Starts the thread that retries the callbacks that are kept. When it is needed it could not be
     * started any more.
     */
    public synchronized void prepare() {
        if (keeper == null) {
            keeper = Thread.ofPlatform().daemon().name("verbena-kept-callbacks").start(this::keep);
        }
    }

    @Override
    public void execute(Runnable callback) {
        try {
            threads.execute(callback);
        } catch (Throwable t) {
            kept.add(callback);
        }
    }

    private void keep() {
        while (true) {
            try {
                start(kept.take());
            } catch (InterruptedException e) {
                continue; // no code interrupts this thread
            }
        }
    }

    /** Tries until a thread can be started; the reason why not is reported once. */
    private void start(Runnable callback) throws InterruptedException {
        boolean reported = false;
        while (true) {
            try {
                threads.execute(callback);
                return;
            } catch (Throwable t) {
                if (!reported) {
                    Uncaught.report(t);
                    reported = true;
                }
            }
            TimeUnit.MILLISECONDS.sleep(RETRY_MILLIS);
        }
    }
}
