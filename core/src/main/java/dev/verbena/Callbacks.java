package dev.verbena;

import dev.verbena.internal.connect.Uncaught;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Hands callbacks to threads. Where no thread can be started (pids.max of a container, ulimit -u),
 * a callback is kept until one can: it comes late then, and is not lost.
 */
final class Callbacks implements Executor {
    private static final long RETRY_MILLIS = 100;

    private final Executor threads;
    private final BlockingQueue<Runnable> kept = new LinkedBlockingQueue<>();
    private Thread keeper; // or null; under this object's lock

    /**
     * Makes one; {@link #prepare} has to be called before the first callback.
     *
     * @param threads runs each callback at once on a thread of its own, or throws
     */
    Callbacks(Executor threads) {
        this.threads = threads;
    }

    /**
     * Starts the thread that waits with the callbacks that are kept: it cannot be started any more
     * when it is needed.
     */
    synchronized void prepare() {
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
                continue; // nobody has a reason to
            }
        }
    }

    /** Tries until there is a thread; why there is none is reported once. */
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
