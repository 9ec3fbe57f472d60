package dev.verbena.internal.queue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Lets one thread at a time into a short stretch of native calls, and none after it was shut.
 *
 * <p>NDK lets a close run beside a post, and the native object must not go away under the post's
 * feet. Waiting is spinning: what happens inside is a post or a poll, most often well below a
 * microsecond or one short system call. A bind that makes its window anew, and a refusal that ends
 * the queue pair, take a few system calls.
 */
public final class Gate {
    private static final int OPEN = 0;
    private static final int OCCUPIED = 1;
    private static final int SHUT = 2;
    private static final int SPINS = 100; // a few microseconds
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Gate.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private int state;

    /** Makes an open gate. */
    public Gate() {}

    /**
     * Goes in, after whoever is inside has left.
     *
     * @return false when the gate is shut
     */
    public boolean enter() {
        int spins = 0;
        while (true) {
            int seen = (int) STATE.compareAndExchangeAcquire(this, OPEN, OCCUPIED);
            if (seen == OPEN) {
                return true;
            }
            if (seen == SHUT) {
                return false;
            }
            pause(++spins);
        }
    }

    /**
     * Who is inside may have been descheduled: a virtual thread gets no carrier back while others
     * spin on all of them.
     */
    private static void pause(int spins) {
        if (spins % SPINS == 0) {
            Thread.yield();
        } else {
            Thread.onSpinWait();
        }
    }

    /** Goes out; only after {@link #enter} answered true. */
    public void leave() {
        STATE.setRelease(this, OPEN);
    }

    /** Shuts the gate for good, after whoever is inside has left. */
    public void shut() {
        int spins = 0;
        while (true) {
            int seen = (int) STATE.compareAndExchangeAcquire(this, OPEN, SHUT);
            if (seen != OCCUPIED) {
                return;
            }
            pause(++spins);
        }
    }
}
