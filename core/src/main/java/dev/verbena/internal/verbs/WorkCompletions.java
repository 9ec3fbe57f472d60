package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvWc;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * An array of {@code ibv_wc} in native memory. The memory lives as long as this object is
 * reachable, which the caller must ensure while it reads.
 */
public final class WorkCompletions {
    public static final int SUCCESS = Verbs.IBV_WC_SUCCESS;
    public static final int FLUSHED = Verbs.IBV_WC_WR_FLUSH_ERR;
    public static final int GENERAL_ERROR = Verbs.IBV_WC_GENERAL_ERR;

    private final MemorySegment array; // keeps the memory reachable
    private final long address;

    public WorkCompletions(int capacity) {
        this.array = Arena.ofAuto().allocate(IbvWc.SIZE * capacity, Long.BYTES);
        this.address = array.address();
    }

    long address() {
        return address;
    }

    public long id(int index) {
        return Native.getLong(address + IbvWc.SIZE * index, IbvWc.WR_ID);
    }

    /** The {@code enum ibv_wc_status}. */
    public int status(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.STATUS);
    }

    /** The provider's own error code. */
    public int vendorError(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.VENDOR_ERR);
    }

    /** The message's length, for a successful receive: {@code byte_len} as an unsigned number. */
    public long bytes(int index) {
        return Integer.toUnsignedLong(Native.getInt(address + IbvWc.SIZE * index, IbvWc.BYTE_LEN));
    }

    /** Whether a successful receive was consumed by the peer's write with immediate data. */
    public boolean isWriteWithImmediate(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.OPCODE)
                == Verbs.IBV_WC_RECV_RDMA_WITH_IMM;
    }

    /** The flags of a successful receive. */
    public int flags(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.WC_FLAGS);
    }

    /** Whether a successful receive has immediate data. */
    public boolean hasImmediate(int index) {
        return (flags(index) & Verbs.IBV_WC_WITH_IMM) != 0;
    }

    /** The immediate data of a successful receive. */
    public int immediate(int index) {
        return Native.EVERYWHERE.get(
                Native.BIG_ENDIAN_INT, address + IbvWc.SIZE * index + IbvWc.IMM_DATA);
    }

    /** The remote key (NDK: token) that the message of a successful receive invalidated. */
    public int invalidatedToken(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.INVALIDATED_RKEY);
    }

    /** The number of the queue pair that the completion belongs to; valid for failures, too. */
    public int queuePairNumber(int index) {
        return Native.getInt(address + IbvWc.SIZE * index, IbvWc.QP_NUM);
    }
}
