package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

/**
 * One state transition of a queue pair that is being connected: a {@code struct ibv_qp_attr} and
 * its mask. The connection manager fills it in, or {@link #readyToReceive} and {@link #readyToSend}
 * do; the caller may adjust it before {@code ibv_modify_qp}.
 *
 * <p>Its memory is borrowed until {@link #close}. For one thread.
 */
public final class StateChange implements AutoCloseable {
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

    private final Scratch scratch = Scratch.borrow();
    private final long attributes = scratch.allocate(Structs.IbvQpAttr.SIZE);
    private final long mask = scratch.allocate(Integer.BYTES);

    /** Creates a transition with only the target state set. */
    public StateChange(int state) {
        putInt(Structs.IbvQpAttr.QP_STATE, state);
    }

    /**
     * From INIT to ready-to-receive, after which the queue pair accepts packets from the peer: of a
     * connection without the connection manager.
     */
    public static StateChange readyToReceive(PathAttributes path) {
        StateChange change = new StateChange(READY_TO_RECEIVE);
        change.putInt(Structs.IbvQpAttr.PATH_MTU, path.mtu());
        change.putInt(Structs.IbvQpAttr.DEST_QP_NUM, path.peerNumber());
        change.putInt(Structs.IbvQpAttr.RQ_PSN, path.peerSequence());
        change.putShort(Structs.IbvQpAttr.AH_ATTR_DLID, path.peerLid());
        change.putByte(Structs.IbvQpAttr.AH_ATTR_PORT_NUM, path.port());
        if (path.ethernet()) {
            change.putByte(Structs.IbvQpAttr.AH_ATTR_IS_GLOBAL, 1);
            change.putByte(Structs.IbvQpAttr.AH_ATTR_GRH_SGID_INDEX, path.gidIndex());
            change.putByte(Structs.IbvQpAttr.AH_ATTR_GRH_HOP_LIMIT, HOP_LIMIT);
            long gid = Structs.IbvQpAttr.AH_ATTR_GRH_DGID;
            Native.putBigEndian(change.attributes, gid, path.peerGidHigh());
            Native.putBigEndian(change.attributes, gid + Long.BYTES, path.peerGidLow());
        }
        change.mask(
                Verbs.IBV_QP_STATE
                        | Verbs.IBV_QP_AV
                        | Verbs.IBV_QP_PATH_MTU
                        | Verbs.IBV_QP_DEST_QPN
                        | Verbs.IBV_QP_RQ_PSN);
        change.inboundReads(path.inboundReads());
        change.minRnrTimer(RNR_TIMER);
        return change;
    }

    /**
     * From ready-to-receive to ready-to-send: of a connection without the connection manager.
     *
     * @param outboundReads how many reads and atomics it may have outstanding
     * @param infiniteRnrRetry whether to retry without limit while the peer has no receive posted,
     *     instead of for some seconds
     */
    public static StateChange readyToSend(
            int sequence, int outboundReads, boolean infiniteRnrRetry) {
        StateChange change = new StateChange(READY_TO_SEND);
        change.putInt(Structs.IbvQpAttr.SQ_PSN, sequence);
        change.mask(Verbs.IBV_QP_STATE | Verbs.IBV_QP_SQ_PSN);
        change.outboundReads(outboundReads);
        change.ackTimeout(ACK_TIMEOUT);
        change.retries(RETRIES);
        change.rnrRetries(infiniteRnrRetry ? RNR_RETRIES_INFINITE : RNR_RETRIES);
        return change;
    }

    /** Where the calls that take this capture errno. */
    Scratch scratch() {
        return scratch;
    }

    /** The address of the {@code ibv_qp_attr}. */
    long attributes() {
        return attributes;
    }

    /** Where a call that fills this in says what it has filled in. */
    long addressOfMask() {
        return mask;
    }

    int mask() {
        return Native.getInt(mask, 0);
    }

    /** Sets which attributes have a value. */
    void mask(int fields) {
        Native.putInt(mask, 0, fields);
    }

    private void add(int fields) {
        mask(mask() | fields);
    }

    private void putInt(long offset, int value) {
        Native.putInt(attributes, offset, value);
    }

    private void putShort(long offset, int value) {
        Native.putShort(attributes, offset, value);
    }

    private void putByte(long offset, int value) {
        Native.putByte(attributes, offset, value);
    }

    private int getInt(long offset) {
        return Native.getInt(attributes, offset);
    }

    private int getByte(long offset) {
        return Native.getByte(attributes, offset);
    }

    /** Gives the memory back: nothing may use this any more. */
    @Override
    public void close() {
        scratch.close();
    }

