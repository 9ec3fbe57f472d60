package dev.verbena.internal.verbs;

import dev.verbena.Port;
import dev.verbena.QueuePairAddress;
import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvQpAttr;

import org.jspecify.annotations.Nullable;

/**
 * One state transition of a queue pair: a {@code struct ibv_qp_attr} and its mask. The connection
 * manager fills it in, or one of the factory methods does; the caller may adjust it before {@code
 * ibv_modify_qp}.
 *
 * <p>Its memory is borrowed until {@link #close}. For one thread.
 */
public final class StateChange implements AutoCloseable {
    public static final int INITIALIZED = Verbs.IBV_QPS_INIT;
    public static final int READY_TO_RECEIVE = Verbs.IBV_QPS_RTR;
    public static final int READY_TO_SEND = Verbs.IBV_QPS_RTS;

    /** An attribute that can be adjusted, with its bits in the mask. */
    public enum Attribute {
        /**
         * The operations of the peer that the queue pair allows. The connection manager does not
         * set them.
         */
        ACCESS(IbvQpAttr.QP_ACCESS_FLAGS, Integer.BYTES, Verbs.IBV_QP_ACCESS_FLAGS),
        /** How many reads and atomics of the peer may be outstanding towards this side. */
        INBOUND_READS(IbvQpAttr.MAX_DEST_RD_ATOMIC, Byte.BYTES, Verbs.IBV_QP_MAX_DEST_RD_ATOMIC),
        /** How many reads and atomics may be outstanding towards the peer. */
        OUTBOUND_READS(IbvQpAttr.MAX_RD_ATOMIC, Byte.BYTES, Verbs.IBV_QP_MAX_QP_RD_ATOMIC),
        /** How often an unacknowledged packet is sent again, 0 to 7. */
        RETRIES(IbvQpAttr.RETRY_CNT, Byte.BYTES, Verbs.IBV_QP_RETRY_CNT),
        /**
         * How often a message is sent again while the peer has no receive posted, 0 to 7, where 7
         * means without limit.
         */
        RNR_RETRIES(IbvQpAttr.RNR_RETRY, Byte.BYTES, Verbs.IBV_QP_RNR_RETRY),
        /**
         * The time after which the peer may send a message again for which this side had no receive
         * posted, 0 to 31, as verbs encodes it: 1 is the shortest, 0 the longest.
         */
        MIN_RNR_TIMER(IbvQpAttr.MIN_RNR_TIMER, Byte.BYTES, Verbs.IBV_QP_MIN_RNR_TIMER),
        /** The traffic class in the IP header (or GRH) of each packet. */
        TRAFFIC_CLASS(IbvQpAttr.AH_ATTR_GRH_TRAFFIC_CLASS, Byte.BYTES, Verbs.IBV_QP_AV),
        /** The flow label in the GRH, 20 bits, from which RoCE devices make the UDP source port. */
        FLOW_LABEL(IbvQpAttr.AH_ATTR_GRH_FLOW_LABEL, Integer.BYTES, Verbs.IBV_QP_AV),
        /** The service level of each packet, 0 to 15. */
        SERVICE_LEVEL(IbvQpAttr.AH_ATTR_SL, Byte.BYTES, Verbs.IBV_QP_AV),
        /** The index of the partition key. */
        PKEY_INDEX(IbvQpAttr.PKEY_INDEX, Short.BYTES, Verbs.IBV_QP_PKEY_INDEX),
        /**
         * The time after which an unacknowledged packet is sent again, 1 to 31: an exponent, for
         * 4.096 us * 2^exponent.
         */
        ACK_TIMEOUT(IbvQpAttr.TIMEOUT, Byte.BYTES, Verbs.IBV_QP_TIMEOUT);

        private final long offset;
        private final int bytes;
        private final int bits;

        Attribute(long offset, int bytes, int bits) {
            this.offset = offset;
            this.bytes = bytes;
            this.bits = bits;
        }
    }

    /**
     * Not 7: rxe's completer never counts those down (rxe_comp.c; seen on 6.1: a request to a peer
     * in the error state was still outstanding after 30 s).
     */
    public static final int MOST_RETRIES = 6;

    // Of a connection by address. Local ACK timeout 4.096 us * 2^14 = 67 ms, with 6 retries: a
    // request to a peer that vanished ends in IO_TIMEOUT after about half a second.
    private static final int ACK_TIMEOUT = 14;
    // RNR retries while the peer has no receive posted: 6, at intervals of 655 ms (encoded as 0),
    // so about 4 s until IO_TIMEOUT, which is longer than a garbage collection pause of the peer. 7
    // would retry without limit; NDK expects the request to end.
    private static final int RNR_RETRIES = 6;
    private static final int RNR_RETRIES_INFINITE = 7;
    private static final int RNR_TIMER = 0;
    private static final int HOP_LIMIT = 64;

    private final Scratch scratch = Scratch.borrow();
    private final long attributes = scratch.allocate(IbvQpAttr.SIZE);
    private final long mask = scratch.allocate(Integer.BYTES);

    /** Creates a transition with the target state, whose mask is empty. */
    public StateChange(int state) {
        Native.putInt(attributes, IbvQpAttr.QP_STATE, state);
    }

