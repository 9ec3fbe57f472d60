package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;

/**
 * {@link ConnectionControl} through rdma-core's connection manager, librdmacm.
 *
 * <p>Call {@link RdmaCore#problemWithConnections} first: if it does not return "", initializing
 * this class fails.
 */
public final class LibraryConnections implements ConnectionControl {
    private static final NativeFunction CREATE_CHANNEL =
            Libraries.connections("rdma_create_event_channel");
    private static final NativeFunction DESTROY_CHANNEL =
            Libraries.connections("rdma_destroy_event_channel");
    private static final NativeFunction GET_EVENT = Libraries.connections("rdma_get_cm_event");
    private static final NativeFunction ACK_EVENT = Libraries.connections("rdma_ack_cm_event");
    private static final NativeFunction CREATE_ID = Libraries.connections("rdma_create_id");
    private static final NativeFunction DESTROY_ID = Libraries.connections("rdma_destroy_id");
    private static final NativeFunction SET_OPTION = Libraries.connections("rdma_set_option");
    private static final NativeFunction BIND = Libraries.connections("rdma_bind_addr");
    private static final NativeFunction LISTEN = Libraries.connections("rdma_listen");
    private static final NativeFunction RESOLVE_ADDRESS =
            Libraries.connections("rdma_resolve_addr");
    private static final NativeFunction RESOLVE_ROUTE = Libraries.connections("rdma_resolve_route");
    private static final NativeFunction CONNECT = Libraries.connections("rdma_connect");
    private static final NativeFunction ACCEPT = Libraries.connections("rdma_accept");
    private static final NativeFunction ESTABLISH = Libraries.connections("rdma_establish");
    private static final NativeFunction REJECT = Libraries.connections("rdma_reject");
    private static final NativeFunction DISCONNECT = Libraries.connections("rdma_disconnect");
    private static final NativeFunction NOTIFY = Libraries.connections("rdma_notify");
    private static final NativeFunction INIT_QP_ATTR = Libraries.connections("rdma_init_qp_attr");

    /** Creates an instance; it has no state. */
    public LibraryConnections() {}

    @Override
    public long openChannel() {
        try (Scratch scratch = Scratch.borrow()) {
            long channel = scratch.pointer(CREATE_CHANNEL.call(scratch));
            if (channel > 0) {
                // poll(2) may report an event of an identifier that is destroyed before the event
                // is taken. rdma_get_cm_event must return EAGAIN then instead of blocking the event
                // thread.
                Descriptors.nonBlocking(descriptor(channel));
            }
            return channel;
        }
    }

    @Override
    public int descriptor(long channel) {
        return Native.getInt(channel, Structs.RdmaEventChannel.FD);
    }

    @Override
    public void closeChannel(long channel) {
        try (Scratch scratch = Scratch.borrow()) {
            DESTROY_CHANNEL.call(scratch, channel);
        }
    }

    @Override
    public ConnectionEvent takeEvent(long channel) {
        try (Scratch scratch = Scratch.borrow()) {
            long where = scratch.reserve(Long.BYTES);
            if (GET_EVENT.callWithoutErrno(channel, where, 0) != 0) {
                // No event, or an error: asks again, for errno. What has come by now is taken.
                int error = scratch.value(GET_EVENT.call(scratch, channel, where));
                // ENOMEM concerns only this call; the event stays queued.
                if (error == -Errno.EAGAIN || error == -Verbs.EINTR || error == -Errno.ENOMEM) {
                    return ConnectionEvent.NOTHING;
                }
                if (error != 0) {
                    throw new IllegalStateException(
                            "rdma_get_cm_event failed: " + Errno.describe(-error));
                }
            }
            long event = Native.getLong(where, 0);
            // If copying the event fails (out of memory), a connection request is refused by
            // destroying its identifier.
            long refused = request(event);
            try {
                ConnectionEvent copied = copy(event);
                refused = 0;
                return copied;
            } finally {
                // Acknowledged immediately: rdma_destroy_id blocks until all events of its
                // identifier are acknowledged.
                ACK_EVENT.callWithoutErrno(event, 0, 0);
                if (refused != 0) {
                    DESTROY_ID.call(scratch, refused);
                }
            }
        }
    }

    /** The new identifier of a connection request; 0 of another event. */
    private static long request(long event) {
        return Native.getInt(event, Structs.RdmaCmEvent.EVENT)
                        == Verbs.RDMA_CM_EVENT_CONNECT_REQUEST
                ? Native.getLong(event, Structs.RdmaCmEvent.ID)
                : 0;
    }

