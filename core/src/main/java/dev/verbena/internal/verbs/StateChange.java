package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;

/**
 * One state transition of a queue pair that is being connected: a {@code struct ibv_qp_attr} and
 * its mask. The connection manager fills it in, or {@link #readyToReceive} and {@link #readyToSend}
 * do; the caller may adjust it before {@code ibv_modify_qp}.
 */
public final class StateChange {
    /** {@code IBV_QPS_INIT}. */
    public static final int INITIALIZED = Verbs.IBV_QPS_INIT;

    /** {@code IBV_QPS_RTR}. */
    public static final int READY_TO_RECEIVE = Verbs.IBV_QPS_RTR;

    /** {@code IBV_QPS_RTS}. */
    public static final int READY_TO_SEND = Verbs.IBV_QPS_RTS;

    // Of a connection by address. Local ACK timeout 4.096 us * 2^14 = 67 ms, with 6 retries: a
    // request to a peer that vanished ends in IO_TIMEOUT after about half a second. Not 7 retries:
    // rxe's completer never counts those down (rxe_comp.c; seen on 6.1: a request to a peer in the
    // error state was still outstanding after 30 s).
    private static final int ACK_TIMEOUT = 14;
    private static final int RETRIES = 6;
    // RNR retries while the peer has no receive posted: 6, at intervals of 655 ms (encoded as 0),
    // so about 4 s until IO_TIMEOUT, which is longer than a garbage collection pause of the peer. 7
    // would retry without limit; NDK expects the request to end.
    private static final int RNR_RETRIES = 6;
    private static final int RNR_RETRIES_INFINITE = 7;
    private static final int RNR_TIMER = 0;
    private static final int HOP_LIMIT = 64;

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

    /**
     * From INIT to ready-to-receive, after which the queue pair accepts packets from the peer: of a
     * connection without the connection manager.
     *
     * @param path how to reach the peer
     * @return the transition
     */
    public static StateChange readyToReceive(PathAttributes path) {
        StateChange change = new StateChange(READY_TO_RECEIVE);
        MemorySegment a = change.attributes;
        ibv_qp_attr.path_mtu(a, path.mtu());
        ibv_qp_attr.dest_qp_num(a, path.peerNumber());
        ibv_qp_attr.rq_psn(a, path.peerSequence());
        MemorySegment address = ibv_qp_attr.ah_attr(a);
        ibv_ah_attr.dlid(address, (short) path.peerLid());
        ibv_ah_attr.port_num(address, (byte) path.port());
        if (path.ethernet()) {
            ibv_ah_attr.is_global(address, (byte) 1);
            MemorySegment route = ibv_ah_attr.grh(address);
            ibv_global_route.sgid_index(route, (byte) path.gidIndex());
            ibv_global_route.hop_limit(route, (byte) HOP_LIMIT);
            MemorySegment gid = ibv_global_route.dgid(route);
            gid.set(Native.BIG_ENDIAN_LONG, 0, path.peerGidHigh());
            gid.set(Native.BIG_ENDIAN_LONG, Long.BYTES, path.peerGidLow());
        }
        change.mask =
                Verbs.IBV_QP_STATE
                        | Verbs.IBV_QP_AV
                        | Verbs.IBV_QP_PATH_MTU
                        | Verbs.IBV_QP_DEST_QPN
                        | Verbs.IBV_QP_RQ_PSN;
        change.inboundReads(path.inboundReads());
        change.minRnrTimer(RNR_TIMER);
        return change;
    }

    /**
     * From ready-to-receive to ready-to-send: of a connection without the connection manager.
     *
     * @param sequence the sequence number of its first packet
     * @param outboundReads how many reads and atomics it may have outstanding
     * @param infiniteRnrRetry whether to retry without limit while the peer has no receive posted,
     *     instead of for some seconds
     * @return the transition
     */
    public static StateChange readyToSend(
            int sequence, int outboundReads, boolean infiniteRnrRetry) {
        StateChange change = new StateChange(READY_TO_SEND);
        ibv_qp_attr.sq_psn(change.attributes, sequence);
        change.mask = Verbs.IBV_QP_STATE | Verbs.IBV_QP_SQ_PSN;
        change.outboundReads(outboundReads);
        change.ackTimeout(ACK_TIMEOUT);
        change.retries(RETRIES);
        change.rnrRetries(infiniteRnrRetry ? RNR_RETRIES_INFINITE : RNR_RETRIES);
        return change;
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
     * Changes how often a message is sent again while the peer has no receive posted.
     *
     * @param times 0 to 7, where 7 means without limit
     */
    public void rnrRetries(int times) {
        ibv_qp_attr.rnr_retry(attributes, (byte) times);
        mask |= Verbs.IBV_QP_RNR_RETRY;
    }

    /**
     * Changes the time after which the peer may send a message again for which this side had no
     * receive posted.
     *
     * @param code 0 to 31, as verbs encodes it: 1 is the shortest, 0 the longest
     */
    public void minRnrTimer(int code) {
        ibv_qp_attr.min_rnr_timer(attributes, (byte) code);
        mask |= Verbs.IBV_QP_MIN_RNR_TIMER;
    }

    /**
     * Changes the traffic class in the IP header (or GRH) of each packet.
     *
     * @param value 0 to 255
     */
    public void trafficClass(int value) {
        ibv_global_route.traffic_class(route(), (byte) value);
        mask |= Verbs.IBV_QP_AV;
    }

    /**
     * Changes the flow label in the GRH, from which RoCE devices make the UDP source port.
     *
     * @param value 20 bits
     */
    public void flowLabel(int value) {
        ibv_global_route.flow_label(route(), value);
        mask |= Verbs.IBV_QP_AV;
    }

    /**
     * Changes the service level of each packet.
     *
     * @param level 0 to 15
     */
    public void serviceLevel(int level) {
        ibv_ah_attr.sl(ibv_qp_attr.ah_attr(attributes), (byte) level);
        mask |= Verbs.IBV_QP_AV;
    }

    private MemorySegment route() {
        return ibv_ah_attr.grh(ibv_qp_attr.ah_attr(attributes));
    }

    /**
     * Changes the partition.
     *
     * @param index in the port's table of P_Keys
     */
    public void pkeyIndex(int index) {
        ibv_qp_attr.pkey_index(attributes, (short) index);
        mask |= Verbs.IBV_QP_PKEY_INDEX;
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
