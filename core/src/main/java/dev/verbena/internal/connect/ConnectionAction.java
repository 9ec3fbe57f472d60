package dev.verbena.internal.connect;

/** What a connection does on a trigger; {@link ConnectionStateMachine} has a method for each. */
enum ConnectionAction {
    /** Does nothing. */
    IGNORE,
    /** Throws: the call is not possible in this state. */
    REFUSE,
    /** Throws the reason that was stored when the request was lost. */
    REFUSE_WITH_REASON,
    /** Throws IllegalStateException: a close comes once. */
    REFUSE_SECOND_CLOSE,

    // ---- connecting

    /** Creates an identifier, begins the step, calls rdma_resolve_addr. */
    START_CONNECT,
    /** Calls rdma_resolve_addr once more, from the same address. */
    RESOLVE_AGAIN,
    /** Calls rdma_resolve_addr with a new identifier, from the next local address. */
    RESOLVE_FROM_NEXT,
    /** Calls rdma_resolve_route. */
    RESOLVE_ROUTE,
    /** Calls rdma_connect. */
    SEND_REQUEST,
    /** Reads the peer's parameters; the step succeeds. */
    TAKE_RESPONSE,
    /** Moves the queue pair to RTS, calls rdma_establish, lets posts through. */
    ESTABLISH,

    // ---- accepting

    /** Begins the step, moves the queue pair to RTS, calls rdma_accept. */
    SEND_REPLY,
    /** Lets posts through; the step succeeds. */
    OPEN_QUEUE_PAIR,
    /** Calls rdma_notify: the kernel then reports that the peer has completed. */
    NOTIFY_DATA,
    /** Calls rdma_reject, and releases everything. */
    SEND_REJECT,
    /**
     * Destroys the identifier, which refuses the peer, and closes the connector with the reason.
     */
    EXPIRE_REQUEST,

    // ---- failing

    /** Keeps the reason for the next call: no step is outstanding that it could fail. */
    STORE_REASON,
    /** The step fails, and everything is released; a queue pair that was changed is flushed. */
    GIVE_UP,
    /** As {@link #GIVE_UP}; the caller gets the stored reason. */
    GIVE_UP_WITH_REASON,

    // ---- disconnecting

    /** Begins the step, refuses posts, checks whether outstanding requests have ended. */
    START_DRAIN,
    /** Checks whether outstanding requests have ended, and sets a timer if not. */
    CHECK_DRAIN,
    /** Flushes the queue pair, calls rdma_disconnect. */
    FLUSH_AND_DISCONNECT,
    /** Flushes, calls rdma_disconnect as a reply to the peer, releases; the step succeeds. */
    CONFIRM_DISCONNECT,
    /** Releases everything; the step succeeds. */
    FINISH_DISCONNECT,
    /** Flushes, releases everything; the step fails. */
    FAIL_DISCONNECT,
    /** The caller gets the future of the disconnect that has begun. */
    JOIN_DISCONNECT,
    /** The caller gets a future that is complete: it was disconnected before. */
    NOTHING_TO_DO,
    /** Flushes and releases what was left as it was when the peer disconnected. */
    FLUSH_AND_RELEASE,

    // ---- the end, from elsewhere

    /** Refuses posts, calls rdma_disconnect as a reply, reports the peer's disconnect. */
    REPORT_PEER_DISCONNECT,
    /** Refuses posts, calls rdma_disconnect, reports the failure. */
    REPORT_FAILED_REQUEST,
    /** Stores the reason, reports that nothing will be known of this connection any more. */
    REPORT_LOST_EVENTS,
    /** The step fails, everything is released; a queue pair that was changed is flushed. */
    DROP_WITH_DEVICE,
    /** As {@link #DROP_WITH_DEVICE}; reports the end of the connection. */
    END_WITH_DEVICE,

    // ---- closing

    /** Flushes, calls rdma_disconnect, reports the end; the step is cancelled. */
    CLOSE_AND_DISCONNECT,
    /** The same without rdma_disconnect, which was called. */
    CLOSE_DISCONNECTED,
    /** Releases everything, which refuses a peer that waits; the step is cancelled. */
    CLOSE_AT_ONCE,
    /** Releases everything; the connector may be destroyed. */
    FINISH_CLOSE
}
