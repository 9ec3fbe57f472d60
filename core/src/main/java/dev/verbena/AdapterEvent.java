package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.events.FlightRecording.DeviceEvent;
import dev.verbena.internal.verbs.AsyncEvent;

import org.jspecify.annotations.Nullable;

/**
 * An asynchronous event of a device ({@code ibv_get_async_event}), such as a link that went down,
 * delivered to the listeners of {@link Adapter#onEvent}:
 *
 * {@snippet file="dev/verbena/examples/Watch.java" region="events"}
 *
 * <p>Later versions may add types, so a {@code switch} over {@link #type} needs a {@code default}.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class AdapterEvent {
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
         * A {@linkplain #queuePair queue pair} failed: IBV_EVENT_QP_FATAL. Its outstanding requests
         * end with a status.
         */
        QUEUE_PAIR_FAILED,
        /**
         * The peer of a {@linkplain #queuePair queue pair} sent a request that cannot be carried
         * out: IBV_EVENT_QP_REQ_ERR.
         */
        QUEUE_PAIR_REQUEST_ERROR,
        /**
         * The peer of a {@linkplain #queuePair queue pair} named memory that it may not access:
         * IBV_EVENT_QP_ACCESS_ERR.
         */
        QUEUE_PAIR_ACCESS_ERROR,
        /**
         * A {@linkplain #queuePair queue pair} received data before its connection was established
         * on this side: IBV_EVENT_COMM_EST. Connectors handle it.
         */
        COMMUNICATION_ESTABLISHED,
        /**
         * The last outstanding send of a {@linkplain #queuePair queue pair} in the state SQD has
         * ended: IBV_EVENT_SQ_DRAINED.
         */
        SEND_QUEUE_DRAINED,
        /**
         * A failed or flushed {@linkplain #queuePair queue pair} has ended the last receive that it
         * took from its shared receive queue: IBV_EVENT_QP_LAST_WQE_REACHED.
         */
        LAST_RECEIVE_REACHED,
        /** A {@linkplain #queuePair queue pair} uses its alternate path: IBV_EVENT_PATH_MIG. */
        PATH_MIGRATED,
        /**
         * A {@linkplain #queuePair queue pair} could not change to its alternate path:
         * IBV_EVENT_PATH_MIG_ERR.
         */
        PATH_MIGRATION_FAILED,
        /**
         * A {@linkplain #completionQueue completion queue} overran: IBV_EVENT_CQ_ERR. Its
         * completions are lost, and its queue pairs fail.
         */
        COMPLETION_QUEUE_FAILED,
        /** A {@linkplain #sharedReceiveQueue shared receive queue} failed: IBV_EVENT_SRQ_ERR. */
        SHARED_RECEIVE_QUEUE_FAILED,
        /**
         * A {@linkplain #sharedReceiveQueue shared receive queue} has fewer receives than the
         * threshold of {@link SharedReceiveQueue#notifyBelow}: IBV_EVENT_SRQ_LIMIT_REACHED.
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

    private final Adapter adapter;
    private final AsyncEvent event;

    AdapterEvent(Adapter adapter, AsyncEvent event) {
        this.adapter = adapter;
        this.event = event;
    }

    /** For the Flight Recorder. */
    void record() {
        Object object = event.object();
        DeviceEvent.record(
                adapter.name(), port(), type().name(), object == null ? "" : object.toString());
    }

    /**
     * What happened.
     *
     * @return the type
     */
    public Type type() {
        return event.type();
    }

    /**
     * The event's number in verbs, {@code enum ibv_event_type}.
     *
     * @return -1 for {@link Type#DEVICE_REMOVED} and {@link Type#EVENTS_ENDED}, which verbs does
     *     not have
     */
    public int number() {
        return event.number();
    }

    /**
     * The adapter of the device.
     *
     * @return the adapter, which may be closed by now
     */
    public Adapter adapter() {
        return adapter;
    }

    /**
     * The number of the port, for event types that concern a port.
     *
     * @return from 1; 0 for all other types
     */
    public int port() {
        return event.port();
    }

    /**
     * The queue pair, for event types that concern one.
     *
     * @return the queue pair, which may be closed by now; null for all other types, and if it was
     *     closed before the event was taken
     */
    public @Nullable QueuePair queuePair() {
        return event.object() instanceof QueuePair queuePair ? queuePair : null;
    }

    /**
     * The completion queue, for {@link Type#COMPLETION_QUEUE_FAILED}.
     *
     * @return the completion queue, which may be closed by now; null for all other types, and if it
     *     was closed before the event was taken
     */
    public @Nullable CompletionQueue completionQueue() {
        return event.object() instanceof CompletionQueue queue ? queue : null;
    }

    /**
     * The shared receive queue, for event types that concern one.
     *
     * @return the queue, which may be closed by now; null for all other types, and if it was closed
     *     before the event was taken
     */
    public @Nullable SharedReceiveQueue sharedReceiveQueue() {
        return event.object() instanceof SharedReceiveQueue queue ? queue : null;
    }

    @Override
    public String toString() {
        Object object = event.object();
        return "%s of %s%s%s"
                .formatted(
                        type() == Type.OTHER ? "OTHER (%d)".formatted(number()) : type(),
                        adapter.name(),
                        port() == 0 ? "" : " port " + port(),
                        object == null ? "" : ": " + object);
    }
}
