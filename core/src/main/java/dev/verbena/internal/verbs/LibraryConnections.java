package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.verbena.bindings.LibRdmacm;
import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.ibv_device;
import dev.verbena.bindings.rdma_addr;
import dev.verbena.bindings.rdma_cm_event;
import dev.verbena.bindings.rdma_cm_id;
import dev.verbena.bindings.rdma_conn_param;
import dev.verbena.bindings.rdma_event_channel;
import dev.verbena.bindings.rdma_route;
import dev.verbena.bindings.sockaddr_storage;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
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
    private static final MethodHandle CREATE_CHANNEL =
            Calls.capturing(
                    LibRdmacm.rdma_create_event_channel$address(),
                    LibRdmacm.rdma_create_event_channel$descriptor());
    private static final MethodHandle DESTROY_CHANNEL =
            Calls.capturing(
                    LibRdmacm.rdma_destroy_event_channel$address(),
                    LibRdmacm.rdma_destroy_event_channel$descriptor());
    private static final MethodHandle GET_EVENT =
            Calls.capturing(
                    LibRdmacm.rdma_get_cm_event$address(),
                    LibRdmacm.rdma_get_cm_event$descriptor());
    private static final MethodHandle ACK_EVENT =
            Calls.capturing(
                    LibRdmacm.rdma_ack_cm_event$address(),
                    LibRdmacm.rdma_ack_cm_event$descriptor());
    private static final MethodHandle CREATE_ID =
            Calls.capturing(
                    LibRdmacm.rdma_create_id$address(), LibRdmacm.rdma_create_id$descriptor());
    private static final MethodHandle DESTROY_ID =
            Calls.capturing(
                    LibRdmacm.rdma_destroy_id$address(), LibRdmacm.rdma_destroy_id$descriptor());
    private static final MethodHandle SET_OPTION =
            Calls.capturing(
                    LibRdmacm.rdma_set_option$address(), LibRdmacm.rdma_set_option$descriptor());
    private static final MethodHandle BIND =
            Calls.capturing(
                    LibRdmacm.rdma_bind_addr$address(), LibRdmacm.rdma_bind_addr$descriptor());
    private static final MethodHandle LISTEN =
            Calls.capturing(LibRdmacm.rdma_listen$address(), LibRdmacm.rdma_listen$descriptor());
    private static final MethodHandle RESOLVE_ADDRESS =
            Calls.capturing(
                    LibRdmacm.rdma_resolve_addr$address(),
                    LibRdmacm.rdma_resolve_addr$descriptor());
    private static final MethodHandle RESOLVE_ROUTE =
            Calls.capturing(
                    LibRdmacm.rdma_resolve_route$address(),
                    LibRdmacm.rdma_resolve_route$descriptor());
    private static final MethodHandle CONNECT =
            Calls.capturing(LibRdmacm.rdma_connect$address(), LibRdmacm.rdma_connect$descriptor());
    private static final MethodHandle ACCEPT =
            Calls.capturing(LibRdmacm.rdma_accept$address(), LibRdmacm.rdma_accept$descriptor());
    private static final MethodHandle ESTABLISH =
            Calls.capturing(
                    LibRdmacm.rdma_establish$address(), LibRdmacm.rdma_establish$descriptor());
    private static final MethodHandle REJECT =
            Calls.capturing(LibRdmacm.rdma_reject$address(), LibRdmacm.rdma_reject$descriptor());
    private static final MethodHandle DISCONNECT =
            Calls.capturing(
                    LibRdmacm.rdma_disconnect$address(), LibRdmacm.rdma_disconnect$descriptor());
    private static final MethodHandle NOTIFY =
            Calls.capturing(LibRdmacm.rdma_notify$address(), LibRdmacm.rdma_notify$descriptor());
    private static final MethodHandle INIT_QP_ATTR =
            Calls.capturing(
                    LibRdmacm.rdma_init_qp_attr$address(),
                    LibRdmacm.rdma_init_qp_attr$descriptor());

    private static final long LOCAL_ADDRESS =
            rdma_cm_id.route$offset() + rdma_route.addr$offset() + rdma_addr.src_addr$offset();
    private static final long PEER_ADDRESS =
            rdma_cm_id.route$offset() + rdma_route.addr$offset() + rdma_addr.dst_addr$offset();

    /** Creates an instance; it has no state. */
    public LibraryConnections() {}

    /** A call that returns 0, or -1 with errno set. */
    private interface Call {
        int run(Scratch scratch) throws Throwable;
    }

    private static int call(Call call) {
        try (Scratch scratch = Scratch.borrow()) {
            return scratch.value(call.run(scratch));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private static MemorySegment at(long address) {
        return MemorySegment.ofAddress(address);
    }

    @Override
    public long openChannel() {
        try (Scratch scratch = Scratch.borrow()) {
            long channel =
                    scratch.pointer((MemorySegment) CREATE_CHANNEL.invokeExact(scratch.state));
            if (channel > 0) {
                // poll(2) may report an event of an identifier that is destroyed before the event
                // is taken. rdma_get_cm_event must return EAGAIN then instead of blocking the event
                // thread.
                Descriptors.nonBlocking(descriptor(channel));
            }
            return channel;
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public int descriptor(long channel) {
        return rdma_event_channel.fd(Native.at(channel, rdma_event_channel.sizeof()));
    }

    @Override
    public void closeChannel(long channel) {
        try (Scratch scratch = Scratch.borrow()) {
            DESTROY_CHANNEL.invokeExact(scratch.state, at(channel));
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public ConnectionEvent takeEvent(long channel) {
        try (Scratch scratch = Scratch.borrow()) {
            MemorySegment where = scratch.allocate(ADDRESS);
            int error =
                    scratch.value((int) GET_EVENT.invokeExact(scratch.state, at(channel), where));
            // ENOMEM concerns only this call; the event stays queued.
            if (error == -Errno.EAGAIN || error == -Verbs.EINTR || error == -Errno.ENOMEM) {
                return ConnectionEvent.NOTHING;
            }
            if (error != 0) {
                throw new IllegalStateException(
                        "rdma_get_cm_event failed: " + Errno.describe(-error));
            }
            MemorySegment event =
                    Native.at(where.get(ADDRESS, 0).address(), rdma_cm_event.sizeof());
            // If copying the event fails (out of memory), a connection request is refused by
            // destroying its identifier.
            long refused =
                    rdma_cm_event.event(event) == Verbs.RDMA_CM_EVENT_CONNECT_REQUEST
                            ? rdma_cm_event.id(event).address()
                            : 0;
            try {
                ConnectionEvent copied = copy(event);
                refused = 0;
                return copied;
            } finally {
                // Acknowledged immediately: rdma_destroy_id blocks until all events of its
                // identifier are acknowledged.
                int ignored = (int) ACK_EVENT.invokeExact(scratch.state, event);
                if (refused != 0) {
                    ignored = (int) DESTROY_ID.invokeExact(scratch.state, at(refused));
                }
            }
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    private static ConnectionEvent copy(MemorySegment event) {
        int type = rdma_cm_event.event(event);
        long id = rdma_cm_event.id(event).address();
        MemorySegment parameters = rdma_cm_event.param.conn(rdma_cm_event.param(event));
        long data = rdma_conn_param.private_data(parameters).address();
        int length = Byte.toUnsignedInt(rdma_conn_param.private_data_len(parameters));
        return new ConnectionEvent(
                kind(type),
                rdma_cm_id.context(identifier(id)).address(),
                type == Verbs.RDMA_CM_EVENT_CONNECT_REQUEST ? id : 0,
                rdma_cm_event.status(event),
                data == 0 ? new byte[0] : Native.at(data, length).toArray(JAVA_BYTE),
                Byte.toUnsignedInt(rdma_conn_param.responder_resources(parameters)),
                Byte.toUnsignedInt(rdma_conn_param.initiator_depth(parameters)));
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
            MemorySegment where = scratch.allocate(ADDRESS);
            int error =
                    scratch.value(
                            (int)
                                    CREATE_ID.invokeExact(
                                            scratch.state,
                                            at(channel),
                                            where,
                                            at(key),
                                            Verbs.RDMA_PS_TCP));
            return error != 0 ? error : where.get(ADDRESS, 0).address();
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    @Override
    public void setKey(long id, long key) {
        rdma_cm_id.context(identifier(id), at(key));
    }

    @Override
    public int destroy(long id) {
        return call(scratch -> (int) DESTROY_ID.invokeExact(scratch.state, at(id)));
    }

    @Override
    public int shareAddress(long id) {
        return call(
                scratch ->
                        (int)
                                SET_OPTION.invokeExact(
                                        scratch.state,
                                        at(id),
                                        Verbs.RDMA_OPTION_ID,
                                        Verbs.RDMA_OPTION_ID_REUSEADDR,
                                        scratch.allocateFrom(JAVA_INT, 1),
                                        JAVA_INT.byteSize()));
    }

    @Override
    public int trafficClass(long id, int value) {
        return call(
                scratch ->
                        (int)
                                SET_OPTION.invokeExact(
                                        scratch.state,
                                        at(id),
                                        Verbs.RDMA_OPTION_ID,
                                        Verbs.RDMA_OPTION_ID_TOS,
                                        scratch.allocateFrom(JAVA_BYTE, (byte) value),
                                        JAVA_BYTE.byteSize()));
    }

    @Override
    public int bind(long id, InetSocketAddress address) {
        return call(
                scratch ->
                        (int)
                                BIND.invokeExact(
                                        scratch.state,
                                        at(id),
                                        SocketAddresses.encode(address, scratch)));
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
        return call(scratch -> (int) LISTEN.invokeExact(scratch.state, at(id), backlog));
    }

    @Override
    public int resolveAddress(
            long id, @Nullable InetSocketAddress from, InetSocketAddress to, int milliseconds) {
        return call(
                scratch -> {
                    MemorySegment source =
                            from == null
                                    ? MemorySegment.NULL
                                    : SocketAddresses.encode(from, scratch);
                    return (int)
                            RESOLVE_ADDRESS.invokeExact(
                                    scratch.state,
                                    at(id),
                                    source,
                                    SocketAddresses.encode(to, scratch),
                                    milliseconds);
                });
    }

    @Override
    public int resolveRoute(long id, int milliseconds) {
        return call(
                scratch -> (int) RESOLVE_ROUTE.invokeExact(scratch.state, at(id), milliseconds));
    }

    @Override
    public int connect(long id, ConnectionParameters parameters) {
        return call(
                scratch ->
                        (int)
                                CONNECT.invokeExact(
                                        scratch.state, at(id), encode(parameters, scratch)));
    }

    @Override
    public int accept(long id, ConnectionParameters parameters) {
        return call(
                scratch ->
                        (int)
                                ACCEPT.invokeExact(
                                        scratch.state, at(id), encode(parameters, scratch)));
    }

    private static MemorySegment encode(ConnectionParameters parameters, Scratch scratch) {
        MemorySegment p = rdma_conn_param.allocate(scratch);
        rdma_conn_param.private_data(p, data(parameters.data(), scratch));
        rdma_conn_param.private_data_len(p, (byte) parameters.data().length);
        rdma_conn_param.responder_resources(p, (byte) parameters.inboundReads());
        rdma_conn_param.initiator_depth(p, (byte) parameters.outboundReads());
        // Only a queue pair with its own receive queue can report its posted receives as
        // flow-control credits in its acknowledgements.
        rdma_conn_param.flow_control(p, (byte) (parameters.sharedReceives() ? 0 : 1));
        rdma_conn_param.retry_count(p, (byte) parameters.retries());
        rdma_conn_param.rnr_retry_count(p, (byte) parameters.rnrRetries());
        rdma_conn_param.srq(p, (byte) (parameters.sharedReceives() ? 1 : 0));
        rdma_conn_param.qp_num(p, parameters.queuePairNumber());
        return p;
    }

    private static MemorySegment data(byte[] data, Scratch scratch) {
        return data.length == 0 ? MemorySegment.NULL : scratch.allocateFrom(JAVA_BYTE, data);
    }

    @Override
    public int establish(long id) {
        return call(scratch -> (int) ESTABLISH.invokeExact(scratch.state, at(id)));
    }

    @Override
    public int reject(long id, byte[] data) {
        return call(
                scratch ->
                        (int)
                                REJECT.invokeExact(
                                        scratch.state,
                                        at(id),
                                        data(data, scratch),
                                        (byte) data.length));
    }

    @Override
    public int disconnect(long id) {
        return call(scratch -> (int) DISCONNECT.invokeExact(scratch.state, at(id)));
    }

    @Override
    public int notifyEstablished(long id) {
        return call(
                scratch ->
                        (int) NOTIFY.invokeExact(scratch.state, at(id), Verbs.IBV_EVENT_COMM_EST));
    }

    @Override
    public IdentifierInfo describe(long id) {
        MemorySegment identifier = identifier(id);
        long context = rdma_cm_id.verbs(identifier).address();
        return new IdentifierInfo(
                context == 0 ? "" : deviceName(context),
                Byte.toUnsignedInt(rdma_cm_id.port_num(identifier)),
                address(identifier, LOCAL_ADDRESS),
                address(identifier, PEER_ADDRESS));
    }

    private static String deviceName(long context) {
        MemorySegment device = ibv_context.device(Native.at(context, ibv_context.sizeof()));
        return ibv_device.name(Native.at(device.address(), ibv_device.sizeof())).getString(0);
    }

    private static @Nullable InetSocketAddress address(MemorySegment identifier, long offset) {
        return SocketAddresses.decode(identifier.asSlice(offset, sockaddr_storage.sizeof()));
    }

    @Override
    public int fillIn(long id, StateChange change) {
        return call(
                scratch -> {
                    MemorySegment attributes = change.encode(scratch);
                    MemorySegment mask = scratch.allocate(JAVA_INT);
                    int answer =
                            (int) INIT_QP_ATTR.invokeExact(scratch.state, at(id), attributes, mask);
                    change.fillIn(attributes, mask.get(JAVA_INT, 0));
                    return answer;
                });
    }

    private static MemorySegment identifier(long id) {
        return Native.at(id, rdma_cm_id.sizeof());
    }
}
