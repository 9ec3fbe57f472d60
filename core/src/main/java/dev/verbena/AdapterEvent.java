package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

/**
 * An asynchronous event of a device ({@code ibv_get_async_event}), such as a link that went down,
 * delivered to the listeners of {@link Adapter#onEvent}:
 *
 * {@snippet file="dev/verbena/examples/Watch.java" region="events"}
 *
 * <p>Later versions may add types, so a {@code switch} over {@link #type} needs a {@code default}.
 *
 * @param adapter the adapter of the device, which may be closed by now
 * @param type what happened
 * @param number the event's number in verbs, {@code enum ibv_event_type}; -1 for {@link
 *     Type#DEVICE_REMOVED} and {@link Type#EVENTS_ENDED}, which verbs does not have
 * @param port the number of the port, from 1, for event types that concern a port; otherwise 0
 * @param object the {@link QueuePair}, {@link CompletionQueue} or {@link SharedReceiveQueue}, for
 *     event types that concern one; it may be closed by now. Null for all other types, and if it
 *     was closed before the event was taken
 */
@CheckReturnValue
public record AdapterEvent(
        Adapter adapter, Type type, int number, int port, @Nullable Object object) {
    /** What happened. */
    public enum Type {
        /** The link of a {@linkplain #port port} is up: IBV_EVENT_PORT_ACTIVE. */
        PORT_UP,
        /** The link of a {@linkplain #port port} is down: IBV_EVENT_PORT_ERR. */
        PORT_DOWN,
        /**
         * The GID table of a {@linkplain #port port} changed: IBV_EVENT_GID_CHANGE. On RoCE, an
         * address of its network interface came or went. Queue pairs stay with the GID that they
         * were created with.
         */
        GIDS_CHANGED,
        /** The P_Key table of a {@linkplain #port port} changed: IBV_EVENT_PKEY_CHANGE. */
        P_KEYS_CHANGED,
        /** The LID of a {@linkplain #port port} changed (InfiniBand): IBV_EVENT_LID_CHANGE. */
        LID_CHANGED,
        /** The subnet manager of a {@linkplain #port port} changed: IBV_EVENT_SM_CHANGE. */
        SUBNET_MANAGER_CHANGED,
        /**
         * The subnet manager of a {@linkplain #port port} lost its subscriptions, so programs that
         * have any must register them again: IBV_EVENT_CLIENT_REREGISTER.
         */
        CLIENT_REREGISTER,
        /**
         * The device failed or is being removed: IBV_EVENT_DEVICE_FATAL. No object of the adapter
         * works any more; close all, and open the device again when it is back.
         */
        DEVICE_FAILED,
        /**
         * The device was removed. Kernels before 6.5 do not report that: {@link #DEVICE_FAILED} is
         * their last event.
         */
        DEVICE_REMOVED,
        /**
         * The speed of one or several ports changed while their links stayed up, as that of a bond
         * does: IBV_EVENT_DEVICE_SPEED_CHANGE, of rdma-core 62 and newer. {@link Adapter#ports} has
         * the speeds.
         */
        DEVICE_SPEED_CHANGED,
        /**
         * A {@linkplain #object queue pair} failed: IBV_EVENT_QP_FATAL. Its outstanding requests
         * end with a status.
         */
        QUEUE_PAIR_FAILED,
        /**
         * The peer of a {@linkplain #object queue pair} sent a request that cannot be carried out:
         * IBV_EVENT_QP_REQ_ERR.
         */
        QUEUE_PAIR_REQUEST_ERROR,
        /**
         * The peer of a {@linkplain #object queue pair} named memory that it may not access:
         * IBV_EVENT_QP_ACCESS_ERR.
         */
        QUEUE_PAIR_ACCESS_ERROR,
        /**
         * A {@linkplain #object queue pair} received data before its connection was established on
         * this side: IBV_EVENT_COMM_EST. Connectors handle it.
         */
        COMMUNICATION_ESTABLISHED,
        /**
         * The last outstanding send of a {@linkplain #object queue pair} in the state SQD has
         * ended: IBV_EVENT_SQ_DRAINED.
         */
        SEND_QUEUE_DRAINED,
        /**
         * A failed or flushed {@linkplain #object queue pair} has completed the last receive that
         * it took from its shared receive queue: IBV_EVENT_QP_LAST_WQE_REACHED.
         */
        LAST_RECEIVE_REACHED,
        /** A {@linkplain #object queue pair} uses its alternate path: IBV_EVENT_PATH_MIG. */
        PATH_MIGRATED,
        /**
         * A {@linkplain #object queue pair} could not change to its alternate path:
         * IBV_EVENT_PATH_MIG_ERR.
         */
        PATH_MIGRATION_FAILED,
        /**
         * A {@linkplain #object completion queue} overran: IBV_EVENT_CQ_ERR. Its completions are
         * lost, and its queue pairs fail.
         */
        COMPLETION_QUEUE_FAILED,
        /** A {@linkplain #object shared receive queue} failed: IBV_EVENT_SRQ_ERR. */
        SHARED_RECEIVE_QUEUE_FAILED,
        /**
         * A {@linkplain #object shared receive queue} has fewer receives than the threshold of
         * {@link SharedReceiveQueue#notifyBelow}: IBV_EVENT_SRQ_LIMIT_REACHED.
         */
        SHARED_RECEIVE_QUEUE_LOW,
        /**
         * This library cannot take events of the adapter any more; the cause was logged. Close the
         * adapter and open it again.
         */
        EVENTS_ENDED,
        /** An event that this library does not know: {@link #number} identifies it. */
        OTHER
    }

    /**
     * A listener's registration, from {@link Adapter#onEvent}.
     *
     * <p>May be used from any thread.
     */
    public interface Registration extends AutoCloseable {
        /**
         * Ends the calls of the listener. Waits for a call that is running, except when that call
         * itself closes the registration; events that were not delivered yet are dropped.
         *
         * @throws VerbenaException IO_TIMEOUT if a call is still running after 10 s; the
         *     registration is closed nevertheless, and no further call begins
         */
        @Override
        void close();
    }

    @Override
    public String toString() {
        return "%s of %s%s%s"
                .formatted(
                        type == Type.OTHER ? "OTHER (%d)".formatted(number) : type,
                        adapter.name(),
                        port == 0 ? "" : " port " + port,
                        object == null ? "" : ": " + object);
    }
}
