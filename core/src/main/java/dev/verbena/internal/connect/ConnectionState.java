package dev.verbena.internal.connect;

import dev.verbena.ConnectionInfo;

import org.jspecify.annotations.Nullable;

/**
 * Where a connection is between its first call and its close.
 *
 * <p>{@link ConnectionTable} says which trigger leads from one to the next.
 */
enum ConnectionState {
    /** Nothing has begun, or an attempt to connect failed: {@code connect} is possible. */
    IDLE("not connected"),
    /** {@code rdma_resolve_addr} was called: which device and neighbour lead to the peer? */
    RESOLVING_ADDRESS("connecting"),
    /** {@code rdma_resolve_route} was called. */
    RESOLVING_ROUTE("connecting"),
    /** {@code rdma_connect} was called: the peer has the request. */
    CONNECTING("connecting"),
    /** The peer accepted; this side completes or rejects. NDK's Connect has succeeded. */
    ACCEPTED_BY_PEER("to be completed or rejected"),
    /** As before, but of no use any more; the stored reason goes to the next call. */
    ACCEPTANCE_LOST("to be completed or rejected"),
    /** A peer's request, to be accepted or rejected here. */
    REQUESTED("a request, to be accepted or rejected"),
    /** As before, but of no use any more; the stored reason goes to the next call. */
    REQUEST_LOST("a request, to be accepted or rejected"),
    /** The listener refused the request because it was not answered in time. */
    REQUEST_EXPIRED("a request that was not answered in time"),
    /** {@code rdma_accept} was called: the peer has to complete. */
    ACCEPTING("accepting"),
    /** Both sides may post. */
    ESTABLISHED("established"),
    /** This side disconnects: posts are refused, outstanding requests may still end. */
    DRAINING("disconnecting"),
    /** {@code rdma_disconnect} was called: the peer has to confirm. */
    DISCONNECTING("disconnecting"),
    /** The peer disconnected, or a request failed. Nothing was flushed; posts are refused. */
    PEER_LEFT("disconnected by the peer, or by a request that failed"),
    /** Disconnected; identifier and queue pair are released. */
    ENDED("disconnected"),
    /** Never connected, and cannot be any more: a request that was rejected or not completed. */
    FAILED("over"),
    /** This side closed while connected: the peer has to confirm. */
    CLOSING("closed"),
    /** Everything is released. */
    CLOSED("closed");

    private final String description;

    ConnectionState(String description) {
        this.description = description;
    }

    /** For a sentence that begins with "this connector is". */
    String description() {
        return description;
    }

    /** The state that a program sees; null without a connection and without an attempt. */
    ConnectionInfo.@Nullable State shown() {
        return switch (this) {
            case REQUESTED, REQUEST_LOST -> ConnectionInfo.State.REQUESTED;
            case RESOLVING_ADDRESS,
                    RESOLVING_ROUTE,
                    CONNECTING,
                    ACCEPTED_BY_PEER,
                    ACCEPTANCE_LOST,
                    ACCEPTING ->
                    ConnectionInfo.State.CONNECTING;
            case ESTABLISHED -> ConnectionInfo.State.ESTABLISHED;
            case DRAINING, DISCONNECTING, CLOSING -> ConnectionInfo.State.DISCONNECTING;
            case PEER_LEFT -> ConnectionInfo.State.DISCONNECTED;
            case IDLE, REQUEST_EXPIRED, ENDED, FAILED, CLOSED -> null;
        };
    }

    /** Whether a call that is refused now finds the connector in use, and not just unfit. */
    boolean inUse() {
        return connecting() || this == ESTABLISHED;
    }

    /** Whether an attempt to connect or to accept has begun and not ended. */
    boolean connecting() {
        return shown() == ConnectionInfo.State.CONNECTING;
    }
}
