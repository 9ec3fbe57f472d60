package dev.verbena.internal.connect;

import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/** The failures that callers get: what events, deadlines and refused calls mean, in sentences. */
final class FailureMessages {
    // The status of an event when a call of librdmacm's own failed after the kernel's part had
    // succeeded; the library loses the errno.
    private static final int LIBRARY = -1;

    private FailureMessages() {}

    /**
     * An event that ends an attempt or a connection.
     *
     * @param peer the peer's address, where it is known
     * @param resolved what the last address resolution found, if there was one
     */
    static Failure ofEvent(
            ConnectionTrigger trigger,
            ConnectionEvent event,
            ConnectionState state,
            @Nullable InetSocketAddress peer,
            String device,
            @Nullable IdentifierInfo resolved) {
        return switch (trigger) {
            case ADDRESS_RESOLVED_ELSEWHERE ->
                    new Failure(
                            Failure.Kind.INVALID_ADDRESS,
                            "The route to %s leads through device %s, and this adapter is %s: open that one, or name a local address of %s"
                                    .formatted(
                                            peer,
                                            Objects.requireNonNull(resolved).device(),
                                            device,
                                            device));
            case ADDRESS_ERROR -> unresolved(event.status(), peer, device);
            case DEVICE_REMOVED -> deviceRemoved(device);
            case ADDRESS_CHANGED ->
                    new Failure(
                            Failure.Kind.ABORTED,
                            "The Ethernet address of %s changed while connecting (the failover of a bond?): try again"
                                    .formatted(device));
            case DISCONNECT_UNANSWERED ->
                    state == ConnectionState.DISCONNECTING
                            ? new Failure(
                                    Failure.Kind.TIMED_OUT,
                                    "%s did not confirm the end of the connection".formatted(peer))
                            : brokeOff(peer);
            default -> failed(event, state, peer);
        };
    }

    static Failure deviceRemoved(String device) {
        return new Failure(Failure.Kind.DEVICE_REMOVED, "Device %s is gone".formatted(device));
    }

    /** {@code RDMA_CM_EVENT_ADDR_ERROR}; device is "" where none was chosen. */
    static Failure unresolved(int status, @Nullable Object peer, String device) {
        if (status == LIBRARY) {
            return new Failure(
                    Failure.Kind.INVALID_ADDRESS,
                    "%s is reached by a device that librdmacm cannot open: in a container, pass /dev/infiniband/uverbs* in (--device)"
                            .formatted(peer));
        }
        Failure.Kind kind =
                switch (-status) {
                    case Errno.EHOSTUNREACH, Errno.ETIMEDOUT -> Failure.Kind.HOST_UNREACHABLE;
                    case Errno.ENODEV, Errno.EADDRNOTAVAIL, Errno.EINVAL ->
                            Failure.Kind.INVALID_ADDRESS;
                    default -> Failure.Kind.NETWORK_UNREACHABLE;
                };
        return new Failure(
                kind,
                "%s cannot be reached by RDMA (%s): %s"
                        .formatted(
                                peer,
                                Errno.describe(Math.abs(status)),
                                switch (kind) {
                                    case HOST_UNREACHABLE ->
                                            "no host answers there (ip neighbour shows who does)";
                                    case INVALID_ADDRESS ->
                                            "the route leads through a network interface without an RDMA device (ip route get; rdma link)";
                                    default ->
                                            "there is no route%s (ip route get)"
                                                    .formatted(
                                                            device.isEmpty()
                                                                    ? ""
                                                                    : " from device " + device);
                                }));
    }

    private static Failure failed(
            ConnectionEvent event, ConnectionState state, @Nullable InetSocketAddress peer) {
        boolean connecting = state == ConnectionState.CONNECTING;
        return switch (event.kind()) {
            case ROUTE_ERROR ->
                    new Failure(
                            Failure.Kind.HOST_UNREACHABLE,
                            "There is no RDMA path to %s (%s); on InfiniBand the subnet manager knows them (sminfo)"
                                    .formatted(peer, Errno.describe(Math.abs(event.status()))));
            case UNREACHABLE ->
                    new Failure(
                            Failure.Kind.TIMED_OUT,
                            connecting
                                    ? "%s does not answer: is the host up, and does a firewall let UDP port 4791 (RoCE) through?"
                                            .formatted(peer)
                                    : "%s did not establish the connection after it was accepted"
                                            .formatted(peer));
            case REJECTED -> rejected(event, peer, connecting, accepted(state));
            default -> brokeOff(peer);
        };
    }