    private static ConnectionEvent copy(long event) {
        long id = Native.getLong(event, Structs.RdmaCmEvent.ID);
        long data = Native.getLong(event, Structs.RdmaCmEvent.PARAM_CONN_PRIVATE_DATA);
        int length = Native.getByte(event, Structs.RdmaCmEvent.PARAM_CONN_PRIVATE_DATA_LEN);
        return new ConnectionEvent(
                kind(Native.getInt(event, Structs.RdmaCmEvent.EVENT)),
                Native.getLong(id, Structs.RdmaCmId.CONTEXT),
                request(event),
                Native.getInt(event, Structs.RdmaCmEvent.STATUS),
                data == 0 ? new byte[0] : Native.getBytes(data, length),
                Native.getByte(event, Structs.RdmaCmEvent.PARAM_CONN_RESPONDER_RESOURCES),
                Native.getByte(event, Structs.RdmaCmEvent.PARAM_CONN_INITIATOR_DEPTH));
    }

    private static ConnectionEvent.Kind kind(int type) {
        return switch (type) {
            case Verbs.RDMA_CM_EVENT_ADDR_RESOLVED -> ConnectionEvent.Kind.ADDRESS_RESOLVED;
            case Verbs.RDMA_CM_EVENT_ADDR_ERROR -> ConnectionEvent.Kind.ADDRESS_ERROR;
            case Verbs.RDMA_CM_EVENT_ROUTE_RESOLVED -> ConnectionEvent.Kind.ROUTE_RESOLVED;
            case Verbs.RDMA_CM_EVENT_ROUTE_ERROR -> ConnectionEvent.Kind.ROUTE_ERROR;
            case Verbs.RDMA_CM_EVENT_CONNECT_REQUEST -> ConnectionEvent.Kind.REQUEST;
            case Verbs.RDMA_CM_EVENT_CONNECT_RESPONSE -> ConnectionEvent.Kind.RESPONSE;
            case Verbs.RDMA_CM_EVENT_CONNECT_ERROR -> ConnectionEvent.Kind.CONNECT_ERROR;
            case Verbs.RDMA_CM_EVENT_UNREACHABLE -> ConnectionEvent.Kind.UNREACHABLE;
            case Verbs.RDMA_CM_EVENT_REJECTED -> ConnectionEvent.Kind.REJECTED;
            case Verbs.RDMA_CM_EVENT_ESTABLISHED -> ConnectionEvent.Kind.ESTABLISHED;
            case Verbs.RDMA_CM_EVENT_DISCONNECTED -> ConnectionEvent.Kind.DISCONNECTED;
            case Verbs.RDMA_CM_EVENT_DEVICE_REMOVAL -> ConnectionEvent.Kind.DEVICE_REMOVED;
            case Verbs.RDMA_CM_EVENT_ADDR_CHANGE -> ConnectionEvent.Kind.ADDRESS_CHANGED;
            case Verbs.RDMA_CM_EVENT_TIMEWAIT_EXIT -> ConnectionEvent.Kind.TIMEWAIT_EXIT;
            default -> ConnectionEvent.Kind.OTHER;
        };
    }

    @Override
    public long create(long channel, long key) {
        try (Scratch scratch = Scratch.borrow()) {
            long where = scratch.reserve(Long.BYTES);
            int error =
                    scratch.value(CREATE_ID.call(scratch, channel, where, key, Verbs.RDMA_PS_TCP));
            return error != 0 ? error : Native.getLong(where, 0);
        }
    }

    @Override
    public void setKey(long id, long key) {
        Native.putLong(id, Structs.RdmaCmId.CONTEXT, key);
    }

