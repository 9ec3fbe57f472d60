package dev.verbena.internal.verbs;

/**
 * What {@code rdma_get_cm_event} brought, copied out of the library's memory.
 *
 * @param kind what it means here
 * @param key the key of the identifier it is about; for a request, of the listening one
 * @param id for a request, the new {@code rdma_cm_id}; otherwise 0
 * @param status a negative errno, for {@link Kind#REJECTED} a reason of the InfiniBand
 *     specification, or 0
 * @param data the peer's private data, padded with zeros to what the transport carries
 * @param inboundReads how many reads the peer wants to have under way towards here
 * @param outboundReads how many reads the peer lets in
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
        /** None was there. */
        NONE,
        /** The peer's address belongs to a device and a neighbour. */
        ADDRESS_RESOLVED,
        /** It does not. */
        ADDRESS_ERROR,
        /** There is a way to the peer. */
        ROUTE_RESOLVED,
        /** There is none. */
        ROUTE_ERROR,
        /** A peer wants to connect. */
        REQUEST,
        /** The peer accepted; nothing is established before it is told so. */
        RESPONSE,
        /** The connection could not be established after the peer had answered. */
        CONNECT_ERROR,
        /** The peer did not answer. */
        UNREACHABLE,
        /** The peer refused. */
        REJECTED,
        /** The connection stands. */
        ESTABLISHED,
        /** It is over. */
        DISCONNECTED,
        /** The device is gone. */
        DEVICE_REMOVED,
        /** The device's Ethernet address changed, as in the failover of a bond. */
        ADDRESS_CHANGED,
        /** No packet of the old connection can be under way any more. */
        QUIET,
        /** Multicast, which nobody here asks for. */
        OTHER
    }

    /** The reason {@link #status} has when a program refused, by {@code rdma_reject}. */
    public static final int REJECTED_BY_PROGRAM = 28;

    /** The reason when nobody listens. */
    public static final int REJECTED_NO_LISTENER = 8;

    /** The reason when the other side gave up waiting. */
    public static final int REJECTED_TIMEOUT = 4;

    /** The reason when the other side still knows an older connection of this queue pair. */
    public static final int REJECTED_STALE = 10;

    /** When there is none. */
    public static final ConnectionEvent NOTHING =
            new ConnectionEvent(Kind.NONE, 0, 0, 0, new byte[0], 0, 0);
}
