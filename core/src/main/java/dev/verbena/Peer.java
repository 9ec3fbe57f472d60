package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.Optional;

/**
 * Whom a queue pair is connected to, as far as this side knows: by IP address and port when a
 * {@link Connector} made the connection, by the peer's queue pair when the program exchanged
 * addresses itself and called {@link QueuePair#connect}.
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
        return new Peer(Objects.requireNonNull(address, "address"), null);
    }

    static Peer of(QueuePairAddress address) {
        return new Peer(null, Objects.requireNonNull(address, "address"));
    }

    /**
     * Its IP address and port: where it listened, or where its request came from ({@link
     * Connector#peerAddress}).
     *
     * @return empty for a queue pair that was connected by {@link QueuePair#connect}
     */
    public Optional<InetSocketAddress> socketAddress() {
        return Optional.ofNullable(socketAddress);
    }

    /**
     * The address of its queue pair, as {@link QueuePair#connect} was given it.
     *
     * @return empty for a queue pair that a {@link Connector} connected
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

    /** As in {@code 192.0.2.1:4711} or {@code queue pair 17 at ::ffff:192.0.2.1}. */
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
