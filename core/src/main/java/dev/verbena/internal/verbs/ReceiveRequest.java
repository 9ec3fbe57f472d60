package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.ibv_recv_wr;

/**
 * The native memory in which one queue builds its receives: one {@code ibv_recv_wr}, and the
 * pointer for what the provider refuses. Providers copy a request before the post returns, so one
 * is enough.
 */
public final class ReceiveRequest {
    private static final long ID = ibv_recv_wr.wr_id$offset();
    private static final long SGES = ibv_recv_wr.sg_list$offset();
    private static final long SGE_COUNT = ibv_recv_wr.num_sge$offset();

    private final VerbsContext context;
    private final long request;
    private final long refused;

    /**
     * Allocates the request.
     *
     * @param context the device
     * @param memory where it is allocated: freed by the caller after the last post
     */
    public ReceiveRequest(VerbsContext context, NativeMemory memory) {
        this.context = context;
        this.request = ibv_recv_wr.allocate(memory).address();
        this.refused = memory.allocate(JAVA_LONG).address();
    }

    /**
     * Posts a receive to a queue pair.
     *
     * @param queuePair the address of the {@code ibv_qp}
     * @param id what its completion will carry
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return 0, or a positive errno
     */
    public int post(long queuePair, long id, long sges, int count) {
        fill(id, sges, count);
        return answer(context.postReceive(queuePair, request, refused));
    }

    /**
     * Posts a receive to a shared receive queue.
     *
     * @param sharedQueue the address of the {@code ibv_srq}
     * @param id what its completion will carry
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return 0, or a positive errno
     */
    public int postShared(long sharedQueue, long id, long sges, int count) {
        fill(id, sges, count);
        return answer(context.postSharedReceive(sharedQueue, request, refused));
    }

    private void fill(long id, long sges, int count) {
        Native.putLong(request, ID, id);
        Native.putLong(request, SGES, sges);
        Native.putInt(request, SGE_COUNT, count);
        Native.putLong(refused, 0, 0);
    }

    /**
     * Whether the provider has named the receive in {@code bad_wr}, after a post failed.
     *
     * @return false when it may have kept it
     */
    public boolean wasNamed() {
        return Native.getLong(refused, 0) != 0;
    }

    private int answer(int answer) {
        return SendChain.errno(answer, Native.getLong(refused, 0));
    }
}
