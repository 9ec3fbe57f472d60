package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.RequestFlags;

import java.util.ArrayList;
import java.util.List;

/**
 * What a request may ask for besides its operation: NDK_OP_FLAG_*, with NDK's values. Join them
 * once, in a constant:
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="flags"}
 *
 * <p>A request with a flag that its operation does not know is refused with INVALID_PARAMETER.
 *
 * <table>
 *   <caption>Which operation knows which flag</caption>
 *   <tr><th>flag</th><th>operations</th></tr>
 *   <tr><td>SILENT_SUCCESS, READ_FENCE, DEFER</td><td>all but receive</td></tr>
 *   <tr><td>SEND_AND_SOLICIT_EVENT</td><td>send, send and invalidate, send and write with immediate</td></tr>
 *   <tr><td>INLINE</td><td>send, send and invalidate, write, and both with immediate</td></tr>
 *   <tr><td>ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE</td><td>bind</td></tr>
 *   <tr><td>RDMA_READ_LOCAL_INVALIDATE</td><td>read, where it is accepted and has no effect</td></tr>
 *   <tr><td>ALLOW_LOCAL_WRITE, RDMA_READ_SINK</td><td>NDK's fast registration only, which verbs does not have</td></tr>
 * </table>
 *
 * <p>There is one object for each combination, made in advance: joining allocates nothing, and
 * equal ones are identical.
 */
@CheckReturnValue
public final class OpFlags {
    private static final OpFlags[] COMBINATIONS = new OpFlags[RequestFlags.ALL + 1];

    static {
        for (int bits = 0; bits <= RequestFlags.ALL; bits++) {
            COMBINATIONS[bits] = new OpFlags(bits);
        }
    }

    /** Nothing special. */
    public static final OpFlags NONE = of(0);

    /** No completion when it succeeds. A failure is told all the same. */
    public static final OpFlags SILENT_SUCCESS = of(RequestFlags.SILENT_SUCCESS);

    /** Does not start before all earlier reads and atomics of this queue pair are over. */
    public static final OpFlags READ_FENCE = of(RequestFlags.READ_FENCE);

    /** Wakes a peer whose completion queue is armed for solicited completions. */
    public static final OpFlags SEND_AND_SOLICIT_EVENT = of(RequestFlags.SEND_AND_SOLICIT_EVENT);

    /** The peer may read through the window. */
    public static final OpFlags ALLOW_REMOTE_READ = of(RequestFlags.ALLOW_REMOTE_READ);

    /** Fast registration only; part of {@link #ALLOW_REMOTE_WRITE}. */
    public static final OpFlags ALLOW_LOCAL_WRITE = of(RequestFlags.ALLOW_LOCAL_WRITE);

    /** The peer may write through the window; contains {@link #ALLOW_LOCAL_WRITE}, as with NDK. */
    public static final OpFlags ALLOW_REMOTE_WRITE = of(RequestFlags.ALLOW_REMOTE_WRITE);

    /**
     * The bytes travel in the request: they may be changed as soon as the post returns, need not be
     * registered, and may come from any number of buffers.
     */
    public static final OpFlags INLINE = of(RequestFlags.INLINE);

    /** Fast registration only. InfiniBand and RoCE need no such right for the target of a read. */
    public static final OpFlags RDMA_READ_SINK = of(RequestFlags.RDMA_READ_SINK);

    /** A hint that no device under verbs takes; see NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE. */
    public static final OpFlags RDMA_READ_LOCAL_INVALIDATE =
            of(RequestFlags.RDMA_READ_LOCAL_INVALIDATE);

    /**
     * More requests follow: this one may wait for the next without this flag, and reach the device
     * with it in one go. Changes nothing else.
     */
    public static final OpFlags DEFER = of(RequestFlags.DEFER);

    final int bits;

    private OpFlags(int bits) {
        this.bits = bits;
    }

    private static OpFlags of(int bits) {
        return COMBINATIONS[bits];
    }

    /**
     * The flags with these bits.
     *
     * @param value NDK's value of them
     * @return those flags
     * @throws IllegalArgumentException for a bit that NDK has no flag for
     */
    public static OpFlags ofValue(int value) {
        if ((value & ~RequestFlags.ALL) != 0) {
            throw new IllegalArgumentException(
                    "NDK has no flags 0x%x".formatted(value & ~RequestFlags.ALL));
        }
        return of(value);
    }

    /**
     * NDK's value of these flags.
     *
     * @return NDK_OP_FLAG_*, joined
     */
    public int value() {
        return bits;
    }

    /**
     * Joins flags.
     *
     * @param others more of them
     * @return all of both
     */
    public OpFlags and(OpFlags others) {
        return of(bits | others.bits);
    }

    /**
     * Whether all of these are among them.
     *
     * @param others what is looked for
     * @return true for {@link #NONE}, and for flags that are all there
     */
    public boolean contains(OpFlags others) {
        return (bits & others.bits) == others.bits;
    }

    /** The names, joined as in the sources: {@code SILENT_SUCCESS|DEFER}. */
    @Override
    public String toString() {
        List<String> names = new ArrayList<>();
        add(names, RequestFlags.SILENT_SUCCESS, "SILENT_SUCCESS");
        add(names, RequestFlags.READ_FENCE, "READ_FENCE");
        add(names, RequestFlags.SEND_AND_SOLICIT_EVENT, "SEND_AND_SOLICIT_EVENT");
        add(names, RequestFlags.ALLOW_REMOTE_READ, "ALLOW_REMOTE_READ");
        if ((bits & RequestFlags.ALLOW_REMOTE_WRITE) == RequestFlags.ALLOW_REMOTE_WRITE) {
            names.add("ALLOW_REMOTE_WRITE");
        } else {
            add(names, RequestFlags.ALLOW_LOCAL_WRITE, "ALLOW_LOCAL_WRITE");
            add(names, RequestFlags.ALLOW_REMOTE_WRITE & ~RequestFlags.ALLOW_LOCAL_WRITE, "0x20");
        }
        add(names, RequestFlags.INLINE, "INLINE");
        add(names, RequestFlags.RDMA_READ_SINK, "RDMA_READ_SINK");
        add(names, RequestFlags.RDMA_READ_LOCAL_INVALIDATE, "RDMA_READ_LOCAL_INVALIDATE");
        add(names, RequestFlags.DEFER, "DEFER");
        return names.isEmpty() ? "NONE" : String.join("|", names);
    }

    private void add(List<String> names, int bit, String name) {
        if ((bits & bit) != 0) {
            names.add(name);
        }
    }
}
