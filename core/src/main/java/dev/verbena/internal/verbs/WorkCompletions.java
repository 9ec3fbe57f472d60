package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * An array of {@code ibv_wc} in native memory. The memory lives as long as this object is
 * reachable, which the caller must ensure while it reads.
 */
public final class WorkCompletions {
    /** {@code IBV_WC_SUCCESS}. */
    public static final int SUCCESS = Verbs.IBV_WC_SUCCESS;

    /** {@code IBV_WC_WR_FLUSH_ERR}. */
    public static final int FLUSHED = Verbs.IBV_WC_WR_FLUSH_ERR;

    /** {@code IBV_WC_GENERAL_ERR}. */
    public static final int GENERAL_ERROR = Verbs.IBV_WC_GENERAL_ERR;

    private static final long SIZE = Structs.IbvWc.SIZE;
    private static final long ID = Structs.IbvWc.WR_ID;
    private static final long STATUS = Structs.IbvWc.STATUS;
    private static final long VENDOR_ERROR = Structs.IbvWc.VENDOR_ERR;
    private static final long BYTES = Structs.IbvWc.BYTE_LEN;
    private static final long OPCODE = Structs.IbvWc.OPCODE;
    private static final long IMMEDIATE = Structs.IbvWc.IMM_DATA;
    private static final long INVALIDATED = Structs.IbvWc.INVALIDATED_RKEY;
    private static final long QUEUE_PAIR = Structs.IbvWc.QP_NUM;
    private static final long FLAGS = Structs.IbvWc.WC_FLAGS;

    private final MemorySegment array; // keeps the memory reachable
    private final long address;
    private final int capacity;

    /** Allocates the array. */
    public WorkCompletions(int capacity) {
        this.capacity = capacity;
        this.array = Arena.ofAuto().allocate(SIZE * capacity, Long.BYTES);
        this.address = array.address();
    }

    /** How many fit. */
    public int capacity() {
        return capacity;
    }

    long address() {
        return address;
    }

    /** The {@code wr_id}. */
    public long id(int index) {
        return Native.getLong(address + SIZE * index, ID);
    }

    /** The {@code enum ibv_wc_status}. */
    public int status(int index) {
        return Native.getInt(address + SIZE * index, STATUS);
    }

    /** The provider's own error code. */
    public int vendorError(int index) {
        return Native.getInt(address + SIZE * index, VENDOR_ERROR);
    }

    /**
     * The message's length, for a successful receive.
     *
     * @return {@code byte_len} as an unsigned number
     */
    public long bytes(int index) {
        return Integer.toUnsignedLong(Native.getInt(address + SIZE * index, BYTES));
    }

    /**
     * Whether a successful receive was consumed by the peer's write with immediate data.
     *
     * @return from {@code opcode}, which is valid only for success
     */
    public boolean isWriteWithImmediate(int index) {
        return Native.getInt(address + SIZE * index, OPCODE) == Verbs.IBV_WC_RECV_RDMA_WITH_IMM;
    }

    /** The flags of a successful receive. */
    public int flags(int index) {
        return Native.getInt(address + SIZE * index, FLAGS);
    }

    /** Whether a successful receive has immediate data. */
    public boolean hasImmediate(int index) {
        return (flags(index) & Verbs.IBV_WC_WITH_IMM) != 0;
    }

    /** The immediate data of a successful receive. */
    public int immediate(int index) {
        return Native.EVERYWHERE.get(Native.BIG_ENDIAN_INT, address + SIZE * index + IMMEDIATE);
    }

    /** The remote key (NDK: token) that the message of a successful receive invalidated. */
    public int invalidatedToken(int index) {
        return Native.getInt(address + SIZE * index, INVALIDATED);
    }

    /** The number of the queue pair that the completion belongs to; valid for failures, too. */
    public int queuePairNumber(int index) {
        return Native.getInt(address + SIZE * index, QUEUE_PAIR);
    }
}
