package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import java.net.InetSocketAddress;
import java.util.Optional;

/**
 * The peer of a connected queue pair. It is identified by IP address and port if a {@link
 * Connector} made the connection, and by the address of the peer's queue pair if the program called
 * {@link QueuePair#connect}.
 *
 * @param socketAddress its IP address and port: the address that it listens on, or the one that its
 *     request came from ({@link Connector#peerAddress}); empty if {@link QueuePair#connect} made
 *     the connection
 * @param queuePairAddress the address of its queue pair, as it was passed to {@link
 *     QueuePair#connect}; empty if a {@link Connector} made the connection
 */
@CheckReturnValue
public record Peer(
        Optional<InetSocketAddress> socketAddress, Optional<QueuePairAddress> queuePairAddress) {
    /**
     * Checks that there is one address.
     *
     * @throws IllegalArgumentException if there is none, or both
     */
    public Peer {
        if (Arguments.notNull(socketAddress, "socketAddress").isPresent()
                == Arguments.notNull(queuePairAddress, "queuePairAddress").isPresent()) {
            throw new IllegalArgumentException(
                    "A peer has either an IP address or the address of a queue pair");
        }
    }

    static Peer of(InetSocketAddress address) {
        return new Peer(Optional.of(address), Optional.empty());
    }

    static Peer of(QueuePairAddress address) {
        return new Peer(Optional.empty(), Optional.of(address));
    }

    /** For example {@code 192.0.2.1:4711} or {@code queue pair 17 at ::ffff:192.0.2.1}. */
    @Override
    public String toString() {
        if (socketAddress.isPresent()) {
            String text = socketAddress.get().toString(); // /192.0.2.1:4711 or host/192.0.2.1:4711
            return text.startsWith("/") ? text.substring(1) : text;
        }
        QueuePairAddress address = queuePairAddress.orElseThrow();
        return "queue pair %d at %s"
                .formatted(
                        address.queuePairNumber(),
                        address.lid() == 0 ? address.gid() : "LID " + address.lid());
    }
}
