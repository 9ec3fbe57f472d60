package dev.verbena.internal.queue;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import org.jspecify.annotations.Nullable;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;

/**
 * Guards a queue against a second thread and against use after its close. There are two kinds.
 *
 * <p><b>Shared</b>: a small lock, taken by a compare-and-set. A thread that finds it taken spins
 * for some microseconds, then yields, then parks for short times. What runs under it is a post or a
 * poll, mostly well below a microsecond. The lock is not fair.
 *
 * <p><b>Confined</b>: everything under it belongs to one thread, so it takes no lock. {@link
 * #acquire} compares the current thread with the owner, and throws for any other.
 *
 * <p>Not reentrant: a thread that holds the lock must not call {@link #acquire} or {@link #close};
 * it would deadlock. No caller's code runs under it. A native object must not be destroyed while a
 * post uses it, so a close takes the lock for good.
 */
public class QueueLock {
    private static final int FREE = 0;
    private static final int TAKEN = 1;
    private static final int CLOSED = 2;

    private static final int SPINS = 100; // a few microseconds, between two yields
    private static final int YIELDS = 20; // before the first park
    private static final long PARK_NANOS = 50_000;
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(QueueLock.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final @Nullable Thread owner; // null: shared
    private @Nullable Thread
            user; // the owner while the lock is open: all that a post or poll reads
    private int state;

    /**
     * Makes a free lock.
     *
     * @param owner the only thread that may acquire it, or null for any
     */
    public QueueLock(@Nullable Thread owner) {
        this.owner = owner;
        this.user = owner;
    }

    /**
     * Acquires the lock. Never throws for what the machine does.
     *
     * @return false when it is closed; it is not held then
     * @throws WrongThreadException on a confined lock, when the current thread is not its owner
     */
    public final boolean acquire() {
        if (user == Thread.currentThread()) {
            return true;
        }
        if (owner == null) {
            return STATE.compareAndSet(this, FREE, TAKEN) || take(TAKEN) != CLOSED;
        }
        checkOwner();
        return false; // closed
    }

    /** Releases the lock; only after {@link #acquire} returned true. */
    public final void release() {
        if (owner == null) {
            STATE.setRelease(this, FREE);
        }
    }

    /**
     * Runs something under the lock. Returns false if the lock is closed. Not for the data path.
     */
    @CanIgnoreReturnValue
    final boolean run(Runnable what) {
        if (!acquire()) {
            return false;
        }
        try {
            what.run();
            return true;
        } finally {
            release();
        }
    }

    /**
     * Closes the lock for good, after its holder has released it. A second close does nothing.
     *
     * @throws WrongThreadException on a confined lock, when the current thread is not its owner
     */
    public final void close() {
        if (owner == null) {
            take(CLOSED);
        } else if (acquire()) {
            state = CLOSED;
            user = null;
        }
    }

    /** Whether the lock is confined to another thread than the current one. */
    public final boolean isForeign() {
        return owner != null && owner != Thread.currentThread();
    }

    /** The thread that the lock is confined to; null for a shared lock. */
    public final @Nullable Thread owner() {
        return owner;
    }

    /** Throws a {@link WrongThreadException} when the lock is confined to another thread. */
    public final void checkOwner() {
        if (isForeign()) {
            throw new WrongThreadException(
                    "This queue is confined to %s, and was used by %s: its completion queue was made by createConfinedCompletionQueue, so only the thread that made it may post, poll, arm, wait and close"
                            .formatted(owner, Thread.currentThread()));
        }
    }

    /**
     * Waits until the lock is free or closed.
     *
     * @param next the state from then on; a closed lock stays closed
     */
    private int take(int next) {
        boolean interrupted = false;
        for (int spins = 1; ; spins++) {
            int seen = (int) STATE.compareAndExchange(this, FREE, next);
            if (seen != TAKEN) {
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
                return seen;
            }
            interrupted |= pause(spins);
        }
    }

    /**
     * Waits for a moment. Yielding alone is not enough: a virtual thread that was unmounted while
     * it held the lock needs a carrier, and as many waiting virtual threads as there are carriers
     * would yield to one another for ever.
     *
     * @param spins how many times it was called in this wait
     * @return whether it cleared an interrupt, with which a park would return at once. The caller
     *     restores it when its wait ends, not sooner: a virtual thread that interrupts itself does
     *     not park the next time
     */
    private static boolean pause(int spins) {
        if (spins % SPINS != 0) {
            Thread.onSpinWait();
            return false;
        }
        if (spins <= SPINS * YIELDS) {
            Thread.yield();
            return false;
        }
        boolean interrupted = Thread.interrupted();
        LockSupport.parkNanos(PARK_NANOS);
        return interrupted;
    }
}
