package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.RdmaCmEvent;
import dev.verbena.internal.verbs.Structs.RdmaCmId;

/**
 * One event of {@code rdma_get_cm_event}, copied out of the library's memory.
 *
 * @param key the key of the identifier that the event belongs to; for a request, the key of the
 *     listening identifier
 * @param id for a request, the new {@code rdma_cm_id}; otherwise 0
 * @param status 0 or a negative errno; for {@link Kind#REJECTED}, the reject reason of the
 *     InfiniBand specification
 * @param data the peer's private data, padded with zeros to the transport's fixed length
 * @param inboundReads how many reads and atomics the peer wants to have outstanding towards this
 *     side ({@code responder_resources})
 * @param outboundReads how many reads and atomics the peer serves at a time ({@code
 *     initiator_depth})
 */
public record ConnectionEvent(
        Kind kind,
        long key,
        long id,
        int status,
        byte[] data,
        int inboundReads,
        int outboundReads) {
    /** {@code enum rdma_cm_event_type}. */
    public enum Kind {
        /** No event was pending. */
        NONE,
        /** The peer's address was resolved to a local device and a neighbour. */
        ADDRESS_RESOLVED,
        ADDRESS_ERROR,
        ROUTE_RESOLVED,
        ROUTE_ERROR,
        REQUEST,
        /**
         * The peer accepted. The connection is established by {@link ConnectionControl#establish}.
         */
        RESPONSE,
        /** The connection could not be established after the peer had accepted. */
        CONNECT_ERROR,
        UNREACHABLE,
        REJECTED,
        ESTABLISHED,
        DISCONNECTED,
        DEVICE_REMOVED,
        /** The device's Ethernet address changed, as in the failover of a bond. */
        ADDRESS_CHANGED,
        /** The TIMEWAIT period is over: no packet of the old connection can still arrive. */
        TIMEWAIT_EXIT,
        /** Multicast events, which this library does not use. */
        OTHER
    }

    /** {@link #status} when the peer's program called {@code rdma_reject}. */
    public static final int REJECTED_BY_PROGRAM = 28;

    /** {@link #status} when no program listens on that port. */
    public static final int REJECTED_NO_LISTENER = 8;

    /** {@link #status} when the peer stopped waiting. */
    public static final int REJECTED_TIMEOUT = 4;

    /** {@link #status} when the peer still holds an older connection of this queue pair number. */
    public static final int REJECTED_STALE = 10;

    /** No event was pending. */
    public static final ConnectionEvent NOTHING =
            new ConnectionEvent(Kind.NONE, 0, 0, 0, new byte[0], 0, 0);

    /** Whether the peer's program called {@code rdma_reject}. iWARP has a negative errno. */
    public boolean rejectedByProgram() {
        return kind == Kind.REJECTED
                && (status == REJECTED_BY_PROGRAM || status == -Errno.ECONNREFUSED);
    }

    /** The new identifier of a connection request; 0 of another event. */
    static long request(long event) {
        return Native.getInt(event, RdmaCmEvent.EVENT) == Verbs.RDMA_CM_EVENT_CONNECT_REQUEST
                ? Native.getLong(event, RdmaCmEvent.ID)
                : 0;
    }

    /** Reads a {@code struct rdma_cm_event}. */
    static ConnectionEvent copy(long event) {
        long id = Native.getLong(event, RdmaCmEvent.ID);
        long data = Native.getLong(event, RdmaCmEvent.PARAM_CONN_PRIVATE_DATA);
        int length = Native.getByte(event, RdmaCmEvent.PARAM_CONN_PRIVATE_DATA_LEN);
        return new ConnectionEvent(
                kind(Native.getInt(event, RdmaCmEvent.EVENT)),
                Native.getLong(id, RdmaCmId.CONTEXT),
                request(event),
                Native.getInt(event, RdmaCmEvent.STATUS),
                data == 0 ? new byte[0] : Native.getBytes(data, length),
                Native.getByte(event, RdmaCmEvent.PARAM_CONN_RESPONDER_RESOURCES),
                Native.getByte(event, RdmaCmEvent.PARAM_CONN_INITIATOR_DEPTH));
    }

    private static Kind kind(int type) {
        return switch (type) {
            case Verbs.RDMA_CM_EVENT_ADDR_RESOLVED -> Kind.ADDRESS_RESOLVED;
            case Verbs.RDMA_CM_EVENT_ADDR_ERROR -> Kind.ADDRESS_ERROR;
            case Verbs.RDMA_CM_EVENT_ROUTE_RESOLVED -> Kind.ROUTE_RESOLVED;
            case Verbs.RDMA_CM_EVENT_ROUTE_ERROR -> Kind.ROUTE_ERROR;
            case Verbs.RDMA_CM_EVENT_CONNECT_REQUEST -> Kind.REQUEST;
            case Verbs.RDMA_CM_EVENT_CONNECT_RESPONSE -> Kind.RESPONSE;
            case Verbs.RDMA_CM_EVENT_CONNECT_ERROR -> Kind.CONNECT_ERROR;
            case Verbs.RDMA_CM_EVENT_UNREACHABLE -> Kind.UNREACHABLE;
            case Verbs.RDMA_CM_EVENT_REJECTED -> Kind.REJECTED;
            case Verbs.RDMA_CM_EVENT_ESTABLISHED -> Kind.ESTABLISHED;
            case Verbs.RDMA_CM_EVENT_DISCONNECTED -> Kind.DISCONNECTED;
            case Verbs.RDMA_CM_EVENT_DEVICE_REMOVAL -> Kind.DEVICE_REMOVED;
            case Verbs.RDMA_CM_EVENT_ADDR_CHANGE -> Kind.ADDRESS_CHANGED;
            case Verbs.RDMA_CM_EVENT_TIMEWAIT_EXIT -> Kind.TIMEWAIT_EXIT;
            default -> Kind.OTHER;
        };
    }
}
