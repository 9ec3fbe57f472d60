package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

/**
 * One event of {@code ibv_get_async_event}, copied and acknowledged.
 *
 * @param number the number in {@code enum ibv_event_type}; for {@link Kind#OTHER} one that this
 *     library does not know; -1 if it is none of verbs
 * @param element the address of the {@code ibv_cq}, {@code ibv_srq} or {@code ibv_qp} that the
 *     event names, or the number of the port; 0 for events of the device
 * @param named this library's object at that address, or null
 */
public record AsyncEvent(Kind kind, int number, long element, @Nullable Object named) {
    /** What an event names. */
    public enum Subject {
        /** The device, or something that this library does not know. */
        DEVICE,
        /** A port. */
        PORT,
        /** A queue pair. */
        QUEUE_PAIR,
        /** A completion queue. */
        COMPLETION_QUEUE,
        /** A shared receive queue. */
        SHARED_QUEUE
    }

    /** Numbers that the headers of the oldest supported rdma-core do not have. */
    private static final class Numbers {
        static final int IBV_EVENT_DEVICE_SPEED_CHANGE = 20;
    }

    /** The events of verbs, and what this library learns by other means. */
    public enum Kind {
        /** No event was pending. */
        NONE(-1, Subject.DEVICE),
        /** A completion queue overran. */
        COMPLETION_QUEUE_BROKEN(Verbs.IBV_EVENT_CQ_ERR, Subject.COMPLETION_QUEUE),
        /** The device failed; no object on it works any more. */
        DEVICE_BROKEN(Verbs.IBV_EVENT_DEVICE_FATAL, Subject.DEVICE),
        /**
         * The device was removed: no event is pending and none will follow. The descriptor
         * nevertheless stays readable, so the event loop must stop polling it.
         */
        DEVICE_DISASSOCIATED(-1, Subject.DEVICE),
        /** The speed of one or several ports changed, with rdma-core 62 and newer. */
        SPEED_CHANGED(Numbers.IBV_EVENT_DEVICE_SPEED_CHANGE, Subject.DEVICE),
        /** A shared receive queue has fewer receives posted than its limit. */
        RECEIVES_RAN_LOW(Verbs.IBV_EVENT_SRQ_LIMIT_REACHED, Subject.SHARED_QUEUE),
        /** A shared receive queue failed. */
        SHARED_QUEUE_BROKEN(Verbs.IBV_EVENT_SRQ_ERR, Subject.SHARED_QUEUE),
        /**
         * A queue pair in the error state has completed the last receive that it took from its
         * shared receive queue.
         */
        LAST_RECEIVE_REACHED(Verbs.IBV_EVENT_QP_LAST_WQE_REACHED, Subject.QUEUE_PAIR),
        /**
         * A queue pair received data before the connection manager reported the connection as
         * established.
         */
        COMMUNICATION_ESTABLISHED(Verbs.IBV_EVENT_COMM_EST, Subject.QUEUE_PAIR),
        /** A queue pair failed. */
        QUEUE_PAIR_BROKEN(Verbs.IBV_EVENT_QP_FATAL, Subject.QUEUE_PAIR),
        /** The peer sent a request that the queue pair cannot carry out. */
        INVALID_REQUEST(Verbs.IBV_EVENT_QP_REQ_ERR, Subject.QUEUE_PAIR),
        /** The peer named memory that it may not access. */
        ACCESS_VIOLATION(Verbs.IBV_EVENT_QP_ACCESS_ERR, Subject.QUEUE_PAIR),
        /** A queue pair in the state SQD has no send outstanding any more. */
        SEND_QUEUE_DRAINED(Verbs.IBV_EVENT_SQ_DRAINED, Subject.QUEUE_PAIR),
        /** A queue pair uses its alternate path now. */
        PATH_MIGRATED(Verbs.IBV_EVENT_PATH_MIG, Subject.QUEUE_PAIR),
        /** A queue pair could not change to its alternate path. */
        PATH_MIGRATION_FAILED(Verbs.IBV_EVENT_PATH_MIG_ERR, Subject.QUEUE_PAIR),
        /** The link of a port is up. */
        PORT_UP(Verbs.IBV_EVENT_PORT_ACTIVE, Subject.PORT),
        /** The link of a port is down. */
        PORT_DOWN(Verbs.IBV_EVENT_PORT_ERR, Subject.PORT),
        /** The LID of a port changed. */
        LID_CHANGED(Verbs.IBV_EVENT_LID_CHANGE, Subject.PORT),
        /** The P_Key table of a port changed. */
        P_KEYS_CHANGED(Verbs.IBV_EVENT_PKEY_CHANGE, Subject.PORT),
        /** A port has another subnet manager. */
        SUBNET_MANAGER_CHANGED(Verbs.IBV_EVENT_SM_CHANGE, Subject.PORT),
        /** The subnet manager wants its clients to register again. */
        CLIENT_REREGISTER(Verbs.IBV_EVENT_CLIENT_REREGISTER, Subject.PORT),
        /** The GID table of a port changed. */
        GIDS_CHANGED(Verbs.IBV_EVENT_GID_CHANGE, Subject.PORT),
        /** An event that this library does not know. */
        OTHER(-1, Subject.DEVICE);

        private final int number;
        private final Subject subject;

        Kind(int number, Subject subject) {
            this.number = number;
            this.subject = subject;
        }

        /**
         * Finds a kind by its number.
         *
         * @return {@link #OTHER} for one that is not known
         */
        public static Kind of(int number) {
            for (Kind kind : ALL) {
                if (kind.number == number && number >= 0) {
                    return kind;
                }
            }
            return OTHER;
        }

        /**
         * The number in {@code enum ibv_event_type}.
         *
         * @return -1 if it has none
         */
        public int number() {
            return number;
        }

        /** What it names. */
        public Subject subject() {
            return subject;
        }
    }

    private static final Kind[] ALL = Kind.values();

    /** An event without an object, or whose object is not known. */
    public AsyncEvent(Kind kind) {
        this(kind, kind.number, 0, null);
    }
}
