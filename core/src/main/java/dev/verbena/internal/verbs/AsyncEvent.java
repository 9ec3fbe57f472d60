package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvAsyncEvent;

import org.jspecify.annotations.Nullable;

import java.util.function.LongFunction;

/**
 * One event of {@code ibv_get_async_event}, copied and acknowledged.
 *
 * @param number the number in {@code enum ibv_event_type}; -1 if verbs has no such event
 * @param port the number of the port, for events that concern a port; otherwise 0
 * @param object this library's object that the event names, or null
 */
public record AsyncEvent(AdapterEvent.Type type, int number, int port, @Nullable Object object) {
    // The headers of the oldest supported rdma-core do not have this one.
    private static final int IBV_EVENT_DEVICE_SPEED_CHANGE = 20;

    /** An event that verbs does not have. */
    public AsyncEvent(AdapterEvent.Type type) {
        this(type, -1, 0, null);
    }

    /** Reads a {@code struct ibv_async_event}. */
    static AsyncEvent copy(long event, LongFunction<@Nullable Object> objects) {
        int number = Native.getInt(event, IbvAsyncEvent.EVENT_TYPE);
        AdapterEvent.Type type = typeOf(number);
        return switch (type) {
            case DEVICE_FAILED, DEVICE_REMOVED, DEVICE_SPEED_CHANGED, EVENTS_ENDED, OTHER ->
                    new AsyncEvent(type, number, 0, null);
            case PORT_UP,
                    PORT_DOWN,
                    GIDS_CHANGED,
                    P_KEYS_CHANGED,
                    LID_CHANGED,
                    SUBNET_MANAGER_CHANGED,
                    CLIENT_REREGISTER -> {
                int port = Native.getInt(event, IbvAsyncEvent.ELEMENT_PORT_NUM);
                yield new AsyncEvent(type, number, port, null);
            }
            default -> { // a union: the address of an ibv_qp, ibv_cq or ibv_srq
                long address = Native.getLong(event, IbvAsyncEvent.ELEMENT_QP);
                yield new AsyncEvent(type, number, 0, objects.apply(address));
            }
        };
    }

    /** The type of a number in {@code enum ibv_event_type}; OTHER if it is not known. */
    public static AdapterEvent.Type typeOf(int number) {
        return switch (number) {
            case Verbs.IBV_EVENT_CQ_ERR -> AdapterEvent.Type.COMPLETION_QUEUE_FAILED;
            case Verbs.IBV_EVENT_QP_FATAL -> AdapterEvent.Type.QUEUE_PAIR_FAILED;
            case Verbs.IBV_EVENT_QP_REQ_ERR -> AdapterEvent.Type.QUEUE_PAIR_REQUEST_ERROR;
            case Verbs.IBV_EVENT_QP_ACCESS_ERR -> AdapterEvent.Type.QUEUE_PAIR_ACCESS_ERROR;
            case Verbs.IBV_EVENT_COMM_EST -> AdapterEvent.Type.COMMUNICATION_ESTABLISHED;
            case Verbs.IBV_EVENT_SQ_DRAINED -> AdapterEvent.Type.SEND_QUEUE_DRAINED;
            case Verbs.IBV_EVENT_PATH_MIG -> AdapterEvent.Type.PATH_MIGRATED;
            case Verbs.IBV_EVENT_PATH_MIG_ERR -> AdapterEvent.Type.PATH_MIGRATION_FAILED;
            case Verbs.IBV_EVENT_DEVICE_FATAL -> AdapterEvent.Type.DEVICE_FAILED;
            case Verbs.IBV_EVENT_PORT_ACTIVE -> AdapterEvent.Type.PORT_UP;
            case Verbs.IBV_EVENT_PORT_ERR -> AdapterEvent.Type.PORT_DOWN;
            case Verbs.IBV_EVENT_LID_CHANGE -> AdapterEvent.Type.LID_CHANGED;
            case Verbs.IBV_EVENT_PKEY_CHANGE -> AdapterEvent.Type.P_KEYS_CHANGED;
            case Verbs.IBV_EVENT_SM_CHANGE -> AdapterEvent.Type.SUBNET_MANAGER_CHANGED;
            case Verbs.IBV_EVENT_SRQ_ERR -> AdapterEvent.Type.SHARED_RECEIVE_QUEUE_FAILED;
            case Verbs.IBV_EVENT_SRQ_LIMIT_REACHED -> AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW;
            case Verbs.IBV_EVENT_QP_LAST_WQE_REACHED -> AdapterEvent.Type.LAST_RECEIVE_REACHED;
            case Verbs.IBV_EVENT_CLIENT_REREGISTER -> AdapterEvent.Type.CLIENT_REREGISTER;
            case Verbs.IBV_EVENT_GID_CHANGE -> AdapterEvent.Type.GIDS_CHANGED;
            case IBV_EVENT_DEVICE_SPEED_CHANGE -> AdapterEvent.Type.DEVICE_SPEED_CHANGED;
            default -> AdapterEvent.Type.OTHER;
        };
    }
}
