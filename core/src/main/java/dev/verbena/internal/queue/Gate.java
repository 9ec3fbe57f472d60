package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Membarrier;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Lets one thread at a time into a short stretch of native calls, and none after it was shut.
 *
 * <p>NDK lets a close run beside a post, and the native object must not go away under the post's
 * feet. Waiting is spinning: what happens inside is a post or a poll, most often well below a
 * microsecond or one short system call. A bind that makes its window anew, and a refusal that ends
 * the queue pair, take a few system calls.
 *
 * <p>Most queues are one thread's, and for that one a compare-and-set each time is dear: a post and
 * its poll, with a gate each, take 39 ns with both and 32 without (Intel, Sapphire Rapids; 42 and
 * 39 on an AMD EPYC). So who comes {@value #ROW} times in a row owns the gate from then on. Its
 * owner says that it is inside by a plain store, and then looks whether somebody else wants in. The
 * processor may do the second before others can see the first, so it is they who make up for it:
 * who wants in says so, raises a {@linkplain Membarrier barrier} on the processors of all threads,
 * and knows then that either the owner's store can be seen, or the owner sees the wish. As that
 * takes microseconds, a gate whose owner is disturbed too often is nobody's again, for as long as
 * the owner lives: one that is late, between finding that it owns the gate and its store, would
 * take another's ownership for its own.
 */
public final class Gate {
    private static final int OPEN = 0; // to whoever comes
    private static final int OCCUPIED = 1; // by one who did not come as its owner
    private static final int SHUT = 2;
    private static final int OWNED = 3; // the owner comes and goes
    private static final int WANTED = 4; // the same, but somebody else waits for it to be outside

    private static final int SPINS = 100; // a few microseconds
    private static final int ROW = 100;
    private static final int DISTURBANCES = 100; // in a second: half a thousandth of it
    private static final VarHandle STATE;
    private static final VarHandle OWNER_INSIDE;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            STATE = lookup.findVarHandle(Gate.class, "state", int.class);
            OWNER_INSIDE = lookup.findVarHandle(Gate.class, "ownerInside", boolean.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private int state;
    private boolean ownerInside; // the owner's to write
    private Thread owner; // all others read null or somebody else here, whenever they look

    // Of who is inside without being the owner.
    private int rest; // what the state is after it: OPEN or OWNED
    private boolean settled; // has had an owner, who lives
    private int last; // who came, and how often since somebody else did
    private int row;
    private int second; // when the owner was disturbed, and how often in that second
    private int disturbances;

    /** Makes an open gate. */
    public Gate() {}

    /**
     * Goes in, after whoever is inside has left.
     *
     * @return false when the gate is shut
     */
    public boolean enter() {
        if (owner == Thread.currentThread()) {
            OWNER_INSIDE.setOpaque(this, true); // opaque: the JIT leaves the next line behind it
            if ((int) STATE.getAcquire(this) == OWNED) {
                return true;
            }
            OWNER_INSIDE.setRelease(this, false);
        }
        return enterAsAnybody();
    }

    private boolean enterAsAnybody() {
        int seen = occupy(OCCUPIED);
        if (seen == OWNED) {
            noteDisturbance();
        } else if (seen == OPEN && !settled) {
            noteEntry();
        }
        return seen != SHUT;
    }

    /** Goes out; only after {@link #enter} answered true. */
    public void leave() {
        // Inside, the owner as such finds OWNED or WANTED: who wants in leaves that until it is in.
        if (state == OCCUPIED) {
            STATE.setRelease(this, rest);
        } else {
            OWNER_INSIDE.setRelease(this, false);
        }
    }

    /** Shuts the gate for good, after whoever is inside has left. */
    public void shut() {
        occupy(SHUT);
    }

    /**
     * Waits until nobody is inside, and sees to it that nobody else gets in.
     *
     * @param as the state from then on
     * @return the state before: OPEN, OWNED, or SHUT, which stays
     */
    private int occupy(int as) {
        int spins = 0;
        while (true) {
            int seen = (int) STATE.compareAndExchangeAcquire(this, OPEN, as);
            if (seen == OWNED) {
                seen = (int) STATE.compareAndExchangeAcquire(this, OWNED, WANTED);
                if (seen == OWNED) {
                    awaitOwner();
                    STATE.setRelease(this, as);
                }
            }
            if (seen == OPEN || seen == OWNED || seen == SHUT) {
                return seen;
            }
            pause(++spins);
        }
    }

    private void awaitOwner() {
        if (owner == Thread.currentThread()) {
            return; // it was kept out by somebody who has left, or it shuts its own gate
        }
        try {
            Membarrier.raise();
        } catch (IllegalStateException e) {
            STATE.setRelease(this, OWNED);
            throw e;
        }
        int spins = 0;
        while ((boolean) OWNER_INSIDE.getAcquire(this)) {
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

    private void noteEntry() {
        Thread thread = Thread.currentThread();
        int number = (int) thread.threadId();
        row = number == last ? row + 1 : 1;
        last = number;
        if (row == ROW) {
            row = 0;
            if (Membarrier.ready()) {
                owner = thread;
                rest = OWNED;
                settled = true;
            }
        }
    }

    private void noteDisturbance() {
        if (owner == Thread.currentThread()) {
            return;
        }
        if (!owner.isAlive()) {
            owner = null;
            rest = OPEN;
            settled = false;
            return;
        }
        int now = (int) (System.nanoTime() >> 30); // seconds, nearly
        disturbances = now == second ? disturbances + 1 : 1;
        second = now;
        if (disturbances == DISTURBANCES) {
            owner = null;
            rest = OPEN;
        }
    }

    /** Whether a thread comes and goes as its owner; for tests. */
    boolean isOwnedBy(Thread thread) {
        return owner == thread;
    }
}
