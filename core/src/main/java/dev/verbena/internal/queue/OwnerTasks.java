package dev.verbena.internal.queue;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * What other threads want of the thread that a confined completion queue belongs to: that a peer's
 * disconnect is acted upon, that a slot is given back, that the queue is broken. They leave a task
 * and set a volatile flag; the owner reads the flag in each poll, arm and wait, and runs the tasks.
 * Nobody waits for it.
 */
final class OwnerTasks {
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final Runnable wake;
    private volatile boolean any;

    /**
     * Makes an empty list.
     *
     * @param wake wakes the owner if it waits for completions; called after each task was added
     */
    OwnerTasks(Runnable wake) {
        this.wake = wake;
    }

    void add(Runnable task) {
        tasks.add(task);
        any = true;
        wake.run();
    }

    boolean any() {
        return any;
    }

    /** Runs the tasks; by the owner, which holds no lock of this library. */
    void run() {
        any = false; // first: a task that is added meanwhile sets it again
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            task.run();
        }
    }
}
