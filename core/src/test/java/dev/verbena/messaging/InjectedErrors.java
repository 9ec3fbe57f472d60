package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * A failure at a step of a fake device or network which a test chooses: an Error, or whatever else
 * makes that step fail.
 */
final class InjectedErrors {
    private volatile Consumer<String> how = InjectedErrors::runOutOfMemory;
    private final AtomicInteger left = new AtomicInteger(-1);
    private volatile @Nullable String thrown;

    private static void runOutOfMemory(String step) {
        throw new OutOfMemoryError("injected into " + step);
    }

    /** From now on, the step with this number throws, once. */
    void at(int step) {
        at(step, InjectedErrors::runOutOfMemory);
    }

    /** From now on, the step with this number fails in this way, once. */
    void at(int step, Consumer<String> how) {
        this.how = how;
        thrown = null;
        left.set(step);
    }

    /** From now on, no step throws. */
    void none() {
        left.set(-1);
    }

    /** The step that failed; null if none did. */
    @Nullable String thrown() {
        return thrown;
    }

    /** Called before each step. */
    void before(String step) {
        if (left.get() >= 0 && left.getAndDecrement() == 0) {
            thrown = step;
            how.accept(step);
        }
    }
}
