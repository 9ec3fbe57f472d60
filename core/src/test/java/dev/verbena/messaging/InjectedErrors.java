package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.atomic.AtomicInteger;

/** An Error at a step of a fake device or network which a test chooses. */
final class InjectedErrors {
    private final AtomicInteger left = new AtomicInteger(-1);
    private volatile @Nullable String thrown;

    /** From now on, the step with this number throws, once. */
    void at(int step) {
        thrown = null;
        left.set(step);
    }

    /** From now on, no step throws. */
    void none() {
        left.set(-1);
    }

    /** The step that threw; null if none did. */
    @Nullable String thrown() {
        return thrown;
    }

    /** Called before each step. */
    void before(String step) {
        if (left.get() >= 0 && left.getAndDecrement() == 0) {
            thrown = step;
            throw new OutOfMemoryError("injected into " + step);
        }
    }
}
