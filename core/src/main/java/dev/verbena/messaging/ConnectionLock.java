package dev.verbena.messaging;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * The lock of a connection, which a block can hold: {@code try (var _ = lock.hold()) { … }}. If the
 * poller is {@linkplain Poller#onThisThread confined} to a thread, only that thread may use the
 * connection, so it takes no lock until the poller is closed: four locks for each message would
 * take a tenth of its time. So all connections of such a poller have the same one.
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

    static ConnectionLock of(Poller poller) {
        return poller.isConfined() ? poller.lock : new ConnectionLock(poller);
    }

    /**
     * Begins a block.
     *
     * @throws WrongThreadException if the poller is confined to another thread
     */
    Held hold() {
        if (isUnneeded()) {
            return NOTHING;
        }
        lock();
        return held;
    }

    /** As {@link #hold}, for a thread that may be interrupted. */
    Held holdInterruptibly() throws InterruptedException {
        if (isUnneeded()) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            return NOTHING;
        }
        lockInterruptibly();
        return held;
    }

    /**
     * Begins a block as {@link #hold}, unless another thread is in one for longer than a moment;
     * then it returns null.
     */
    @Nullable Held tryHold() {
        if (isUnneeded()) {
            return NOTHING;
        }
        try {
            return tryLock() || tryLock(1, TimeUnit.MILLISECONDS) ? held : null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    /** Whether no other thread may be in a block. Only the polling thread can end that. */
    private boolean isUnneeded() {
        if (!poller.isConfined()) {
            return false;
        }
        if (poller.onPollingThread()) {
            return true;
        }
        poller.checkThread(); // returns if the poller was closed meanwhile
        return false;
    }

    /**
     * Runs an action when a future fails. Any thread may cancel one, or time it out; the action
     * runs in a thread that may use the connection.
     */
    void whenFailed(CompletableFuture<?> future, Consumer<? super Throwable> action) {
        var _ =
                future.whenComplete(
                        (value, thrown) -> {
                            if (thrown != null && poller.isForeign()) {
                                poller.execute(() -> action.accept(thrown));
                            } else if (thrown != null) {
                                action.accept(thrown);
                            }
                        });
    }

    /** Wakes a thread that waits. In a block; without a lock, no other thread does. */
    void signal(@Nullable Condition condition) {
        if (condition != null && !poller.isConfined()) {
            condition.signal();
        }
    }

    /** Wakes all threads that wait. In a block; without a lock, no other thread does. */
    void signalAll(@Nullable Condition condition) {
        if (condition != null && !poller.isConfined()) {
            condition.signalAll();
        }
    }
}
