package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_qp_attr;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;

/**
 * One step of a queue pair on its way to a connection: a {@code struct ibv_qp_attr} that the
 * connection manager filled in, and that this layer may change before it is carried out.
 */
public final class StateChange {
    /** {@code IBV_QPS_INIT}. */
    public static final int INITIALIZED = Verbs.IBV_QPS_INIT;

    /** {@code IBV_QPS_RTR}. */
    public static final int READY_TO_RECEIVE = Verbs.IBV_QPS_RTR;

    /** {@code IBV_QPS_RTS}. */
    public static final int READY_TO_SEND = Verbs.IBV_QPS_RTS;

    // On the heap, and copied for the two calls it goes through: native memory for as long as the
    // collector sees it would have a cleaner, for each step of each connection.
    private final MemorySegment attributes =
            MemorySegment.ofArray(new long[(int) (ibv_qp_attr.sizeof() / Long.BYTES)]);
    private int mask;

    /**
     * Starts one with nothing but its aim.
     *
     * @param state one of this class's constants
     */
    public StateChange(int state) {
        ibv_qp_attr.qp_state(attributes, state);
    }

    /** The struct itself, for who stands in for the library. */
    MemorySegment attributes() {
        return attributes;
    }

    int mask() {
        return mask;
    }

    /** The struct for a call, where the library can reach it. */
    MemorySegment encode(SegmentAllocator where) {
        return ibv_qp_attr.allocate(where).copyFrom(attributes);
    }

    /** Takes over what a call has filled in. */
    void fillIn(MemorySegment filledIn, int fields) {
        attributes.copyFrom(filledIn);
        mask = fields;
    }

    /**
     * The state it leads to.
     *
     * @return one of this class's constants
     */
    public int state() {
        return ibv_qp_attr.qp_state(attributes);
    }

    /**
     * Says what the peer may do at all. The connection manager leaves that empty.
     *
     * @param rights {@code IBV_ACCESS_REMOTE_…}
     */
    public void access(int rights) {
        ibv_qp_attr.qp_access_flags(attributes, rights);
        mask |= Verbs.IBV_QP_ACCESS_FLAGS;
    }

    /**
     * What the peer may do at all.
     *
     * @return {@code IBV_ACCESS_REMOTE_…}
     */
    public int access() {
        return ibv_qp_attr.qp_access_flags(attributes);
    }

    /**
     * How many reads and atomics of the peer may be under way towards here.
     *
     * @return as negotiated
     */
    public int inboundReads() {
        return Byte.toUnsignedInt(ibv_qp_attr.max_dest_rd_atomic(attributes));
    }

    /**
     * Changes how many reads and atomics of the peer may be under way towards here.
     *
     * @param reads 0 to 255
     */
    public void inboundReads(int reads) {
        ibv_qp_attr.max_dest_rd_atomic(attributes, (byte) reads);
        mask |= Verbs.IBV_QP_MAX_DEST_RD_ATOMIC;
    }

    /**
     * How many reads and atomics may be under way towards the peer.
     *
     * @return as negotiated
     */
    public int outboundReads() {
        return Byte.toUnsignedInt(ibv_qp_attr.max_rd_atomic(attributes));
    }

    /**
     * Changes how many reads and atomics may be under way towards the peer.
     *
     * @param reads 0 to 255
     */
    public void outboundReads(int reads) {
        ibv_qp_attr.max_rd_atomic(attributes, (byte) reads);
        mask |= Verbs.IBV_QP_MAX_QP_RD_ATOMIC;
    }

    /**
     * How often a packet without an answer is sent again.
     *
     * @return 0 to 7
     */
    public int retries() {
        return Byte.toUnsignedInt(ibv_qp_attr.retry_cnt(attributes));
    }

    /**
     * Changes how often a packet without an answer is sent again.
     *
     * @param times 0 to 7
     */
    public void retries(int times) {
        ibv_qp_attr.retry_cnt(attributes, (byte) times);
        mask |= Verbs.IBV_QP_RETRY_CNT;
    }

    /**
     * How often a peer without a receive is asked again.
     *
     * @return 0 to 7, where 7 is for ever
     */
    public int patience() {
        return Byte.toUnsignedInt(ibv_qp_attr.rnr_retry(attributes));
    }

    /**
     * Changes after which time a packet without an answer is sent again.
     *
     * @param exponent 1 to 31: 4.096 us times two to the power of it
     */
    public void ackTimeout(int exponent) {
        ibv_qp_attr.timeout(attributes, (byte) exponent);
        mask |= Verbs.IBV_QP_TIMEOUT;
    }

    /**
     * After which time a packet without an answer is sent again.
     *
     * @return the exponent
     */
    public int ackTimeout() {
        return Byte.toUnsignedInt(ibv_qp_attr.timeout(attributes));
    }
}