    @Override
    public int destroy(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(DESTROY_ID.call(scratch, id));
        }
    }

    @Override
    public int shareAddress(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            long on = scratch.allocate(Integer.BYTES);
            Native.putInt(on, 0, 1);
            return setOption(scratch, id, Verbs.RDMA_OPTION_ID_REUSEADDR, on, Integer.BYTES);
        }
    }

    @Override
    public int trafficClass(long id, int value) {
        try (Scratch scratch = Scratch.borrow()) {
            long tos = scratch.allocate(Byte.BYTES);
            Native.putByte(tos, 0, value);
            return setOption(scratch, id, Verbs.RDMA_OPTION_ID_TOS, tos, Byte.BYTES);
        }
    }

    private static int setOption(Scratch scratch, long id, int option, long value, long bytes) {
        return scratch.value(
                SET_OPTION.call(scratch, id, Verbs.RDMA_OPTION_ID, option, value, bytes));
    }

    @Override
    public int bind(long id, InetSocketAddress address) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(BIND.call(scratch, id, SocketAddresses.encode(address, scratch)));
        }
    }

    @Override
    public boolean local(InetAddress address) {
        try {
            return NetworkInterface.getByInetAddress(address) != null;
        } catch (SocketException e) {
            return true;
        }
    }

    @Override
    public int listen(long id, int backlog) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(LISTEN.call(scratch, id, backlog));
        }
    }

    @Override
    public int resolveAddress(
            long id, @Nullable InetSocketAddress from, InetSocketAddress to, int milliseconds) {
        try (Scratch scratch = Scratch.borrow()) {
            long source = from == null ? 0 : SocketAddresses.encode(from, scratch);
            long target = SocketAddresses.encode(to, scratch);
            return scratch.value(RESOLVE_ADDRESS.call(scratch, id, source, target, milliseconds));
        }
    }

    @Override
    public int resolveRoute(long id, int milliseconds) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(RESOLVE_ROUTE.call(scratch, id, milliseconds));
        }
    }

    @Override
    public int connect(long id, ConnectionParameters parameters) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(CONNECT.call(scratch, id, encode(parameters, scratch)));
        }
    }

    @Override
    public int accept(long id, ConnectionParameters parameters) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(ACCEPT.call(scratch, id, encode(parameters, scratch)));
        }
    }

    private static long encode(ConnectionParameters parameters, Scratch scratch) {
        long p = scratch.allocate(Structs.RdmaConnParam.SIZE);
        byte[] data = parameters.data();
        Native.putLong(p, Structs.RdmaConnParam.PRIVATE_DATA, scratch.copyOf(data));
        Native.putByte(p, Structs.RdmaConnParam.PRIVATE_DATA_LEN, data.length);
        Native.putByte(p, Structs.RdmaConnParam.RESPONDER_RESOURCES, parameters.inboundReads());
        Native.putByte(p, Structs.RdmaConnParam.INITIATOR_DEPTH, parameters.outboundReads());
        // Only a queue pair with its own receive queue can report its posted receives as
        // flow-control credits in its acknowledgements.
        boolean shared = parameters.sharedReceives();
        Native.putByte(p, Structs.RdmaConnParam.FLOW_CONTROL, shared ? 0 : 1);
        Native.putByte(p, Structs.RdmaConnParam.RETRY_COUNT, parameters.retries());
        Native.putByte(p, Structs.RdmaConnParam.RNR_RETRY_COUNT, parameters.rnrRetries());
        Native.putByte(p, Structs.RdmaConnParam.SRQ, shared ? 1 : 0);
        Native.putInt(p, Structs.RdmaConnParam.QP_NUM, parameters.queuePairNumber());
        return p;
    }

    @Override
    public int establish(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(ESTABLISH.call(scratch, id));
        }
    }

    @Override
    public int reject(long id, byte[] data) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(REJECT.call(scratch, id, scratch.copyOf(data), data.length));
        }
    }

    @Override
    public int disconnect(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(DISCONNECT.call(scratch, id));
        }
    }

    @Override
    public int notifyEstablished(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(NOTIFY.call(scratch, id, Verbs.IBV_EVENT_COMM_EST));
        }
    }

    @Override
    public IdentifierInfo describe(long id) {
        long context = Native.getLong(id, Structs.RdmaCmId.VERBS);
        return new IdentifierInfo(
                context == 0 ? "" : deviceName(context),
                Native.getByte(id, Structs.RdmaCmId.PORT_NUM),
                SocketAddresses.decode(id + Structs.RdmaCmId.ROUTE_ADDR_SRC_ADDR),
                SocketAddresses.decode(id + Structs.RdmaCmId.ROUTE_ADDR_DST_ADDR));
    }

    private static String deviceName(long context) {
        long device = Native.getLong(context, Structs.IbvContext.DEVICE);
        return Native.getString(device, Structs.IbvDevice.NAME);
    }

    @Override
    public int fillIn(long id, StateChange change) {
        Scratch scratch = change.scratch();
        return scratch.value(
                INIT_QP_ATTR.call(scratch, id, change.attributes(), change.addressOfMask()));
    }
}
