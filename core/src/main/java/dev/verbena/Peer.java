package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.Optional;

/**
 * The peer of a connected queue pair. It is identified by IP address and port if a {@link
 * Connector} made the connection, and by the address of the peer's queue pair if the program called
 * {@link QueuePair#connect}.
 *
 * <p>Immutable. Peers with the same address are equal.
 */
@CheckReturnValue
public final class Peer {
    private final @Nullable InetSocketAddress socketAddress; // either this is null
    private final @Nullable QueuePairAddress queuePairAddress; // or this

    private Peer(
            @Nullable InetSocketAddress socketAddress,
            @Nullable QueuePairAddress queuePairAddress) {
        this.socketAddress = socketAddress;
        this.queuePairAddress = queuePairAddress;
    }

    static Peer of(InetSocketAddress address) {
        return new Peer(Arguments.notNull(address, "address"), null);
    }

    static Peer of(QueuePairAddress address) {
        return new Peer(null, Arguments.notNull(address, "address"));
    }

    /**
     * Its IP address and port: the address that it listens on, or the one that its request came
     * from ({@link Connector#peerAddress}).
     *
     * @return the address; empty if {@link QueuePair#connect} made the connection
     */
    public Optional<InetSocketAddress> socketAddress() {
        return Optional.ofNullable(socketAddress);
    }

    /**
     * The address of its queue pair, as it was passed to {@link QueuePair#connect}.
     *
     * @return the address; empty if a {@link Connector} made the connection
     */
    public Optional<QueuePairAddress> queuePairAddress() {
        return Optional.ofNullable(queuePairAddress);
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Peer that
                && Objects.equals(socketAddress, that.socketAddress)
                && Objects.equals(queuePairAddress, that.queuePairAddress);
    }

    @Override
    public int hashCode() {
        return Objects.hash(socketAddress, queuePairAddress);
    }

    /** For example {@code 192.0.2.1:4711} or {@code queue pair 17 at ::ffff:192.0.2.1}. */
    @Override
    public String toString() {
        if (socketAddress != null) {
            String text = socketAddress.toString(); // as in /192.0.2.1:4711 or host/192.0.2.1:4711
            return text.startsWith("/") ? text.substring(1) : text;
        }
        QueuePairAddress address = Objects.requireNonNull(queuePairAddress); // one of them is set
        return "queue pair %d at %s"
                .formatted(
                        address.queuePairNumber(),
                        address.lid() == 0 ? address.gid() : "LID " + address.lid());
    }
}
