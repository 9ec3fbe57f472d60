package dev.verbena;

/**
 * What a request may ask for besides its operation: NDK_OP_FLAG_*, with NDK's values, to be joined
 * with {@code |}. A flag that its operation does not know is refused with INVALID_PARAMETER.
 *
 * <table>
 *   <caption>Which operation knows which flag</caption>
 *   <tr><th>flag</th><th>operations</th></tr>
 *   <tr><td>SILENT_SUCCESS, READ_FENCE, DEFER</td><td>all but receive</td></tr>
 *   <tr><td>SEND_AND_SOLICIT_EVENT</td><td>send, send and invalidate, send and write with immediate</td></tr>
 *   <tr><td>INLINE</td><td>send, send and invalidate, write, and both with immediate</td></tr>
 *   <tr><td>ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE</td><td>bind</td></tr>
 *   <tr><td>RDMA_READ_LOCAL_INVALIDATE</td><td>read, where it is accepted and has no effect</td></tr>
 *   <tr><td>ALLOW_LOCAL_WRITE, RDMA_READ_SINK</td><td>NDK's fast registration only, which verbs has not</td></tr>
 * </table>
 */
public final class OpFlags {
    /** Nothing special. */
    public static final int NONE = 0;

    /** No completion when it succeeds. A failure is told all the same. */
    public static final int SILENT_SUCCESS = 0x001;

    /** Does not start before all earlier reads and atomics of this queue pair are over. */
    public static final int READ_FENCE = 0x002;

    /** Wakes a peer whose completion queue is armed for solicited completions. */
    public static final int SEND_AND_SOLICIT_EVENT = 0x004;

    /** The peer may read through the window. */
    public static final int ALLOW_REMOTE_READ = 0x008;

    /** Fast registration only; part of {@link #ALLOW_REMOTE_WRITE}. */
    public static final int ALLOW_LOCAL_WRITE = 0x010;

    /**
     * The peer may write through the window; contains {@link #ALLOW_LOCAL_WRITE}, so test {@code
     * (flags & x) == x}.
     */
    public static final int ALLOW_REMOTE_WRITE = 0x030;

    /**
     * The bytes travel in the request: they may be changed as soon as the post returns, need not be
     * registered, and may come from any number of buffers.
     */
    public static final int INLINE = 0x040;

    /** Fast registration only. InfiniBand and RoCE need no such right for the target of a read. */
    public static final int RDMA_READ_SINK = 0x080;

    /** A hint that no device under verbs takes; see NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE. */
    public static final int RDMA_READ_LOCAL_INVALIDATE = 0x100;

    /**
     * More requests follow: this one may wait for the next without this flag, and reach the device
     * with it in one go. Changes nothing else.
     */
    public static final int DEFER = 0x200;

    private OpFlags() {}
}
