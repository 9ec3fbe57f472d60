package dev.verbena.messaging;

import java.util.concurrent.locks.ReentrantLock;

/** The lock of a connection, which a block can hold: {@code try (var _ = lock.hold()) { … }}. */
@SuppressWarnings("serial") // never serialized
final class ConnectionLock extends ReentrantLock {
    /** Unlocks at the end of the block. */
    interface Held extends AutoCloseable {
        @Override
        void close();
    }

    private final transient Held held = this::unlock; // made once: a block allocates nothing

    Held hold() {
        lock();
        return held;
    }
}
