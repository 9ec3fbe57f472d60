package dev.verbena.internal.runtime;

import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Uncaught;

import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;

/**
 * Runs tasks on a limited number of threads of another executor; further tasks wait, in order.
 *
 * <p>What a task throws is reported, and the next task runs all the same. May be used from any
 * thread.
 */
public final class LimitedExecutor implements Executor {
    private final Executor threads;
    private final int limit;
    private final int capacity;

    // Both under the queue's lock.
    private final Queue<Runnable> waiting = new SafeQueue<>();
    private int running; // threads that run tasks, or are about to

    /**
     * Creates an executor that has no thread yet. Tasks are rejected while {@code capacity} others
     * wait.
     */
    public LimitedExecutor(Executor threads, int limit, int capacity) {
        this.threads = threads;
        this.limit = limit;
        this.capacity = capacity;
    }

    /**
     * Runs a task, at once or after those that wait.
     *
     * @throws RejectedExecutionException when too many wait
     * @throws Error when no thread can be started for it; it does not run then
     */
    @Override
    public void execute(Runnable task) {
        synchronized (waiting) {
            if (waiting.size() >= capacity) {
                throw new RejectedExecutionException(
                        "%d tasks run and %d wait already".formatted(running, waiting.size()));
            }
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
