package dev.verbena.internal.runtime;

import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Uncaught;

import java.util.Queue;
import java.util.concurrent.Executor;

/**
 * Runs tasks on a limited number of threads of another executor; further tasks wait, in order.
 *
 * <p>What a task throws is reported, and the next task runs all the same. May be used from any
 * thread.
 */
public final class LimitedExecutor implements Executor {
    private final Executor threads;
    private final int limit;

    // Both under the queue's lock.
    private final Queue<Runnable> waiting = new SafeQueue<>();
    private int running; // threads that run tasks, or are about to

    /** Creates an executor that has no thread yet. */
    public LimitedExecutor(Executor threads, int limit) {
        this.threads = threads;
        this.limit = limit;
    }

    /**
     * Runs a task, at once or after those that wait.
     *
     * @throws Error when no thread can be started for it; it does not run then
     */
    @Override
    public void execute(Runnable task) {
        synchronized (waiting) {
            waiting.add(task);
            if (running == limit) {
                return;
            }
            running++;
        }
        try {
            threads.execute(this::run);
        } catch (Throwable t) {
            synchronized (waiting) {
                running--;
                if (!waiting.remove(task)) {
                    return; // a thread that runs already has taken it
                }
            }
            throw t;
        }
    }

    /** Removes a task that still waits. */
    public void remove(Runnable task) {
        synchronized (waiting) {
            waiting.remove(task);
        }
    }

    private void run() {
        while (true) {
            Runnable next;
            synchronized (waiting) {
                next = waiting.poll();
                if (next == null) {
                    running--;
                    return;
                }
            }
            Uncaught.run(next);
        }
    }

    /** Whether no task runs or waits, and no thread for a task is being started. */
    public boolean idle() {
        synchronized (waiting) {
            return running == 0 && waiting.isEmpty();
        }
    }
}
