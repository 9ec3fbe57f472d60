package dev.verbena.internal.queue;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.internal.util.Fields;

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
    private static final VarHandle STATE =
            Fields.handle(MethodHandles.lookup(), "state", int.class);

    // In an array: compilers would drop what depends on a constant.
    private static final boolean[] NEVER = {false};

    private final @Nullable Thread owner; // null: shared
    private @Nullable Thread
            user; // the owner while the lock is open: all that a post or poll reads

    @SuppressWarnings("UnusedVariable") // by STATE
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
     * Throws a {@link StackOverflowError} where less than 8 KiB of the stack is left: many times
     * what a post, a poll or a close needs, even interpreted. To be called before a lock is
     * acquired. Later, the error would leave the lock acquired, as even its release may find no
     * stack, and the request half posted.
     *
     * <p>The JVM checks that the stack has room for the frame of a method when it calls the method,
     * and when it calls a compiled method into which that one was inlined: its code may be left for
     * the interpreter, which needs the whole frame. So a method with many variables, none of which
     * is ever used, makes sure of that much stack, and costs nothing else.
     */
    @SuppressWarnings({"unused", "UnusedVariable"})
    public static void checkStack() {
        long a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
        long a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23;
        long a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35;
        long a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47;
        long a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59;
        long a60, a61, a62, a63, a64, a65, a66, a67, a68, a69, a70, a71;
        long a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83;
        long a84, a85, a86, a87, a88, a89, a90, a91, a92, a93, a94, a95;
        long a96, a97, a98, a99, a100, a101, a102, a103, a104, a105, a106, a107;
        long a108, a109, a110, a111, a112, a113, a114, a115, a116, a117, a118, a119;
        long a120, a121, a122, a123, a124, a125, a126, a127, a128, a129, a130, a131;
        long a132, a133, a134, a135, a136, a137, a138, a139, a140, a141, a142, a143;
        long a144, a145, a146, a147, a148, a149, a150, a151, a152, a153, a154, a155;
        long a156, a157, a158, a159, a160, a161, a162, a163, a164, a165, a166, a167;
        long a168, a169, a170, a171, a172, a173, a174, a175, a176, a177, a178, a179;
        long a180, a181, a182, a183, a184, a185, a186, a187, a188, a189, a190, a191;
        long a192, a193, a194, a195, a196, a197, a198, a199, a200, a201, a202, a203;
        long a204, a205, a206, a207, a208, a209, a210, a211, a212, a213, a214, a215;
        long a216, a217, a218, a219, a220, a221, a222, a223, a224, a225, a226, a227;
        long a228, a229, a230, a231, a232, a233, a234, a235, a236, a237, a238, a239;
        long a240, a241, a242, a243, a244, a245, a246, a247, a248, a249, a250, a251;
        long a252, a253, a254, a255, a256, a257, a258, a259, a260, a261, a262, a263;
        long a264, a265, a266, a267, a268, a269, a270, a271, a272, a273, a274, a275;
        long a276, a277, a278, a279, a280, a281, a282, a283, a284, a285, a286, a287;
        long a288, a289, a290, a291, a292, a293, a294, a295, a296, a297, a298, a299;
        long a300, a301, a302, a303, a304, a305, a306, a307, a308, a309, a310, a311;
        long a312, a313, a314, a315, a316, a317, a318, a319, a320, a321, a322, a323;
        long a324, a325, a326, a327, a328, a329, a330, a331, a332, a333, a334, a335;
        long a336, a337, a338, a339, a340, a341, a342, a343, a344, a345, a346, a347;
        long a348, a349, a350, a351, a352, a353, a354, a355, a356, a357, a358, a359;
        long a360, a361, a362, a363, a364, a365, a366, a367, a368, a369, a370, a371;
        long a372, a373, a374, a375, a376, a377, a378, a379, a380, a381, a382, a383;
        long a384, a385, a386, a387, a388, a389, a390, a391, a392, a393, a394, a395;
        long a396, a397, a398, a399, a400, a401, a402, a403, a404, a405, a406, a407;
        long a408, a409, a410, a411, a412, a413, a414, a415, a416, a417, a418, a419;
        long a420, a421, a422, a423, a424, a425, a426, a427, a428, a429, a430, a431;
        long a432, a433, a434, a435, a436, a437, a438, a439, a440, a441, a442, a443;
        long a444, a445, a446, a447, a448, a449, a450, a451, a452, a453, a454, a455;
        long a456, a457, a458, a459, a460, a461, a462, a463, a464, a465, a466, a467;
        long a468, a469, a470, a471, a472, a473, a474, a475, a476, a477, a478, a479;
        long a480, a481, a482, a483, a484, a485, a486, a487, a488, a489, a490, a491;
        long a492, a493, a494, a495, a496, a497, a498, a499, a500, a501, a502, a503;
        long a504, a505, a506, a507, a508, a509, a510, a511;
        if (NEVER[0]) {
            // Not a call of an empty method: inlined, it would leave nothing that needs the frame.
            throw new AssertionError();
        }
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

    /** Releases the lock, and does what may only be done without it. */
    void leave() {
        release();
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
            leave();
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
