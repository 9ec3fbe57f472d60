package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

/**
 * Tasks for the polling thread, in order. A {@link Task} that was created ahead is added without
 * memory: a channel can always end. From any thread.
 */
final class Tasks {
    /** A task that may be added again and again; while it waits, adding it does nothing. */
    static final class Task {
        private final Runnable action;
        final boolean again; // at the next tick, if it throws
        private @Nullable Task next; // guarded by the queue, as the flag is
        private boolean waits;

        Task(Runnable action, boolean again) {
            this.action = action;
            this.again = again;
        }

        void run() {
            action.run();
        }
    }

    private volatile @Nullable Task first;
    private @Nullable Task last;

    synchronized void add(Task task) {
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

    /** Moves all tasks of another queue to the end of this one. */
    void addAll(Tasks others) {
        Task moved = others.poll();
        while (moved != null) {
            add(moved);
            moved = others.poll();
        }
    }

    boolean isEmpty() {
        return first == null;
    }

    /** Takes the oldest task; null when there is none. */
    @Nullable Task poll() {
        return isEmpty() ? null : take();
    }

    private synchronized @Nullable Task take() {
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
