package dev.verbena.internal.connect;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Asks the connection manager which device the route to a peer leads through: {@code
 * rdma_resolve_addr} on an identifier that no device is bound to.
 *
 * <p>Nothing else is asked, although a connected UDP socket would give the local address without
 * any packet: only the connection manager knows how routing rules, bonds, VLANs and IPoIB lead to a
 * device, and its answer is what a connection will get. It wants the peer's link-layer address, so
 * the peer has to be up.
 *
 * <p>Runs on the caller's thread, with a channel of its own.
 */
public final class RouteLookup {
    private static final int ANY_PORT = 1; // none that is used: nothing is sent to it
    private static final long NANOS_PER_MILLI = 1_000_000;

    private final ConnectionControl control;
    private final InetSocketAddress peer;
    private final Duration limit;
    private final long deadline;
    private boolean unanswered; // the neighbour did not answer

    private RouteLookup(ConnectionControl control, InetAddress peer, Duration limit) {
        this.control = control;
        this.peer = new InetSocketAddress(peer, ANY_PORT);
        this.limit = limit;
        this.deadline = System.nanoTime() + Math.max(0, TimeUnit.NANOSECONDS.convert(limit));
    }

    /**
     * Finds the device.
     *
     * @param limit how long it may take
     * @return the device, its port and the local address of the route
     * @throws VerbenaException INVALID_ADDRESS if the route leads through no device;
     *     HOST_UNREACHABLE, NETWORK_UNREACHABLE, IO_TIMEOUT, or another status if a call fails
     */
    public static IdentifierInfo find(ConnectionControl control, InetAddress peer, Duration limit) {
        return new RouteLookup(control, peer, limit).find();
    }

    private IdentifierInfo find() {
        long channel = ConnectionEvents.openChannel(control);
        try {
            long id = Errno.check(control.create(channel, 1), "rdma_create_id", "");
            try {
                return resolve(channel, id);
            } finally {
                control.destroy(id);
            }
        } finally {
            control.closeChannel(channel);
        }
    }

    private IdentifierInfo resolve(long channel, long id) {
        int timeout = AddressResolution.FIRST_TIMEOUT;
        while (true) {
            int most = Math.min(timeout, Math.max(1, millisecondsLeft()));
            Errno.check(
                    control.resolveAddress(id, null, peer, most),
                    "rdma_resolve_addr(" + address() + ")",
                    "Is there a route to it (ip route get)?");
            ConnectionEvent event = await(channel);
            if (event.kind() == ConnectionEvent.Kind.ADDRESS_RESOLVED) {
                return control.describe(id);
            }
            if (event.status() != -Errno.ETIMEDOUT) {
                throw FailureMessages.unresolved(event.status(), address(), "");
            }
            unanswered = true;
            timeout = Math.min(2 * timeout, AddressResolution.LAST_TIMEOUT);
        }
    }

    private ConnectionEvent await(long channel) {
        while (true) {
            int left = millisecondsLeft();
            if (left <= 0 && unanswered) {
                throw FailureMessages.unresolved(-Errno.ETIMEDOUT, address(), "");
            }
            if (left <= 0) {
                throw new VerbenaException(
                        Status.IO_TIMEOUT,
                        "The route to %s was not found within %s"
                                .formatted(address(), Text.time(limit)));
            }
            Errno.check(Descriptors.await(left, control.descriptor(channel)), "poll", "");
            ConnectionEvent event = control.takeEvent(channel);
            if (event.kind() != ConnectionEvent.Kind.NONE) {
                return event;
            }
        }
    }

    private String address() {
        return peer.getAddress().getHostAddress();
    }

    private int millisecondsLeft() {
        long left = deadline - System.nanoTime();
        // Rounded up; a limit may be centuries away.
        return left <= 0 ? 0 : Math.clamp((left - 1) / NANOS_PER_MILLI + 1, 1, 1 << 30);
    }
}
