package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * What other threads want of the thread that a confined completion queue belongs to: that a peer's
 * disconnect is acted upon, that a slot is given back, that the queue is broken. They leave a task
 * and set a volatile flag; the owner reads the flag in each poll, arm and wait, and runs the tasks.
 * Nobody waits for it.
 */
public final class OwnerTasks {
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final QueueLock lock;
    private final Runnable wake;
    private volatile boolean any;

    /**
     * Makes an empty list.
     *
     * @param wake wakes the owner if it waits for completions; called after each task was added
     */
    OwnerTasks(QueueLock lock, Runnable wake) {
        this.lock = lock;
        this.wake = wake;
    }

    /**
     * Runs something at once, or, where the queue is confined to another thread, when that thread
     * polls, arms or waits next.
     *
     * @param task what to run; it holds no lock
     */
    public void runByOwner(Runnable task) {
        if (lock.isForeign()) {
            add(task);
        } else {
            task.run();
        }
    }

    void add(Runnable task) {
        tasks.add(task);
        any = true;
        wake.run();
    }

    /** Whether other threads have left something. */
    public boolean any() {
        return any;
    }

    /**
     * Runs what other threads have left, all of it; by the owner, which holds no lock of this
     * library. Throws the first exception that came out of it.
     */
    public void runAll() {
        if (!any) {
            return;
        }
        any = false; // first: a task that is added meanwhile sets it again
        @Nullable Throwable thrown = null;
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            try {
                task.run();
            } catch (RuntimeException | Error e) { // the others have nothing to do with it
                if (thrown == null) {
                    thrown = e;
                } else if (!thrown.equals(e)) {
                    thrown.addSuppressed(e);
                }
            }
        }
        rethrow(thrown);
    }

    static void rethrow(@Nullable Throwable thrown) {
        if (thrown instanceof Error error) {
            throw error;
        } else if (thrown instanceof RuntimeException exception) {
            throw exception;
        }
    }
}
