package dev.verbena.internal.verbs;

/**
 * One event of {@code ibv_get_async_event}.
 *
 * @param kind the event, as far as this library distinguishes them
 * @param object the address of the {@code ibv_cq}, {@code ibv_srq} or {@code ibv_qp} that the event
 *     names; 0 for events of the device or a port
 */
public record AsyncEvent(Kind kind, long object) {
    /** The events that this library handles. */
    public enum Kind {
        /** No event was pending. */
        NONE,
        /** {@code IBV_EVENT_CQ_ERR}: a completion queue overran. */
        COMPLETION_QUEUE_BROKEN,
        /** {@code IBV_EVENT_DEVICE_FATAL}: the device failed; no object on it works any more. */
        DEVICE_BROKEN,
        /**
         * The device was removed: no event is pending and none will follow. The descriptor
         * nevertheless stays readable, so the event loop must stop polling it.
         */
        DEVICE_DISASSOCIATED,
        /**
         * {@code IBV_EVENT_SRQ_LIMIT_REACHED}: a shared receive queue has fewer receives posted
         * than its limit.
         */
        RECEIVES_RAN_LOW,
        /** {@code IBV_EVENT_SRQ_ERR}: a shared receive queue failed. */
        SHARED_QUEUE_BROKEN,
        /**
         * {@code IBV_EVENT_QP_LAST_WQE_REACHED}: a queue pair in the error state has completed the
         * last receive that it took from its shared receive queue.
         */
        LAST_RECEIVE_REACHED,
        /**
         * {@code IBV_EVENT_COMM_EST}: a queue pair received data before the connection manager
         * reported the connection as established.
         */
        COMMUNICATION_ESTABLISHED,
        /**
         * Any other event. Ignored: completions or the connection manager report the same, or the
         * event does not matter here.
         */
        OTHER
    }
}
