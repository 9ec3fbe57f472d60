package dev.verbena.messaging;

import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.NotifyType;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

/** A completion queue of a {@link Poller}, and how many completions of it are spoken for. */
final class PollerQueue {
    /** How many completions a poll takes at most. */
    static final int BATCH = 64;

    private final CompletionQueue queue;
    private final Completions completions = new Completions(BATCH);
    private int reserved; // guarded by the poller
    private boolean armed; // of the polling thread
    private volatile boolean broken;

    PollerQueue(CompletionQueue queue) {
        this.queue = queue;
    }

    CompletionQueue queue() {
        return queue;
    }

    boolean reserve(int completionCount) {
        if (broken || reserved + completionCount > queue.depth()) {
            return false;
        }
        reserved += completionCount;
        return true;
    }

    void release(int completionCount) {
        reserved -= completionCount;
    }

    /**
     * Polls once.
     *
     * @return how many completions came, for {@link #dispatch}
     */
    int poll() {
        return queue.poll(completions);
    }

    /** Hands what came to its connections. */
    void dispatch(int count) {
        for (int i = 0; i < count; i++) {
            if (completions.attachment(i) instanceof PolledConnection<?> connection) {
                connection.dispatch(completions, i);
            }
        }
    }

    /** Whether the queue was found broken before. */
    boolean broken() {
        return broken;
    }

    /** Marks the queue as broken; the poller closes its connections. */
    void broke() {
        broken = true;
    }

    /**
     * Arms it, unless it is armed.
     *
     * @return whether there is something to poll
     */
    boolean arm() {
        if (!armed && !broken) {
            try {
                boolean fired = queue.arm(NotifyType.ANY);
                armed = !fired;
                return fired;
            } catch (VerbenaException e) {
                return true; // the next poll finds out what is wrong
            }
        }
        return false;
    }

    /** It has fired. */
    void fired(@Nullable CompletionQueue which) {
        if (which == queue) {
            armed = false;
        }
    }
}
