package dev.verbena.internal.verbs;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * The calls of the connection manager, librdmacm. Each answers an address or 0, or a negative
 * errno. None waits for the network: what they begin ends in an event.
 *
 * <p>An identifier ({@code rdma_cm_id}) never has a queue pair attached: with one the library would
 * move it through its states by itself and establish the connection as soon as the peer answers,
 * and there were no moment in which it could still be refused.
 *
 * <p>An interface, so that everything above can be tested without a device.
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
     * @param channel the {@code rdma_event_channel}
     * @return its fd, non-blocking
     */
    int descriptor(long channel);

    /**
     * {@code rdma_get_cm_event} and {@code rdma_ack_cm_event}: takes one event if there is one.
     *
     * @param channel the {@code rdma_event_channel}
     * @return what it was
     * @throws IllegalStateException when the channel is of no use any more
     */
    ConnectionEvent takeEvent(long channel);

    /**
     * {@code rdma_destroy_event_channel}, after the last of its identifiers.
     *
     * @param channel the {@code rdma_event_channel}
     */
    void closeChannel(long channel);

    /**
     * {@code rdma_create_id} for reliable connections.
     *
     * @param channel where its events go
     * @param key what they will carry
     * @return the {@code rdma_cm_id}, or a negative errno
     */
    long create(long channel, long key);

    /**
     * Changes the key that later events carry: an identifier that came with a request has the
     * listening one's.
     *
     * @param id the {@code rdma_cm_id}
     * @param key what they will carry
     */
    void setKey(long id, long key);

    /**
     * {@code rdma_destroy_id}. Refuses what was not accepted, ends what was established.
     *
     * @param id the {@code rdma_cm_id}
     * @return 0, or a negative errno
     */
    int destroy(long id);

    /**
     * {@code RDMA_OPTION_ID_REUSEADDR}: another identifier with this option may have the same
     * address, as long as none of them listens.
     *
     * @param id the {@code rdma_cm_id}
     * @return 0, or a negative errno
     */
    int shareAddress(long id);

    /**
     * {@code rdma_bind_addr}.
     *
     * @param id the {@code rdma_cm_id}
     * @param address the local address; port 0 takes any
     * @return 0, or a negative errno
     */
    int bind(long id, InetSocketAddress address);

    /**
     * Whether an address is one of this machine's. The kernel answers EADDRNOTAVAIL for one that is
     * not, and also for a port that somebody has on all addresses, or when no port is left.
     *
     * @param address not a wildcard
     * @return true also when it cannot be known
     */
    boolean local(InetAddress address);

    /**
     * {@code rdma_listen}.
     *
     * @param id the {@code rdma_cm_id}
     * @param backlog how many requests may wait to be taken
     * @return 0, or a negative errno
     */
    int listen(long id, int backlog);

    /**
     * {@code rdma_resolve_addr}.
     *
     * @param id the {@code rdma_cm_id}
     * @param from the local address, or null for the one by which the route goes
     * @param to the peer's address
     * @param milliseconds until it is an error
     * @return 0, or a negative errno
     */
    int resolveAddress(
            long id, @Nullable InetSocketAddress from, InetSocketAddress to, int milliseconds);

    /**
     * {@code rdma_resolve_route}.
     *
     * @param id the {@code rdma_cm_id}
     * @param milliseconds until it is an error
     * @return 0, or a negative errno
     */
    int resolveRoute(long id, int milliseconds);

    /**
     * {@code rdma_connect}.
     *
     * @param id the {@code rdma_cm_id}
     * @param parameters what the peer is told
     * @return 0, or a negative errno
     */
    int connect(long id, ConnectionParameters parameters);

    /**
     * {@code rdma_accept}.
     *
     * @param id the {@code rdma_cm_id}
     * @param parameters what the peer is told
     * @return 0, or a negative errno
     */
    int accept(long id, ConnectionParameters parameters);

    /**
     * {@code rdma_establish}: tells the peer that its answer has come.
     *
     * @param id the {@code rdma_cm_id}
     * @return 0, or a negative errno
     */
    int establish(long id);

    /**
     * {@code rdma_reject}.
     *
     * @param id the {@code rdma_cm_id}
     * @param data private data
     * @return 0, or a negative errno
     */
    int reject(long id, byte[] data);

    /**
     * {@code rdma_disconnect}: asks the peer to end the connection, or answers that it may.
     *
     * @param id the {@code rdma_cm_id}
     * @return 0, or a negative errno
     */
    int disconnect(long id);

    /**
     * {@code rdma_notify(IBV_EVENT_COMM_EST)}: data have come, so the peer has established the
     * connection, whether its message that says so was lost or not.
     *
     * @param id the {@code rdma_cm_id}
     * @return 0, or a negative errno
     */
    int dataCame(long id);

    /**
     * What an identifier knows of itself.
     *
     * @param id the {@code rdma_cm_id}
     * @return device, port and addresses
     */
    IdentifierInfo describe(long id);

    /**
     * {@code rdma_init_qp_attr}: what a queue pair has to be told for its next step.
     *
     * @param id the {@code rdma_cm_id}
     * @param change the step, to be filled in
     * @return 0, or a negative errno
     */
    int fillIn(long id, StateChange change);
}
