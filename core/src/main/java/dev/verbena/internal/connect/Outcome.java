package dev.verbena.internal.connect;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * What a trigger leaves behind: effects that run without the connection's lock, because they may
 * run code of others (futures, callbacks, the release of a queue pair), and what a caller gets.
 */
final class Outcome {
    private final List<Runnable> effects = new ArrayList<>();

    /** The future of the step that the caller waits for. */
    @Nullable CompletableFuture<Void> result;

    /** What the caller gets instead. */
    @Nullable Failure failure;

    /** What the action found to have happened as well: fired next. */
    @Nullable ConnectionTrigger followedBy;

    void later(Runnable effect) {
        effects.add(effect);
    }

    /**
     * Completes a step's future, exceptionally if there is a failure, with the other effects: what
     * depends on the future runs then.
     */
    void end(ConnectionStep step, @Nullable Failure failure) {
        effects.add(new End(step, failure));
    }

    private record End(ConnectionStep step, @Nullable Failure failure) implements Runnable {
        @Override
        public void run() {
            step.complete(failure);
        }
    }

    /** Runs the effects; each runs although one before it throws. */
    void run() {
        run(0);
    }

    private void run(int from) {
        if (from < effects.size()) {
            try {
                effects.get(from).run(); // perhaps an object's last close, which may fail
            } finally {
                run(from + 1);
            }
        }
    }
}
