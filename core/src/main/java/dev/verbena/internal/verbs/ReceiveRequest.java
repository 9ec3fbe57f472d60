package dev.verbena.internal.verbs;

import dev.verbena.internal.verbs.Structs.IbvRecvWr;

/**
 * The native memory in which one queue builds its receives: one {@code ibv_recv_wr}, and the
 * pointer that the provider fills in with {@code bad_wr}. Providers copy a request before the post
 * returns, so one is enough.
 */
public final class ReceiveRequest {

    private final VerbsContext context;
    private final long request;
    private final long badRequest;

    /** Allocates the request; the caller frees the memory after the last post. */
    public ReceiveRequest(VerbsContext context, NativeMemory memory) {
        this.context = context;
        long both = IbvRecvWr.SIZE + Long.BYTES;
        this.request = memory.allocate(both, Long.BYTES).address();
        this.badRequest = request + IbvRecvWr.SIZE;
    }

    /** Posts a receive to a queue pair: 0, or a positive errno. */
    public int post(long queuePair, long id, long sges, int count) {
        fill(id, sges, count);
        return errno(context.postReceive(queuePair, request, badRequest));
    }

    /** Posts a receive to a shared receive queue: 0, or a positive errno. */
    public int postShared(long sharedQueue, long id, long sges, int count) {
        fill(id, sges, count);
        return errno(context.postSharedReceive(sharedQueue, request, badRequest));
    }

    private void fill(long id, long sges, int count) {
        Native.putLong(request, IbvRecvWr.WR_ID, id);
        Native.putLong(request, IbvRecvWr.SG_LIST, sges);
        Native.putInt(request, IbvRecvWr.NUM_SGE, count);
        Native.putLong(badRequest, 0, 0);
    }

    /**
     * Whether the provider set {@code bad_wr} to the receive, after a post failed. If not, it may
     * have queued the receive nevertheless.
     */
    public boolean wasNamed() {
        return Native.getLong(badRequest, 0) != 0;
    }

    private int errno(int result) {
        return SendChain.errno(result, Native.getLong(badRequest, 0));
    }
}