    private static boolean accepted(ConnectionState state) {
        return state == ConnectionState.ACCEPTED_BY_PEER
                || state == ConnectionState.ACCEPTANCE_LOST;
    }

    private static Failure brokeOff(@Nullable InetSocketAddress peer) {
        return new Failure(
                Failure.Kind.ABORTED,
                "The connection with %s broke off before it was established".formatted(peer));
    }

    private static Failure rejected(
            ConnectionEvent event,
            @Nullable InetSocketAddress peer,
            boolean connecting,
            boolean accepted) {
        if (accepted) {
            return new Failure(
                    Failure.Kind.ABORTED,
                    "%s accepted, and gave up before this side had completed the connection"
                            .formatted(peer));
        }
        if (!connecting) {
            return new Failure(
                    Failure.Kind.ABORTED,
                    event.status() == ConnectionEvent.REJECTED_TIMEOUT
                            ? "%s gave up waiting".formatted(peer)
                            : "%s refused after it had been accepted (reason %d)"
                                    .formatted(peer, event.status()));
        }
        String why =
                switch (event.status()) {
                    case ConnectionEvent.REJECTED_BY_PROGRAM, -Errno.ECONNREFUSED ->
                            "its program rejected it; connectionData() has the private data of the rejection";
                    case ConnectionEvent.REJECTED_NO_LISTENER ->
                            "nobody listens on this RDMA port (TCP has ports of its own)";
                    case ConnectionEvent.REJECTED_STALE ->
                            "it still knows an older connection of this queue pair: try again";
                    case ConnectionEvent.REJECTED_TIMEOUT -> "it gave up waiting";
                    default ->
                            "reason %d of the InfiniBand specification".formatted(event.status());
                };
        return new Failure(
                Failure.Kind.REFUSED, "%s refused the connection: %s".formatted(peer, why));
    }

    /** The deadline of a step came. */
    static Failure deadline(
            ConnectionState state, @Nullable InetSocketAddress peer, Duration timeout) {
        String what =
                switch (state) {
                    case RESOLVING_ADDRESS, RESOLVING_ROUTE -> "no route to %s was found";
                    case CONNECTING -> "%s did not answer";
                    case ACCEPTING -> "%s did not establish the connection";
                    default -> "%s did not confirm the end of the connection";
                };
        return new Failure(
                Failure.Kind.TIMED_OUT,
                (what + " within %s (ConnectionOptions.withDeadline)")
                        .formatted(peer, Text.time(timeout)));
    }

    /** A call that is not possible in this state. */
    static Failure refusal(ConnectionTrigger call, ConnectionState state) {
        if (call == ConnectionTrigger.DISCONNECT) {
            return new Failure(
                    Failure.Kind.WRONG_STATE,
                    "There is no connection to disconnect: this connector is %s"
                            .formatted(state.description()));
        }
        String name =
                switch (call) {
                    case CONNECT -> "connect";
                    case COMPLETE_CONNECT -> "completeConnect";
                    case ACCEPT -> "accept";
                    default -> "reject";
                };
        boolean active = state.inUse() && call != ConnectionTrigger.REJECT;
        return new Failure(
                active ? Failure.Kind.ACTIVE : Failure.Kind.WRONG_STATE,
                "%s is not possible now: this connector is %s"
                        .formatted(name, state.description()));
    }

    /**
     * A call failed that answers the peer. The kernel has no event for a peer that gives up before
     * it was answered: these calls then fail, with an identifier that is of no use any more.
     */
    static Failure whileAnswering(Failure f, @Nullable InetSocketAddress peer) {
        if (f.kind() != Failure.Kind.CALL) {
            return f;
        }
        if (f.call().startsWith(HeldQueuePair.CALL)) { // of the device here
            return new Failure(Failure.Kind.ABORTED, f);
        }
        return new Failure(
                Failure.Kind.ABORTED,
                "%s gave up meanwhile (%s)".formatted(peer, f.getMessage()),
                f.getCause());
    }

    /** A rejection failed with a negative errno. */
    static Failure lateReject(int error) {
        return new Failure(
                Failure.Kind.ABORTED,
                "There was nothing left to reject: the peer gave up",
                Failure.of("rdma_reject", error, ""));
    }

    /** A close ended the step. */
    static Failure closed() {
        return new Failure(Failure.Kind.CANCELLED, "The connector was closed meanwhile");
    }
}
