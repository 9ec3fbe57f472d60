package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_qp_attr;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;

/**
 * One state transition of a queue pair that is being connected: a {@code struct ibv_qp_attr} that
 * the connection manager fills in and that the caller may adjust before {@code ibv_modify_qp}.
 */
public final class StateChange {
    /** {@code IBV_QPS_INIT}. */
    public static final int INITIALIZED = Verbs.IBV_QPS_INIT;

    /** {@code IBV_QPS_RTR}. */
    public static final int READY_TO_RECEIVE = Verbs.IBV_QPS_RTR;

    /** {@code IBV_QPS_RTS}. */
    public static final int READY_TO_SEND = Verbs.IBV_QPS_RTS;

    // On the heap, and copied to native memory for each of the two calls that use it: an automatic
    // arena would cost a cleaner for each step of each connection.
    private final MemorySegment attributes =
            MemorySegment.ofArray(new long[(int) (ibv_qp_attr.sizeof() / Long.BYTES)]);
    private int mask;

    /**
     * Creates a transition with only the target state set.
     *
     * @param state one of this class's constants
     */
    public StateChange(int state) {
        ibv_qp_attr.qp_state(attributes, state);
    }

    /** The struct itself, for tests that replace the library. */
    MemorySegment attributes() {
        return attributes;
    }

    int mask() {
        return mask;
    }

    /** Copies the struct to native memory, for a call. */
    MemorySegment encode(SegmentAllocator where) {
        return ibv_qp_attr.allocate(where).copyFrom(attributes);
    }

    /** Stores the attributes that a call has filled in. */
    void fillIn(MemorySegment filledIn, int fields) {
        attributes.copyFrom(filledIn);
        mask = fields;
    }

    /**
     * The target state.
     *
     * @return one of this class's constants
     */
    public int state() {
        return ibv_qp_attr.qp_state(attributes);
    }

    /**
     * Sets the operations of the peer that the queue pair allows. The connection manager does not
     * set them.
     *
     * @param rights {@code IBV_ACCESS_REMOTE_…}
     */
    public void access(int rights) {
        ibv_qp_attr.qp_access_flags(attributes, rights);
        mask |= Verbs.IBV_QP_ACCESS_FLAGS;
    }

    /**
     * The operations of the peer that the queue pair allows.
     *
     * @return {@code IBV_ACCESS_REMOTE_…}
     */
    public int access() {
        return ibv_qp_attr.qp_access_flags(attributes);
    }

    /**
     * How many reads and atomics of the peer may be outstanding towards this side.
     *
     * @return 0 to 255
     */
    public int inboundReads() {
        return Byte.toUnsignedInt(ibv_qp_attr.max_dest_rd_atomic(attributes));
    }

    /**
     * Changes how many reads and atomics of the peer may be outstanding towards this side.
     *
     * @param reads 0 to 255
     */
    public void inboundReads(int reads) {
        ibv_qp_attr.max_dest_rd_atomic(attributes, (byte) reads);
        mask |= Verbs.IBV_QP_MAX_DEST_RD_ATOMIC;
    }

    /**
     * How many reads and atomics may be outstanding towards the peer.
     *
     * @return 0 to 255
     */
    public int outboundReads() {
        return Byte.toUnsignedInt(ibv_qp_attr.max_rd_atomic(attributes));
    }

    /**
     * Changes how many reads and atomics may be outstanding towards the peer.
     *
     * @param reads 0 to 255
     */
    public void outboundReads(int reads) {
        ibv_qp_attr.max_rd_atomic(attributes, (byte) reads);
        mask |= Verbs.IBV_QP_MAX_QP_RD_ATOMIC;
    }

    /**
     * How often an unacknowledged packet is sent again.
     *
     * @return 0 to 7
     */
    public int retries() {
        return Byte.toUnsignedInt(ibv_qp_attr.retry_cnt(attributes));
    }

    /**
     * Changes how often an unacknowledged packet is sent again.
     *
     * @param times 0 to 7
     */
    public void retries(int times) {
        ibv_qp_attr.retry_cnt(attributes, (byte) times);
        mask |= Verbs.IBV_QP_RETRY_CNT;
    }

    /**
     * How often a message is sent again while the peer has no receive posted (RNR retries).
     *
     * @return 0 to 7, where 7 means without limit
     */
    public int rnrRetries() {
        return Byte.toUnsignedInt(ibv_qp_attr.rnr_retry(attributes));
    }

    /**
     * Changes the time after which an unacknowledged packet is sent again.
     *
     * @param exponent 1 to 31, for 4.096 us * 2^exponent
     */
    public void ackTimeout(int exponent) {
        ibv_qp_attr.timeout(attributes, (byte) exponent);
        mask |= Verbs.IBV_QP_TIMEOUT;
    }

    /**
     * The time after which an unacknowledged packet is sent again.
     *
     * @return the exponent, as {@link #ackTimeout(int)} takes it
     */
    public int ackTimeout() {
        return Byte.toUnsignedInt(ibv_qp_attr.timeout(attributes));
    }
}
