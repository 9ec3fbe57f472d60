package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvContext;
import dev.verbena.internal.verbs.Structs.IbvDevice;
import dev.verbena.internal.verbs.Structs.RdmaCmId;
import dev.verbena.internal.verbs.Structs.RdmaConnParam;
import dev.verbena.internal.verbs.Structs.RdmaEventChannel;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;

/**
 * The calls of rdma-core's connection manager, librdmacm. Each returns an address or 0, or a
 * negative errno. None waits for the network: the result of an operation arrives as a {@link
 * ConnectionEvent}.
 *
 * <p>An identifier ({@code rdma_cm_id}) never has a queue pair attached: librdmacm would then
 * change the state of the queue pair by itself and establish the connection as soon as the peer
 * accepts, and this side could no longer reject it.
 *
 * <p>Call {@link Libraries#problemWithConnections} first: if it does not return "", every method
 * fails. The layers above are tested with a subclass that overrides all methods.
 */
public class ConnectionControl {
    private static final class Rdma {
        static final NativeFunction CREATE_CHANNEL =
                Libraries.connections("rdma_create_event_channel");
        static final NativeFunction DESTROY_CHANNEL =
                Libraries.connections("rdma_destroy_event_channel");
        static final NativeFunction GET_EVENT = Libraries.connections("rdma_get_cm_event");
        static final NativeFunction ACK_EVENT = Libraries.connections("rdma_ack_cm_event");
        static final NativeFunction CREATE_ID = Libraries.connections("rdma_create_id");
        static final NativeFunction DESTROY_ID = Libraries.connections("rdma_destroy_id");
        static final NativeFunction SET_OPTION = Libraries.connections("rdma_set_option");
        static final NativeFunction BIND = Libraries.connections("rdma_bind_addr");
        static final NativeFunction LISTEN = Libraries.connections("rdma_listen");
        static final NativeFunction RESOLVE_ADDRESS = Libraries.connections("rdma_resolve_addr");
        static final NativeFunction RESOLVE_ROUTE = Libraries.connections("rdma_resolve_route");
        static final NativeFunction CONNECT = Libraries.connections("rdma_connect");
        static final NativeFunction ACCEPT = Libraries.connections("rdma_accept");
        static final NativeFunction ESTABLISH = Libraries.connections("rdma_establish");
        static final NativeFunction REJECT = Libraries.connections("rdma_reject");
        static final NativeFunction DISCONNECT = Libraries.connections("rdma_disconnect");
        static final NativeFunction NOTIFY = Libraries.connections("rdma_notify");
        static final NativeFunction INIT_QP_ATTR = Libraries.connections("rdma_init_qp_attr");

        private Rdma() {}
    }

    /** {@code rdma_create_event_channel}. */
    public long openChannel() {
        long channel = Rdma.CREATE_CHANNEL.pointer();
        if (channel > 0) {
            // poll(2) may report an event of an identifier that is destroyed before the event is
            // taken. rdma_get_cm_event must return EAGAIN then instead of blocking the event
            // thread.
            Descriptors.nonBlocking(descriptor(channel));
        }
        return channel;
    }

    /** The non-blocking file descriptor that becomes readable when there is an event. */
    public int descriptor(long channel) {
        return Native.getInt(channel, RdmaEventChannel.FD);
    }

    /** {@code rdma_destroy_event_channel}. Destroy all identifiers of the channel first. */
    public void closeChannel(long channel) {
        Rdma.DESTROY_CHANNEL.callWithoutErrno(channel, 0, 0);
    }

