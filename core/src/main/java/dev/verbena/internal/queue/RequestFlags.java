package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.SendChain;

/** The bits of NDK_OP_FLAG_*, which the public flags stand for. */
public final class RequestFlags {
    /** No completion when the request succeeds. */
    public static final int SILENT_SUCCESS = 0x001;

    /** Starts after all earlier reads and atomics of the queue pair have ended. */
    public static final int READ_FENCE = 0x002;

    /** Wakes a peer that is armed for solicited completions. */
    public static final int SEND_AND_SOLICIT_EVENT = 0x004;

    /** The peer may read through the window. */
    public static final int ALLOW_REMOTE_READ = 0x008;

    /** Fast registration only, and a part of {@link #ALLOW_REMOTE_WRITE}. */
    public static final int ALLOW_LOCAL_WRITE = 0x010;

    /** The peer may write through the window. */
    public static final int ALLOW_REMOTE_WRITE = 0x030;

    /** The bytes travel in the request. */
    public static final int INLINE = 0x040;

    /** Fast registration only. */
    public static final int RDMA_READ_SINK = 0x080;

    /** A hint on reads, without effect under verbs. */
    public static final int RDMA_READ_LOCAL_INVALIDATE = 0x100;

    public static final int DEFER = 0x200;

    public static final int ALL = 0x3FF;

    private RequestFlags() {}

    /**
     * The {@code IBV_SEND_…} of a request.
     *
     * @param inline {@link SendChain#INLINE} when its bytes are in the request, otherwise 0
     */
    static int toVerbs(int flags, int inline, boolean signaled) {
        int verbs = inline | (signaled ? SendChain.SIGNALED : 0);
        if ((flags & (READ_FENCE | SEND_AND_SOLICIT_EVENT)) != 0) {
            verbs |=
                    ((flags & READ_FENCE) != 0 ? SendChain.FENCE : 0)
                            | ((flags & SEND_AND_SOLICIT_EVENT) != 0 ? SendChain.SOLICITED : 0);
        }
        return verbs;
    }
}
