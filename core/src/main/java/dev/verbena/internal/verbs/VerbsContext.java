package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvContext;

import java.lang.foreign.MemorySegment;

/**
 * The data path of an opened device: calls through the provider's function pointers in {@code
 * ibv_context.ops}.
 *
 * <p>{@code ibv_post_send}, {@code ibv_poll_cq} and the others are inline functions in C, without
 * symbols. They call through that table, and so does this class. The pointers depend on the
 * provider, so they are read once for each opened device. The method handles are unbound and
 * shared, which the JIT compiles best, and all functions have one signature: see {@link
 * NativeFunction}.
 *
 * <p>Posts and polls exist in two forms, ordinary and {@linkplain NativeFunction#call critical}
 * downcalls. {@link Provider.ThroughKernel} chooses the form. Most programs need only one of the
 * two, and linking takes time.
 */
public final class VerbsContext {
    // Segments in fields: making one for each call would save the checks that a field's segment
    // needs,
    // but deep in a program's handlers the JIT does not inline the constructor, and then each call
    // allocates.
    private final MemorySegment postSend;
    private final MemorySegment postReceive;
    private final MemorySegment postSharedReceive;
    private final MemorySegment pollCq;
    private final MemorySegment requestNotify;
    private final boolean criticalSends;
    private final boolean critical; // receives and polls

    /**
     * Reads the function pointers of an opened device. A safepoint must wait for the end of a
     * critical downcall, so none may enter the kernel: on Soft-RoCE, the kernel may execute the
     * whole request before a post returns.
     *
     * @param throughKernel with ALL, all calls are ordinary downcalls, so the functions may block,
     *     and may call Java, as those of tests do
     */
    public VerbsContext(long context, Provider.ThroughKernel throughKernel) {
        this.postSend = function(context, IbvContext.OPS_POST_SEND);
        this.postReceive = function(context, IbvContext.OPS_POST_RECV);
        this.postSharedReceive = function(context, IbvContext.OPS_POST_SRQ_RECV);
        this.pollCq = function(context, IbvContext.OPS_POLL_CQ);
        this.requestNotify = function(context, IbvContext.OPS_REQ_NOTIFY_CQ);
        this.criticalSends = throughKernel == Provider.ThroughKernel.NONE;
        this.critical = throughKernel != Provider.ThroughKernel.ALL;
        NativeFunction.prepare(criticalSends);
        NativeFunction.prepare(critical);
    }

    private static MemorySegment function(long context, long offset) {
        return MemorySegment.ofAddress(Native.getLong(context, offset));
    }

    // Each post takes the address of a pointer, which receives the address of the first refused
    // request (bad_wr), and returns 0, or an errno, which some providers return as a negative
    // number.

    /** {@code ibv_post_send}. */
    public int postSend(long queuePair, long request, long refused) {
        return NativeFunction.call(criticalSends, postSend, queuePair, request, refused);
    }

    /** {@code ibv_post_recv}. */
    public int postReceive(long queuePair, long request, long refused) {
        return NativeFunction.call(critical, postReceive, queuePair, request, refused);
    }

    /** {@code ibv_post_srq_recv}. */
    public int postSharedReceive(long sharedQueue, long request, long refused) {
        return NativeFunction.call(critical, postSharedReceive, sharedQueue, request, refused);
    }

    /**
     * {@code ibv_poll_cq}.
     *
     * @param completions receives them, from index 0 on
     * @return the number of completions, or a negative number if the queue has failed
     */
    public int pollCq(long completionQueue, int count, WorkCompletions completions) {
        return NativeFunction.call(critical, pollCq, completionQueue, count, completions.address());
    }

    /**
     * {@code ibv_req_notify_cq}: requests one event for the next completion.
     *
     * @param solicitedOnly whether only solicited receives and failures count
     * @return 0, or an errno
     */
    public int requestNotify(long completionQueue, boolean solicitedOnly) {
        return NativeFunction.call(false, requestNotify, completionQueue, solicitedOnly ? 1 : 0, 0);
    }

    /** {@code enum ibv_mtu} in bytes, 256 to 4096. */
    public static int mtuBytes(int mtu) {
        return 128 << mtu;
    }

    /** The largest {@code enum ibv_mtu} of at most so many bytes. */
    public static int mtuOf(int bytes) {
        int mtu = Integer.numberOfTrailingZeros(Integer.highestOneBit(bytes)) - 7;
        return Math.clamp(mtu, Verbs.IBV_MTU_256, Verbs.IBV_MTU_4096);
    }
}
