package dev.verbena.internal.verbs;

/**
 * What {@code ibv_get_async_event} brought.
 *
 * @param kind what it means here
 * @param object the address of the {@code ibv_cq}, {@code ibv_srq} or {@code ibv_qp} it is about,
 *     otherwise 0
 */
public record AsyncEvent(Kind kind, long object) {
    /** The events that somebody here waits for. */
    public enum Kind {
        /** None was there. */
        NONE,
        /** {@code IBV_EVENT_CQ_ERR}: a completion queue overran. */
        COMPLETION_QUEUE_BROKEN,
        /** {@code IBV_EVENT_DEVICE_FATAL}: the device is of no use any more. */
        DEVICE_BROKEN,
        /**
         * None was there and none will come: the device was removed. The descriptor stays readable
         * all the same, so whoever waits for it has to stop.
         */
        ENDED,
        /** {@code IBV_EVENT_SRQ_LIMIT_REACHED}: a shared receive queue ran low. */
        RECEIVES_RAN_LOW,
        /** {@code IBV_EVENT_SRQ_ERR}: a shared receive queue is of no use any more. */
        SHARED_QUEUE_BROKEN,
        /**
         * {@code IBV_EVENT_QP_LAST_WQE_REACHED}: a queue pair in the error state has ended the last
         * of the shared receives that it took.
         */
        LAST_RECEIVE_REACHED,
        /**
         * {@code IBV_EVENT_COMM_EST}: data came for a queue pair before it was told that its
         * connection is established.
         */
        DATA_CAME,
        /** Anything else: completions or the connection manager tell the same, or nobody asks. */
        OTHER
    }
}
