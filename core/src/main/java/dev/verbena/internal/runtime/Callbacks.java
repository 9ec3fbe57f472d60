package dev.verbena.internal.runtime;

import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.util.Queue;
import java.util.concurrent.Executor;
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

    // Under this object's lock.
    private final Queue<Runnable> kept = new SafeQueue<>();
    private int users;
    private @Nullable Thread keeper;

    /** Makes one. The executor runs each callback at once on a thread of its own, or throws. */
    public Callbacks(Executor threads) {
        this.threads = threads;
    }

    /**
     * Starts the thread that retries the callbacks that are kept, until {@link #release}: when it
     * is needed it could not be started any more.
     */
    public synchronized void prepare() {
        startKeeper();
        users++;
    }

    /**
     * Takes a {@link #prepare} back. After the last one the thread ends when it has nothing left to
     * do: it would keep the class loader of a program that has ended.
     */
    public synchronized void release() {
        users--;
        notifyAll();
    }

    private void startKeeper() {
        if (keeper == null) {
            keeper = Threads.shared().name("verbena-kept-callbacks").start(this::keep);
        }
    }

    @Override
    public void execute(Runnable callback) {
        try {
            threads.execute(callback);
        } catch (Throwable t) {
            keep(callback);
        }
    }

    private synchronized void keep(Runnable callback) {
        kept.add(callback);
        notifyAll();
        Uncaught.run(this::startKeeper); // if it cannot be, the next prepare() does it
    }

    private void keep() {
        boolean more = true;
        while (more) {
            try {
                Runnable next = next();
                more = next != null;
                if (next != null) {
                    start(next);
                }
            } catch (InterruptedException e) {
                continue; // no code interrupts this thread
            }
        }
    }

    /** Waits for a callback; null if the thread is to end. */
    private synchronized @Nullable Runnable next() throws InterruptedException {
        while (kept.isEmpty() && users > 0) {
            wait();
        }
        if (kept.isEmpty()) {
            keeper = null;
        }
        return kept.poll();
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
