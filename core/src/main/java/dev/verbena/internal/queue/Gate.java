package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Membarrier;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.locks.LockSupport;

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
 * takes microseconds, a gate whose owner is disturbed too often is nobody's again: for a second,
 * and for twice as long each time that it soon happens again. After that, whoever comes in a row
 * owns it, but not as long as a former owner may be late, between finding that it owns the gate and
 * its store: it would take another's ownership for its own.
 *
 * <p>For short stretches that call no caller's code. Who is inside enters no second time and does
 * not shut the gate, which would wait for itself; the thread that entered leaves, in a {@code
 * finally} where something inside may throw. Nobody is served in turn.
 */
public final class Gate {
    private static final int OPEN = 0; // to whoever comes
    private static final int OCCUPIED = 1; // by one who did not come as its owner
    private static final int SHUT = 2;
    private static final int OWNED = 3; // the owner comes and goes
    private static final int WANTED = 4; // the same, but somebody else waits for it to be outside

    private static final int SPINS = 100; // a few microseconds, between two yields
    private static final int YIELDS = 20; // before the first park
    private static final long PARK_NANOS = 50_000;
    private static final int ROW = 100;
    private static final int DISTURBANCES = 100; // in a second, of 5 us each: half a thousandth
    private static final int LONGEST_OWNERLESS = 64; // seconds
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
    private Thread former; // an owner that may not have noticed that it is none any more; or null
    private int last; // who came, and how often since somebody else did
    private int row;
    private int second; // when the owner was disturbed, and how often in that second
    private int disturbances;
    private int ended; // when disturbances ended an ownership,
    private int ownerless; // and for how many seconds from then on there is no other

    /** Makes an open gate. */
    public Gate() {}

    /**
     * Goes in, after whoever is inside has left.
     *
     * @return false when the gate is shut
     * @throws IllegalStateException when somebody else owns the gate, and the kernel has no barrier
     *     any more; nothing has changed then, nor when {@link #shut} throws it
     */
    public boolean enter() {
        if (owner == Thread.currentThread()) {
            // Opaque: HotSpot leaves the next line behind it. (The memory model would not promise
            // it to anybody: it is the barrier that others raise which makes two accesses enough.)
            OWNER_INSIDE.setOpaque(this, true);
            if ((int) STATE.getAcquire(this) == OWNED) {
                return true;
            }
            OWNER_INSIDE.setRelease(this, false);
        }
        return enterAsAnybody();
    }

    private boolean enterAsAnybody() {
        int seen = occupy(OCCUPIED);
        try {
            if (seen == OWNED) {
                noteDisturbance();
            } else if (seen == OPEN) {
                noteEntry();
            }
        } catch (Throwable t) {
            leave();
            throw t;
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
        boolean interrupted = false;
        for (int spins = 1; ; spins++) {
            int seen = (int) STATE.compareAndExchangeAcquire(this, OPEN, as);
            if (seen == OWNED) {
                seen = (int) STATE.compareAndExchangeAcquire(this, OWNED, WANTED);
                if (seen == OWNED) {
                    awaitOwner();
                    STATE.setRelease(this, as);
                }
            }
            if (seen == OPEN || seen == OWNED || seen == SHUT) {
                restore(interrupted);
                return seen;
            }
            interrupted |= pause(spins);
        }
    }

    private void awaitOwner() {
        if (owner == Thread.currentThread()) {
            return; // it was kept out by somebody who has left, or it shuts its own gate
        }
        boolean interrupted = false;
        try {
            Membarrier.raise();
            for (int spins = 1; (boolean) OWNER_INSIDE.getAcquire(this); spins++) {
                interrupted |= pause(spins);
            }
        } catch (Throwable t) { // or nobody would get in any more
            STATE.setRelease(this, OWNED);
            throw t;
        } finally {
            restore(interrupted);
        }
    }

    /**
     * Waits for a moment: spins, then yields, and after {@value #YIELDS} yields parks. A virtual
     * thread that was unmounted inside needs a carrier to go on. As many waiters as there are
     * carriers that only yield give one another all of them, for ever.
     *
     * @param spins how often it has been called in this wait
     * @return whether it took back an interrupt, with which a park would return at once. The caller
     *     restores it when its wait ends: not sooner, as a virtual thread that interrupts itself
     *     does not park the next time
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

    private static void restore(boolean interrupted) {
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void noteEntry() {
        Thread thread = Thread.currentThread();
        if (thread == former) {
            former = null; // has noticed
        }
        int number = (int) thread.threadId();
        row = number == last ? row + 1 : 1;
        last = number;
        if (row == ROW) {
            row = 0;
            if (Membarrier.ready()
                    && (ownerless == 0 || now() - ended > ownerless)
                    && !mayBeLate()) {
                owner = thread;
                rest = OWNED;
                former = null;
            }
        }
    }

    /**
     * Whether the former owner may still take itself for the owner. Not when it has ended, or waits
     * as the JVM calls it: on the way in, and until it has taken its flag back, it does neither.
     * One that waits in a native call may be late by that, until it comes back.
     */
    private boolean mayBeLate() {
        if (former == null) {
            return false;
        }
        if (former.getState() == Thread.State.RUNNABLE) {
            return true;
        }
        // It may have begun to run since, and what it then saw of the gate may have been old, or
        // what was seen of it here.
        try {
            Membarrier.raise();
        } catch (IllegalStateException e) {
            return true; // no reason to fail: who asks is inside, and does not have to be the owner
        }
        return former.getState() == Thread.State.RUNNABLE;
    }

    private static int now() {
        return (int) (System.nanoTime() >> 30); // seconds, nearly
    }

    private void noteDisturbance() {
        if (owner == Thread.currentThread()) {
            return;
        }
        if (!owner.isAlive()) {
            owner = null;
            rest = OPEN;
            return;
        }
        int now = now();
        disturbances = now == second ? disturbances + 1 : 1;
        second = now;
        if (disturbances == DISTURBANCES) {
            former = owner;
            owner = null;
            rest = OPEN;
            boolean soon = ownerless > 0 && now - ended <= 3 * ownerless;
            ownerless = soon ? Math.min(2 * ownerless, LONGEST_OWNERLESS) : 1;
            ended = now;
        }
    }

    /** Whether a thread comes and goes as its owner; for tests. */
    boolean isOwnedBy(Thread thread) {
        return owner == thread;
    }

    /** For how many seconds nobody owns it after the last ownership, which was ended; for tests. */
    int ownerless() {
        return ownerless;
    }
}