    /**
     * {@code rdma_get_cm_event} and {@code rdma_ack_cm_event}: takes one event if there is one.
     *
     * @return the event, or {@link ConnectionEvent#NOTHING}
     * @throws IllegalStateException when reading the channel fails for good
     */
    public ConnectionEvent takeEvent(long channel) {
        try (Scratch scratch = Scratch.borrow()) {
            long where = scratch.reserve(Long.BYTES);
            if (Rdma.GET_EVENT.callWithoutErrno(channel, where, 0) != 0) {
                // No event, or an error: asks again, for errno. What has come by now is taken.
                int error = Rdma.GET_EVENT.value(channel, where);
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
            long refused = ConnectionEvent.request(event);
            try {
                ConnectionEvent copied = ConnectionEvent.copy(event);
                refused = 0;
                return copied;
            } finally {
                // Acknowledged immediately: rdma_destroy_id blocks until all events of its
                // identifier are acknowledged.
                Rdma.ACK_EVENT.callWithoutErrno(event, 0, 0);
                if (refused != 0) {
                    Rdma.DESTROY_ID.callWithoutErrno(refused, 0, 0);
                }
            }
        }
    }

    /**
     * {@code rdma_create_id} for reliable connections.
     *
     * @param key a number that each of its events will carry
     */
    public long create(long channel, long key) {
        try (Scratch scratch = Scratch.borrow()) {
            long where = scratch.reserve(Long.BYTES);
            int error = Rdma.CREATE_ID.value(channel, where, key, Verbs.RDMA_PS_TCP);
            return error != 0 ? error : Native.getLong(where, 0);
        }
    }

    /**
     * Changes the key that later events carry. The identifier of an incoming request starts with
     * the key of the listening identifier.
     */
    public void setKey(long id, long key) {
        Native.putLong(id, RdmaCmId.CONTEXT, key);
    }

    /**
     * {@code rdma_destroy_id}. Rejects a request that was not accepted, and disconnects an
     * established connection.
     */
    public int destroy(long id) {
        return Rdma.DESTROY_ID.value(id);
    }

    /**
     * {@code RDMA_OPTION_ID_REUSEADDR}: lets other identifiers with this option bind the same
     * address, as long as none of them listens.
     */
    public int shareAddress(long id) {
        try (Scratch scratch = Scratch.borrow()) {
            long on = scratch.allocate(Integer.BYTES);
            Native.putInt(on, 0, 1);
            return setOption(id, Verbs.RDMA_OPTION_ID_REUSEADDR, on, Integer.BYTES);
        }
    }

    /**
     * {@code RDMA_OPTION_ID_TOS}, before the route is resolved: on RoCE the path, and by the
     * request that of the peer, gets this traffic class; on InfiniBand the subnet manager is asked
     * for a path of this QoS class.
     */
    public int trafficClass(long id, int value) {
        try (Scratch scratch = Scratch.borrow()) {
            long tos = scratch.allocate(Byte.BYTES);
            Native.putByte(tos, 0, value);
            return setOption(id, Verbs.RDMA_OPTION_ID_TOS, tos, Byte.BYTES);
        }
    }

    private static int setOption(long id, int option, long value, long bytes) {
        return Rdma.SET_OPTION.value(id, Verbs.RDMA_OPTION_ID, option, value, bytes);
    }

    /**
     * {@code rdma_bind_addr}.
     *
     * @param address the local address; port 0 lets the kernel choose one
     */
    public int bind(long id, InetSocketAddress address) {
        try (Scratch scratch = Scratch.borrow()) {
            return Rdma.BIND.value(id, SocketAddresses.encode(address, scratch));
        }
    }

    /**
     * Whether an address belongs to this machine. Needed to interpret EADDRNOTAVAIL, which the
     * kernel returns for a foreign address, for a port that is already bound to all addresses, and
     * when no port is left.
     *
     * @param address not a wildcard
     * @return false for a foreign address; true otherwise, also when the network interfaces cannot
     *     be listed
     */
    public boolean local(InetAddress address) {
        try {
            return NetworkInterface.getByInetAddress(address) != null;
        } catch (SocketException e) {
            return true;
        }
    }

    /**
     * {@code rdma_listen}.
     *
     * @param backlog how many requests may be queued in the kernel
     */
    public int listen(long id, int backlog) {
        return Rdma.LISTEN.value(id, backlog);
    }

    /**
     * {@code rdma_resolve_addr}.
     *
     * @param from the local address, or null to use the source address of the route
     */
    public int resolveAddress(
            long id, @Nullable InetSocketAddress from, InetSocketAddress to, int milliseconds) {
        try (Scratch scratch = Scratch.borrow()) {
            long source = from == null ? 0 : SocketAddresses.encode(from, scratch);
            long target = SocketAddresses.encode(to, scratch);
            return Rdma.RESOLVE_ADDRESS.value(id, source, target, milliseconds);
        }
    }

    /** {@code rdma_resolve_route}. */
    public int resolveRoute(long id, int milliseconds) {
        return Rdma.RESOLVE_ROUTE.value(id, milliseconds);
    }

    /** {@code rdma_connect}. */
    public int connect(long id, ConnectionParameters parameters) {
        return call(Rdma.CONNECT, id, parameters);
    }

    /** {@code rdma_accept}. */
    public int accept(long id, ConnectionParameters parameters) {
        return call(Rdma.ACCEPT, id, parameters);
    }

    private static int call(NativeFunction function, long id, ConnectionParameters parameters) {
        try (Scratch scratch = Scratch.borrow()) {
            long p = scratch.allocate(RdmaConnParam.SIZE);
            byte[] data = parameters.data();
            Native.putLong(p, RdmaConnParam.PRIVATE_DATA, scratch.copyOf(data));
            Native.putByte(p, RdmaConnParam.PRIVATE_DATA_LEN, data.length);
            Native.putByte(p, RdmaConnParam.RESPONDER_RESOURCES, parameters.inboundReads());
            Native.putByte(p, RdmaConnParam.INITIATOR_DEPTH, parameters.outboundReads());
            // Only a queue pair with its own receive queue can report its posted receives as
            // flow-control credits in its acknowledgements.
            boolean shared = parameters.sharedReceives();
            Native.putByte(p, RdmaConnParam.FLOW_CONTROL, shared ? 0 : 1);
            Native.putByte(p, RdmaConnParam.RETRY_COUNT, parameters.retries());
            Native.putByte(p, RdmaConnParam.RNR_RETRY_COUNT, parameters.rnrRetries());
            Native.putByte(p, RdmaConnParam.SRQ, shared ? 1 : 0);
            Native.putInt(p, RdmaConnParam.QP_NUM, parameters.queuePairNumber());
            return function.value(id, p);
        }
    }

    /**
     * {@code rdma_establish}: acknowledges the peer's accept, which establishes the connection on
     * both sides.
     */
    public int establish(long id) {
        return Rdma.ESTABLISH.value(id);
    }

    /** {@code rdma_reject}. */
    public int reject(long id, byte[] data) {
        try (Scratch scratch = Scratch.borrow()) {
            return Rdma.REJECT.value(id, scratch.copyOf(data), data.length);
        }
    }

    /** {@code rdma_disconnect}: starts disconnecting, or confirms the peer's disconnect. */
    public int disconnect(long id) {
        return Rdma.DISCONNECT.value(id);
    }

    /**
     * {@code rdma_notify(IBV_EVENT_COMM_EST)}: reports to the connection manager that data arrived.
     * The peer has therefore established the connection, even if its ready-to-use message (RTU) was
     * lost.
     */
    public int notifyEstablished(long id) {
        return Rdma.NOTIFY.value(id, Verbs.IBV_EVENT_COMM_EST);
    }

    /** Reads the device, port and addresses of an identifier. */
    public IdentifierInfo describe(long id) {
        long context = Native.getLong(id, RdmaCmId.VERBS);
        return new IdentifierInfo(
                context == 0 ? "" : deviceName(context),
                Native.getByte(id, RdmaCmId.PORT_NUM),
                SocketAddresses.decode(id + RdmaCmId.ROUTE_ADDR_SRC_ADDR),
                SocketAddresses.decode(id + RdmaCmId.ROUTE_ADDR_DST_ADDR));
    }

    private static String deviceName(long context) {
        long device = Native.getLong(context, IbvContext.DEVICE);
        return Native.getString(device, IbvDevice.NAME);
    }

    /**
     * {@code rdma_init_qp_attr}: fills in the attributes that {@code ibv_modify_qp} needs for the
     * next state.
     */
    public int fillIn(long id, StateChange change) {
        return Rdma.INIT_QP_ATTR.value(id, change.attributes(), change.addressOfMask());
    }
}
