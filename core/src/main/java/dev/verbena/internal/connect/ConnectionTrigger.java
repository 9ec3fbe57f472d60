package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionEvent;

/**
 * What may happen to a connection: each is a row of {@link ConnectionTable}. By itself, it is an
 * input without further data, which needs no memory.
 */
enum ConnectionTrigger implements ConnectionInput {
    // ---- calls of this side

    /** NdkConnect. */
    CONNECT,
    /** NdkCompleteConnect. */
    COMPLETE_CONNECT,
    /** NdkAccept. */
    ACCEPT,
    /** NdkReject. */
    REJECT,
    /** NdkDisconnect. */
    DISCONNECT,
    /** NdkCloseConnector. */
    CLOSE,
    /** The caller gave up the step that it waits for: interrupted, or its future was cancelled. */
    CANCEL,

    // ---- time

    /** The step's deadline has come. */
    DEADLINE,
    /** The next look at whether outstanding requests have ended. */
    DRAIN_TIMER,
    /** The peer did not confirm a close in time. */
    CLOSE_TIMEOUT,
    /** The listener refuses a request that was not answered in time. */
    EXPIRE,

    // ---- events of rdma_cm

    /** RDMA_CM_EVENT_ADDR_RESOLVED, by a way that leads by this adapter's device. */
    ADDRESS_RESOLVED,
    /** RDMA_CM_EVENT_ADDR_RESOLVED, by a way that leads by another device. */
    ADDRESS_RESOLVED_ELSEWHERE,
    /** RDMA_CM_EVENT_ADDR_ERROR with ETIMEDOUT, before the step's deadline. */
    ADDRESS_TIMEOUT,
    /** RDMA_CM_EVENT_ADDR_ERROR otherwise. */
    ADDRESS_ERROR,
    /** RDMA_CM_EVENT_ROUTE_RESOLVED. */
    ROUTE_RESOLVED,
    /** RDMA_CM_EVENT_ROUTE_ERROR. */
    ROUTE_ERROR,
    /** RDMA_CM_EVENT_CONNECT_RESPONSE: the peer accepted. */
    CONNECT_RESPONSE,
    /** RDMA_CM_EVENT_CONNECT_ERROR. */
    CONNECT_ERROR,
    /** RDMA_CM_EVENT_UNREACHABLE. */
    UNREACHABLE,
    /** RDMA_CM_EVENT_REJECTED. */
    REJECTED,
    /** RDMA_CM_EVENT_ESTABLISHED: the peer completed; on iWARP also that it accepted. */
    PEER_ESTABLISHED,
    /** RDMA_CM_EVENT_DISCONNECTED. */
    PEER_DISCONNECTED,
    /** RDMA_CM_EVENT_DISCONNECTED with a negative status: the kernel gave the peer up. */
    DISCONNECT_UNANSWERED,
    /** RDMA_CM_EVENT_TIMEWAIT_EXIT: the last event that an identifier has. */
    TIMEWAIT_EXIT,
    /** RDMA_CM_EVENT_DEVICE_REMOVAL. */
    DEVICE_REMOVED,
    /** RDMA_CM_EVENT_ADDR_CHANGE: the failover of a bond, for example. */
    ADDRESS_CHANGED,
    /** An event that is not about connections. */
    UNRELATED_EVENT,

    // ---- from elsewhere

    /** A request of the queue pair failed, which moves it to the error state. */
    WORK_REQUEST_FAILED,
    /** IBV_EVENT_COMM_EST: data came before word that the peer had completed. */
    DATA_ARRIVED,
    /** The adapter's event thread ended: no event will come any more. */
    EVENT_THREAD_ENDED,

    // ---- results of actions

    /** Outstanding requests have ended, or had their time. */
    DRAINED,
    /** No event will confirm a disconnect: rdma_disconnect failed, or the event thread ended. */
    NO_CONFIRMATION;

    @Override
    public ConnectionTrigger trigger() {
        return this;
    }

    /** The trigger of an event whose meaning depends on its kind alone. */
    static ConnectionTrigger of(ConnectionEvent.Kind kind) {
        return switch (kind) {
            case ADDRESS_RESOLVED -> ADDRESS_RESOLVED;
            case ADDRESS_ERROR -> ADDRESS_ERROR;
            case ROUTE_RESOLVED -> ROUTE_RESOLVED;
            case ROUTE_ERROR -> ROUTE_ERROR;
            case RESPONSE -> CONNECT_RESPONSE;
            case CONNECT_ERROR -> CONNECT_ERROR;
            case UNREACHABLE -> UNREACHABLE;
            case REJECTED -> REJECTED;
            case ESTABLISHED -> PEER_ESTABLISHED;
            case DISCONNECTED -> PEER_DISCONNECTED;
            case TIMEWAIT_EXIT -> TIMEWAIT_EXIT;
            case DEVICE_REMOVED -> DEVICE_REMOVED;
            case ADDRESS_CHANGED -> ADDRESS_CHANGED;
            case NONE, REQUEST, OTHER -> UNRELATED_EVENT;
        };
    }
}
