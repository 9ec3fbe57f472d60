package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.Operation.Flags;

import java.util.ArrayList;
import java.util.List;

/**
 * Options of a request: NDK_OP_FLAG_*, with NDK's values. Combine them once, in a constant:
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="flags"}
 *
 * <p>A request with a flag that its operation does not support is refused with INVALID_PARAMETER.
 *
 * <table>
 *   <caption>Which operations support which flag</caption>
 *   <tr><th>flag</th><th>operations</th></tr>
 *   <tr><td>SILENT_SUCCESS, READ_FENCE, DEFER</td><td>all but receive</td></tr>
 *   <tr><td>SEND_AND_SOLICIT_EVENT</td><td>send, send and invalidate, send and write with immediate</td></tr>
 *   <tr><td>INLINE</td><td>send, send and invalidate, write, and both with immediate</td></tr>
 *   <tr><td>ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE</td><td>bind</td></tr>
 *   <tr><td>RDMA_READ_LOCAL_INVALIDATE</td><td>read, where it is accepted and has no effect</td></tr>
 *   <tr><td>ALLOW_LOCAL_WRITE, RDMA_READ_SINK</td><td>none: NDK's fast registration does not exist in verbs for programs</td></tr>
 * </table>
 *
 * <p>There is one object for each combination, created in advance: {@link #and} allocates nothing,
 * and equal combinations are the same object.
 */
@CheckReturnValue
public final class OpFlags {
    private static final OpFlags[] COMBINATIONS = new OpFlags[Flags.ALL + 1];

    static {
        for (int bits = 0; bits <= Flags.ALL; bits++) {
            COMBINATIONS[bits] = new OpFlags(bits);
        }
    }

    /** No flags. */
    public static final OpFlags NONE = of(0);

    /**
     * No completion if the request succeeds (verbs: unsignaled). If it fails, the device reports
     * its completion nevertheless, at the next poll of the completion queue.
     */
    public static final OpFlags SILENT_SUCCESS = of(Flags.SILENT_SUCCESS);

    /**
     * The request does not start before all earlier reads and atomics of this queue pair have
     * completed.
     */
    public static final OpFlags READ_FENCE = of(Flags.READ_FENCE);

    /**
     * Raises the event of the peer's completion queue if that is armed for solicited completions.
     */
    public static final OpFlags SEND_AND_SOLICIT_EVENT = of(Flags.SEND_AND_SOLICIT_EVENT);

    /** The peer may read through the window. */
    public static final OpFlags ALLOW_REMOTE_READ = of(Flags.ALLOW_REMOTE_READ);

    /** Fast registration only; part of {@link #ALLOW_REMOTE_WRITE}. */
    public static final OpFlags ALLOW_LOCAL_WRITE = of(Flags.ALLOW_LOCAL_WRITE);

    /** The peer may write through the window; contains {@link #ALLOW_LOCAL_WRITE}, as with NDK. */
    public static final OpFlags ALLOW_REMOTE_WRITE = of(Flags.ALLOW_REMOTE_WRITE);

    /**
     * The bytes are copied into the request by the post: they may be changed as soon as it returns,
     * need not be registered, and may come from any number of buffers.
     */
    public static final OpFlags INLINE = of(Flags.INLINE);

    /** Fast registration only. */
    public static final OpFlags RDMA_READ_SINK = of(Flags.RDMA_READ_SINK);

    /**
     * A hint that has no effect, because verbs has no such operation; see {@link
     * AdapterInfo#RDMA_READ_LOCAL_INVALIDATE}.
     */
    public static final OpFlags RDMA_READ_LOCAL_INVALIDATE = of(Flags.RDMA_READ_LOCAL_INVALIDATE);

    /**
     * More requests follow: this request may be held back until the next request without this flag,
     * and then be posted together with it in one chain. Has no other effect.
     */
    public static final OpFlags DEFER = of(Flags.DEFER);

    final int bits;

    private OpFlags(int bits) {
        this.bits = bits;
    }

    private static OpFlags of(int bits) {
        return COMBINATIONS[bits];
    }

    /**
     * Returns the flags of NDK's value.
     *
     * @param value bits of NDK_OP_FLAG_*
     * @return the flags
     * @throws IllegalArgumentException for a bit that is no flag of NDK
     */
    public static OpFlags ofValue(int value) {
        if ((value & ~Flags.ALL) != 0) {
            throw new IllegalArgumentException(
                    "NDK has no flags 0x%x".formatted(value & ~Flags.ALL));
        }
        return of(value);
    }

    /**
     * NDK's value of these flags.
     *
     * @return the bits of NDK_OP_FLAG_*, combined
     */
    public int value() {
        return bits;
    }

    /**
     * Combines flags.
     *
     * @param others more flags
     * @return the flags of both
     */
    public OpFlags and(OpFlags others) {
        return of(bits | others.bits);
    }

    /**
     * Whether all given flags are set.
     *
     * @param others the flags to test
     * @return true if all are set; always true for {@link #NONE}
     */
    public boolean contains(OpFlags others) {
        return (bits & others.bits) == others.bits;
    }

    /** The names of the flags: {@code SILENT_SUCCESS|DEFER}. */
    @Override
    public String toString() {
        List<String> names = new ArrayList<>();
        add(names, Flags.SILENT_SUCCESS, "SILENT_SUCCESS");
        add(names, Flags.READ_FENCE, "READ_FENCE");
        add(names, Flags.SEND_AND_SOLICIT_EVENT, "SEND_AND_SOLICIT_EVENT");
        add(names, Flags.ALLOW_REMOTE_READ, "ALLOW_REMOTE_READ");
        if ((bits & Flags.ALLOW_REMOTE_WRITE) == Flags.ALLOW_REMOTE_WRITE) {
            names.add("ALLOW_REMOTE_WRITE");
        } else {
            add(names, Flags.ALLOW_LOCAL_WRITE, "ALLOW_LOCAL_WRITE");
            add(names, Flags.ALLOW_REMOTE_WRITE & ~Flags.ALLOW_LOCAL_WRITE, "0x20");
        }
        add(names, Flags.INLINE, "INLINE");
        add(names, Flags.RDMA_READ_SINK, "RDMA_READ_SINK");
        add(names, Flags.RDMA_READ_LOCAL_INVALIDATE, "RDMA_READ_LOCAL_INVALIDATE");
        add(names, Flags.DEFER, "DEFER");
        return names.isEmpty() ? "NONE" : String.join("|", names);
    }

    private void add(List<String> names, int bit, String name) {
        if ((bits & bit) != 0) {
            names.add(name);
        }
    }
}
