package dev.verbena.messaging;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The lock of a connection, which a block can hold: {@code try (var _ = lock.hold()) { … }}. If the
 * poller is {@linkplain Poller#onThisThread confined} to a thread, only that thread may use the
 * connection, so it takes no lock until the poller is closed: four locks for each message would
 * take a fifth of its time.
 */
@SuppressWarnings("serial") // never serialized
final class ConnectionLock extends ReentrantLock {
    /** Unlocks at the end of the block. */
    interface Held extends AutoCloseable {
        @Override
        void close();
    }

    private static final Held NOTHING = () -> {};

    private final transient Poller poller;
    private final transient Held held = this::unlock; // made once: a block allocates nothing

    ConnectionLock(Poller poller) {
        this.poller = poller;
    }

    /**
     * Begins a block.
     *
     * @throws WrongThreadException if the poller is confined to another thread
     */
    Held hold() {
        if (poller.isConfined()) {
            poller.checkThread();
            return NOTHING;
        }
        lock();
        return held;
    }

    /** As {@link #hold}, for a thread that may be interrupted while it waits for the lock. */
    Held holdInterruptibly() throws InterruptedException {
        if (poller.isConfined()) {
            return hold();
        }
        lockInterruptibly();
        return held;
    }

    /**
     * Wakes all threads that wait. In a block; only where there is a lock may other threads wait.
     */
    void signalAll(Condition condition) {
        if (isHeldByCurrentThread()) {
            condition.signalAll();
        }
    }
}
