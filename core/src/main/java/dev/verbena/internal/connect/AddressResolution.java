package dev.verbena.internal.connect;

import dev.verbena.Status;
import dev.verbena.internal.connect.ConnectionEvents.Identifier;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Iterator;

/**
 * Finds out which device and which neighbour lead to a peer: {@code rdma_resolve_addr}, asked again
 * after a timeout of the kernel's, and from one local address after the other.
 */
@SuppressWarnings("ReferenceEquality") // BY_ROUTE is one object, and no address
final class AddressResolution {
    // Milliseconds that the kernel may take to find a neighbour's Ethernet address; doubled with
    // each try. The kernel looks at the neighbour's reply when the neighbour's entry changes, which
    // it may miss, or else at the end of this time (addr.c of 6.1 puts the request on the list of
    // those to wake after the query went out. Seen on two devices of one machine, where the reply
    // is there at once: each try took its whole time).
    static final int FIRST_TIMEOUT = 100;
    static final int LAST_TIMEOUT = 2000;

    /** Stands for "by the route", in messages too. */
    private static final InetSocketAddress BY_ROUTE = new InetSocketAddress(0);

    private final Iterator<@Nullable InetSocketAddress> sources;
    private final InetSocketAddress peer;
    private final ConnectionEvents events;
    private final String device;
    private InetSocketAddress source;
    private int timeout = FIRST_TIMEOUT;

    /**
     * Makes one; nothing is asked yet.
     *
     * @param sources the local addresses to try, one or more; null leaves it to the route. The next
     *     is asked for only when the last led nowhere
     */
    AddressResolution(
            Iterator<@Nullable InetSocketAddress> sources,
            InetSocketAddress peer,
            ConnectionEvents events,
            String device) {
        this.sources = sources;
        this.source = byRouteIfNull(sources.next());
        this.peer = peer;
        this.events = events;
        this.device = device;
    }

    private static InetSocketAddress byRouteIfNull(@Nullable InetSocketAddress source) {
        return source == null ? BY_ROUTE : source;
    }

    /** Calls rdma_resolve_addr from the current local address. */
    void resolve(Identifier identifier, int millisecondsLeft) {
        int most = Math.min(millisecondsLeft, timeout);
        timeout = Math.min(2 * timeout, LAST_TIMEOUT);
        int answer =
                events.control()
                        .resolveAddress(
                                identifier.id(), source == BY_ROUTE ? null : source, peer, most);
        if (answer != 0) {
            FailureMessages.checkAddress(
                    answer,
                    events.control(),
                    source,
                    Status.ADDRESS_ALREADY_EXISTS,
                    "rdma_resolve_addr(%s)".formatted(peer),
                    source == BY_ROUTE
                            ? "Is there a route to it (ip route get)?"
                            : "Is %s an address of device %s (rdma link, ip address)?"
                                    .formatted(source.getAddress(), device));
        }
    }

    /** Goes on to the next local address; false when there is none. */
    boolean next() {
        if (!sources.hasNext()) {
            return false;
        }
        source = byRouteIfNull(sources.next());
        return true;
    }
}
