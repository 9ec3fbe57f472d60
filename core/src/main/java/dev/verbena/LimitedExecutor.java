package dev.verbena;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;

/**
 * Runs tasks on at most so many threads of another executor at a time; the others wait, in order.
 * What a task throws is reported, and the next one runs all the same.
 */
final class LimitedExecutor implements Executor {
    private final Executor threads;
    private final int limit;
    private final int room;

    // Both under the queue's lock.
    private final Queue<Runnable> waiting = new ArrayDeque<>();
    private int running; // threads that run tasks, or are about to

    /**
     * Makes one without a thread.
     *
     * @param threads where the tasks run
     * @param limit how many run at a time
     * @param room how many may wait; further ones are rejected
     */
    LimitedExecutor(Executor threads, int limit, int room) {
        this.threads = threads;
        this.limit = limit;
        this.room = room;
    }

    /**
     * Has a task run.
     *
     * @throws RejectedExecutionException when too many wait
     * @throws Error when no thread can be started for it; it does not run then
     */
    @Override
    public void execute(Runnable task) {
        synchronized (waiting) {
            if (waiting.size() >= room) {
                throw new RejectedExecutionException(
                        "%d run and %d wait already".formatted(running, waiting.size()));
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
            Threads.runCallback(next);
        }
    }

    /** Whether no task runs or waits. */
    boolean idle() {
        synchronized (waiting) {
            return running == 0 && waiting.isEmpty();
        }
    }
}
