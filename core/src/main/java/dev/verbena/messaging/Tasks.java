package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

import java.util.function.Consumer;

/**
 * Tasks for the polling thread, in order. Adding a {@link Task} that was created in advance
 * allocates nothing, so a connection can always end. May be used from any thread.
 */
final class Tasks {
    /** A task that may be added again and again; while it waits, adding it does nothing. */
    static final class Task {
        private final Runnable action;
        private final boolean again; // at the next tick, if it throws
        private @Nullable Task next; // guarded by the list, as the flag is
        private boolean waits;

        Task(Runnable action, boolean again) {
            this.action = action;
            this.again = again;
        }
    }

    /** Both lists have one monitor: a task is in one of them at most. */
    private final class TaskList {
        private volatile @Nullable Task first;
        private @Nullable Task last;

        void add(Task task) {
            synchronized (Tasks.this) {
                if (task.waits) {
                    return;
                }
                task.waits = true;
                Task before = last;
                last = task;
                if (before == null) {
                    first = task;
                } else {
                    before.next = task;
                }
            }
        }

        /** The last one; null when there is none. */
        @Nullable Task last() {
            if (first == null) {
                return null;
            }
            synchronized (Tasks.this) {
                return last;
            }
        }

        @Nullable Task poll() {
            return first == null ? null : take();
        }

        private @Nullable Task take() {
            synchronized (Tasks.this) {
                Task taken = first;
                if (taken != null) {
                    first = taken.next;
                    if (first == null) {
                        last = null;
                    }
                    taken.next = null;
                    taken.waits = false;
                }
                return taken;
            }
        }
    }

    private final Consumer<Throwable> report;
    private final TaskList ready = new TaskList();
    private final TaskList failed = new TaskList();

    /**
     * Creates a list without tasks.
     *
     * @param report receives the exceptions that tasks throw
     */
    Tasks(Consumer<Throwable> report) {
        this.report = report;
    }

    void add(Task task) {
        ready.add(task);
    }

    boolean isEmpty() {
        return ready.first == null;
    }

    /**
     * Runs the tasks that there are, not those that they add: one that adds itself holds up
     * nothing.
     *
     * @return whether there was any
     */
    boolean run() {
        Task last = ready.last();
        boolean any = last != null;
        Task task = any ? ready.poll() : null;
        while (task != null) {
            try {
                task.action.run();
            } catch (Throwable t) {
                if (task.again) {
                    failed.add(task);
                }
                report.accept(t);
            }
            task = task == last ? null : ready.poll();
        }
        return any;
    }

    /** Called at a tick: adds the failed tasks again that are to be repeated. */
    void runAgain() {
        Task task = failed.poll();
        while (task != null) {
            ready.add(task);
            task = failed.poll();
        }
    }
}