    /** To the error state, from any other. */
    static StateChange toError() {
        StateChange change = new StateChange(Verbs.IBV_QPS_ERR);
        change.mask(Verbs.IBV_QP_STATE);
        return change;
    }

    /**
     * From RESET to INIT, of a queue pair that is not connected yet.
     *
     * @param access the operations of the peer that it allows
     */
    static StateChange initialized(int port, int access) {
        StateChange change = new StateChange(INITIALIZED);
        Native.putByte(change.attributes, IbvQpAttr.PORT_NUM, port);
        change.mask(Verbs.IBV_QP_STATE | Verbs.IBV_QP_PORT);
        change.set(Attribute.PKEY_INDEX, 0);
        change.set(Attribute.ACCESS, access);
        return change;
    }

    /**
     * From INIT to ready-to-receive, after which the queue pair accepts packets from the peer: of a
     * connection without the connection manager.
     *
     * @param own the GID of this side, or null on InfiniBand, where the LID is enough
     * @param inboundReads how many reads and atomics the peer may have outstanding towards this
     *     side
     */
    public static StateChange readyToReceive(
            int port,
            int mtuBytes,
            Port.@Nullable GidEntry own,
            QueuePairAddress peer,
            int inboundReads) {
        StateChange change = new StateChange(READY_TO_RECEIVE);
        long a = change.attributes;
        int mtu = VerbsContext.mtuOf(Math.min(mtuBytes, peer.mtuBytes()));
        Native.putInt(a, IbvQpAttr.PATH_MTU, mtu);
        Native.putInt(a, IbvQpAttr.DEST_QP_NUM, peer.queuePairNumber());
        Native.putInt(a, IbvQpAttr.RQ_PSN, peer.firstSequenceNumber());
        Native.putShort(a, IbvQpAttr.AH_ATTR_DLID, peer.lid());
        Native.putByte(a, IbvQpAttr.AH_ATTR_PORT_NUM, port);
        if (own != null) {
            Native.putByte(a, IbvQpAttr.AH_ATTR_IS_GLOBAL, 1);
            Native.putByte(a, IbvQpAttr.AH_ATTR_GRH_SGID_INDEX, own.index());
            Native.putByte(a, IbvQpAttr.AH_ATTR_GRH_HOP_LIMIT, HOP_LIMIT);
            Native.putBigEndian(a, IbvQpAttr.AH_ATTR_GRH_DGID, peer.gid().high());
            Native.putBigEndian(a, IbvQpAttr.AH_ATTR_GRH_DGID + Long.BYTES, peer.gid().low());
        }
        change.mask(
                Verbs.IBV_QP_STATE
                        | Verbs.IBV_QP_AV
                        | Verbs.IBV_QP_PATH_MTU
                        | Verbs.IBV_QP_DEST_QPN
                        | Verbs.IBV_QP_RQ_PSN);
        change.set(Attribute.INBOUND_READS, inboundReads);
        change.set(Attribute.MIN_RNR_TIMER, RNR_TIMER);
        return change;
    }

    /**
     * From ready-to-receive to ready-to-send: of a connection without the connection manager.
     *
     * @param infiniteRnrRetry whether to retry without limit while the peer has no receive posted,
     *     instead of for some seconds
     */
    public static StateChange readyToSend(
            int sequence, int outboundReads, boolean infiniteRnrRetry) {
        StateChange change = new StateChange(READY_TO_SEND);
        Native.putInt(change.attributes, IbvQpAttr.SQ_PSN, sequence);
        change.mask(Verbs.IBV_QP_STATE | Verbs.IBV_QP_SQ_PSN);
        change.set(Attribute.OUTBOUND_READS, outboundReads);
        change.set(Attribute.ACK_TIMEOUT, ACK_TIMEOUT);
        change.set(Attribute.RETRIES, MOST_RETRIES);
        change.set(Attribute.RNR_RETRIES, rnrRetries(infiniteRnrRetry));
        return change;
    }

    /** How often a request is sent again while the peer has no receive posted. */
    public static int rnrRetries(boolean infinite) {
        return infinite ? RNR_RETRIES_INFINITE : RNR_RETRIES;
    }

    /** The address of the {@code ibv_qp_attr}. */
    long attributes() {
        return attributes;
    }

    /** Where a call that fills this in writes the mask. */
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

    public int state() {
        return Native.getInt(attributes, IbvQpAttr.QP_STATE);
    }

    /** Sets an attribute, and its bits of the mask. */
    public void set(Attribute attribute, int value) {
        switch (attribute.bytes) {
            case Byte.BYTES -> Native.putByte(attributes, attribute.offset, value);
            case Short.BYTES -> Native.putShort(attributes, attribute.offset, value);
            default -> Native.putInt(attributes, attribute.offset, value);
        }
        mask(mask() | attribute.bits);
    }

    public int get(Attribute attribute) {
        return switch (attribute.bytes) {
            case Byte.BYTES -> Native.getByte(attributes, attribute.offset);
            case Short.BYTES -> Native.getShort(attributes, attribute.offset);
            default -> Native.getInt(attributes, attribute.offset);
        };
    }

    /** Gives the memory back: nothing may use this any more. */
    @Override
    public void close() {
        scratch.close();
    }
}
