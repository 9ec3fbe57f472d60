package dev.verbena.internal.verbs;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * The calls of the connection manager, librdmacm. Each returns an address or 0, or a negative
 * errno. None waits for the network: the result of an operation arrives as a {@link
 * ConnectionEvent}.
 *
 * <p>An identifier ({@code rdma_cm_id}) never has a queue pair attached: librdmacm would then
 * change the state of the queue pair by itself and establish the connection as soon as the peer
 * accepts, and this side could no longer reject it.
 *
 * <p>An interface, so that the layers above can be tested without a device.
 */
public interface ConnectionControl {
    /**
     * {@code rdma_create_event_channel}.
     *
     * @return the {@code rdma_event_channel}, or a negative errno
     */
    long openChannel();

    /**
     * The file descriptor that becomes readable with an event.
     *
     * @return its fd, non-blocking
     */
    int descriptor(long channel);

    /**
     * {@code rdma_get_cm_event} and {@code rdma_ack_cm_event}: takes one event if there is one.
     *
     * @return the event, or {@link ConnectionEvent#NOTHING}
     * @throws IllegalStateException when reading the channel fails for good
     */
    ConnectionEvent takeEvent(long channel);

    /** {@code rdma_destroy_event_channel}. Destroy all identifiers of the channel first. */
    void closeChannel(long channel);

    /**
     * {@code rdma_create_id} for reliable connections.
     *
     * @param key a number that each of its events will carry
     * @return the {@code rdma_cm_id}, or a negative errno
     */
    long create(long channel, long key);

    /**
     * Changes the key that later events carry. The identifier of an incoming request starts with
     * the key of the listening identifier.
     *
     * @param key the number that each of its events will carry
     */
    void setKey(long id, long key);

    /**
     * {@code rdma_destroy_id}. Rejects a request that was not accepted, and disconnects an
     * established connection.
     */
    int destroy(long id);

    /**
     * {@code RDMA_OPTION_ID_REUSEADDR}: lets other identifiers with this option bind the same
     * address, as long as none of them listens.
     */
    int shareAddress(long id);

    /**
     * {@code RDMA_OPTION_ID_TOS}, before the route is resolved: on RoCE the path, and by the
     * request that of the peer, gets this traffic class; on InfiniBand the subnet manager is asked
     * for a path of this QoS class.
     */
    int trafficClass(long id, int value);

    /**
     * {@code rdma_bind_addr}.
     *
     * @param address the local address; port 0 lets the kernel choose one
     */
    int bind(long id, InetSocketAddress address);

    /**
     * Whether an address belongs to this machine. Needed to interpret EADDRNOTAVAIL, which the
     * kernel returns for a foreign address, for a port that is already bound to all addresses, and
     * when no port is left.
     *
     * @param address not a wildcard
     * @return false for a foreign address; true otherwise, also when the network interfaces cannot
     *     be listed
     */
    boolean local(InetAddress address);

    /**
     * {@code rdma_listen}.
     *
     * @param backlog how many requests may be queued in the kernel
     */
    int listen(long id, int backlog);

    /**
     * {@code rdma_resolve_addr}.
     *
     * @param from the local address, or null to use the source address of the route
     */
    int resolveAddress(
            long id, @Nullable InetSocketAddress from, InetSocketAddress to, int milliseconds);

    /** {@code rdma_resolve_route}. */
    int resolveRoute(long id, int milliseconds);

    /** {@code rdma_connect}. */
    int connect(long id, ConnectionParameters parameters);

    /** {@code rdma_accept}. */
    int accept(long id, ConnectionParameters parameters);

    /**
     * {@code rdma_establish}: acknowledges the peer's accept, which establishes the connection on
     * both sides.
     */
    int establish(long id);

    /** {@code rdma_reject}. */
    int reject(long id, byte[] data);

    /** {@code rdma_disconnect}: starts disconnecting, or confirms the peer's disconnect. */
    int disconnect(long id);

    /**
     * {@code rdma_notify(IBV_EVENT_COMM_EST)}: reports to the connection manager that data arrived.
     * The peer has therefore established the connection, even if its ready-to-use message (RTU) was
     * lost.
     */
    int notifyEstablished(long id);

    /** Reads the device, port and addresses of an identifier. */
    IdentifierInfo describe(long id);

    /**
     * {@code rdma_init_qp_attr}: fills in the attributes that {@code ibv_modify_qp} needs for the
     * next state.
     */
    int fillIn(long id, StateChange change);
}