    /** The target state. */
    public int state() {
        return getInt(Structs.IbvQpAttr.QP_STATE);
    }

    /**
     * Sets the operations of the peer that the queue pair allows. The connection manager does not
     * set them.
     */
    public void access(int rights) {
        putInt(Structs.IbvQpAttr.QP_ACCESS_FLAGS, rights);
        add(Verbs.IBV_QP_ACCESS_FLAGS);
    }

    /** The operations of the peer that the queue pair allows. */
    public int access() {
        return getInt(Structs.IbvQpAttr.QP_ACCESS_FLAGS);
    }

    /** How many reads and atomics of the peer may be outstanding towards this side. */
    public int inboundReads() {
        return getByte(Structs.IbvQpAttr.MAX_DEST_RD_ATOMIC);
    }

    /** Changes how many reads and atomics of the peer may be outstanding towards this side. */
    public void inboundReads(int reads) {
        putByte(Structs.IbvQpAttr.MAX_DEST_RD_ATOMIC, reads);
        add(Verbs.IBV_QP_MAX_DEST_RD_ATOMIC);
    }

    /** How many reads and atomics may be outstanding towards the peer. */
    public int outboundReads() {
        return getByte(Structs.IbvQpAttr.MAX_RD_ATOMIC);
    }

    /** Changes how many reads and atomics may be outstanding towards the peer. */
    public void outboundReads(int reads) {
        putByte(Structs.IbvQpAttr.MAX_RD_ATOMIC, reads);
        add(Verbs.IBV_QP_MAX_QP_RD_ATOMIC);
    }

    /**
     * How often an unacknowledged packet is sent again.
     *
     * @return 0 to 7
     */
    public int retries() {
        return getByte(Structs.IbvQpAttr.RETRY_CNT);
    }

    /**
     * Changes how often an unacknowledged packet is sent again.
     *
     * @param times 0 to 7
     */
    public void retries(int times) {
        putByte(Structs.IbvQpAttr.RETRY_CNT, times);
        add(Verbs.IBV_QP_RETRY_CNT);
    }

    /**
     * How often a message is sent again while the peer has no receive posted (RNR retries).
     *
     * @return 0 to 7, where 7 means without limit
     */
    public int rnrRetries() {
        return getByte(Structs.IbvQpAttr.RNR_RETRY);
    }

    /**
     * Changes how often a message is sent again while the peer has no receive posted.
     *
     * @param times 0 to 7, where 7 means without limit
     */
    public void rnrRetries(int times) {
        putByte(Structs.IbvQpAttr.RNR_RETRY, times);
        add(Verbs.IBV_QP_RNR_RETRY);
    }

    /**
     * Changes the time after which the peer may send a message again for which this side had no
     * receive posted.
     *
     * @param code 0 to 31, as verbs encodes it: 1 is the shortest, 0 the longest
     */
    public void minRnrTimer(int code) {
        putByte(Structs.IbvQpAttr.MIN_RNR_TIMER, code);
        add(Verbs.IBV_QP_MIN_RNR_TIMER);
    }

    /** Changes the traffic class in the IP header (or GRH) of each packet. */
    public void trafficClass(int value) {
        putByte(Structs.IbvQpAttr.AH_ATTR_GRH_TRAFFIC_CLASS, value);
        add(Verbs.IBV_QP_AV);
    }

    /**
     * Changes the flow label in the GRH, from which RoCE devices make the UDP source port.
     *
     * @param value 20 bits
     */
    public void flowLabel(int value) {
        putInt(Structs.IbvQpAttr.AH_ATTR_GRH_FLOW_LABEL, value);
        add(Verbs.IBV_QP_AV);
    }

    /**
     * Changes the service level of each packet.
     *
     * @param level 0 to 15
     */
    public void serviceLevel(int level) {
        putByte(Structs.IbvQpAttr.AH_ATTR_SL, level);
        add(Verbs.IBV_QP_AV);
    }

    /** Changes the partition. */
    public void pkeyIndex(int index) {
        putShort(Structs.IbvQpAttr.PKEY_INDEX, index);
        add(Verbs.IBV_QP_PKEY_INDEX);
    }

    /**
     * Changes the time after which an unacknowledged packet is sent again.
     *
     * @param exponent 1 to 31, for 4.096 us * 2^exponent
     */
    public void ackTimeout(int exponent) {
        putByte(Structs.IbvQpAttr.TIMEOUT, exponent);
        add(Verbs.IBV_QP_TIMEOUT);
    }

    /** The time after which an unacknowledged packet is sent again. */
    public int ackTimeout() {
        return getByte(Structs.IbvQpAttr.TIMEOUT);
    }
}
