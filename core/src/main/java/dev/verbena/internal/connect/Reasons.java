package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Locale;

/** What events mean, in sentences. */
final class Reasons {
    // What librdmacm says when a call of its own failed after the kernel's part had gone well; it
    // has an errno then, and forgets it.
    private static final int LIBRARY = -1;

    private static final int NANO_DIGITS = 9;

    private Reasons() {}

    /** {@code RDMA_CM_EVENT_ADDR_ERROR}. */
    static Failure unresolved(int status, InetSocketAddress peer, String device) {
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
                                            "the way there leads by a network interface without an RDMA device (ip route get; rdma link)";
                                    default ->
                                            "there is no route from device %s (ip route get)"
                                                    .formatted(device);
                                }));
    }

    /** An event that ends an attempt. */
    static Failure failed(
            ConnectionEvent event, InetSocketAddress peer, boolean connecting, boolean accepted) {
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
            case REJECTED -> rejected(event, peer, connecting, accepted);
            default ->
                    new Failure(
                            Failure.Kind.ABORTED,
                            "The connection with %s broke off before it was established"
                                    .formatted(peer));
        };
    }

    private static Failure rejected(
            ConnectionEvent event, InetSocketAddress peer, boolean connecting, boolean accepted) {
        if (accepted) {
            return new Failure(
                    Failure.Kind.ABORTED,
                    "%s accepted, and gave up before the connection was completed".formatted(peer));
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
                            "its program refused; connectionData() has what it said";
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

    /** The deadline came. */
    static String tooLate(String state, InetSocketAddress peer, Duration within) {
        String what =
                switch (state) {
                    case "RESOLVING", "ROUTING" -> "no way to %s was found";
                    case "CONNECTING" -> "%s did not answer";
                    case "ACCEPTING" -> "%s did not establish the connection";
                    default -> "%s did not confirm the end of the connection";
                };
        return (what + " within %s; the deadline is one of the options")
                .formatted(peer, seconds(within));
    }

    static String seconds(Duration time) {
        return BigDecimal.valueOf(time.getSeconds())
                        .add(BigDecimal.valueOf(time.getNano(), NANO_DIGITS))
                        .stripTrailingZeros()
                        .toPlainString()
                + " s";
    }

    /** A state in a sentence. */
    static String said(String state) {
        return switch (state) {
            case "FREE" -> "not connected";
            case "RESOLVING", "ROUTING", "CONNECTING" -> "connecting";
            case "ANSWERED" -> "to be completed or rejected";
            case "REQUESTED" -> "a request, to be accepted or rejected";
            default -> state.toLowerCase(Locale.ROOT);
        };
    }
}
