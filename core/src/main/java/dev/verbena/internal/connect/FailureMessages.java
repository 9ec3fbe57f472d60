package dev.verbena.internal.connect;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/** The failures that callers get: what events, deadlines and refused calls mean, in sentences. */
public final class FailureMessages {
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
    static VerbenaException ofEvent(
            ConnectionTrigger trigger,
            ConnectionEvent event,
            ConnectionState state,
            @Nullable InetSocketAddress peer,
            String device,
            @Nullable IdentifierInfo resolved) {
        return switch (trigger) {
            case ADDRESS_RESOLVED_ELSEWHERE ->
                    new VerbenaException(
                            Status.INVALID_ADDRESS,
                            "The route to %s leads through device %s, and this adapter is %s: open that one, or name a local address of %s"
                                    .formatted(
                                            peer,
                                            Objects.requireNonNull(resolved).device(),
                                            device,
                                            device));
            case ADDRESS_ERROR -> unresolved(event.status(), peer, device);
            case ROUTE_ERROR ->
                    new VerbenaException(
                            Status.HOST_UNREACHABLE,
                            "There is no RDMA path to %s (%s); on InfiniBand the subnet manager knows them (sminfo)"
                                    .formatted(peer, Errno.describe(Math.abs(event.status()))));
            case UNREACHABLE ->
                    new VerbenaException(
                            Status.IO_TIMEOUT,
                            (state == ConnectionState.CONNECTING
                                            ? "%s does not answer: is the host up, and does a firewall let UDP port 4791 (RoCE) through?"
                                            : "%s did not establish the connection after it was accepted")
                                    .formatted(peer));
            case REJECTED -> rejected(event.status(), state, peer);
            case DEVICE_REMOVED -> deviceRemoved(device);
            case ADDRESS_CHANGED ->
                    new VerbenaException(
                            Status.CONNECTION_ABORTED,
                            "The Ethernet address of %s changed while connecting (the failover of a bond?): try again"
                                    .formatted(device));
            case DISCONNECT_UNANSWERED ->
                    state == ConnectionState.DISCONNECTING
                            ? new VerbenaException(
                                    Status.IO_TIMEOUT,
                                    "%s did not confirm the end of the connection".formatted(peer))
                            : brokeOff(peer);
            default -> brokeOff(peer);
        };
    }

    /** The event that ended a connection; its kind has the name of rdma_cm's. */
    static String ofDisconnect(ConnectionEvent event) {
        int status = event.status();
        return "RDMA_CM_EVENT_%s, status %d%s"
                .formatted(event.kind(), status, status < 0 ? ": " + Errno.describe(-status) : "");
    }

    static VerbenaException deviceRemoved(String device) {
        return new VerbenaException(Status.DEVICE_REMOVED, "Device %s is gone".formatted(device));
    }

    /** {@code RDMA_CM_EVENT_ADDR_ERROR}; device is "" where none was chosen. */
    static VerbenaException unresolved(int status, @Nullable Object peer, String device) {
        if (status == LIBRARY) {
            return new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "%s is reached by a device that librdmacm cannot open: in a container, pass /dev/infiniband/uverbs* in (--device)"
                            .formatted(peer));
        }
        Status meaning =
                switch (-status) {
                    case Errno.EHOSTUNREACH, Errno.ETIMEDOUT -> Status.HOST_UNREACHABLE;
                    case Errno.ENODEV, Errno.EADDRNOTAVAIL, Errno.EINVAL -> Status.INVALID_ADDRESS;
                    default -> Status.NETWORK_UNREACHABLE;
                };
        return new VerbenaException(
                meaning,
                "%s cannot be reached by RDMA (%s): %s"
                        .formatted(
                                peer,
                                Errno.describe(Math.abs(status)),
                                switch (meaning) {
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

    private static VerbenaException brokeOff(@Nullable InetSocketAddress peer) {
        return new VerbenaException(
                Status.CONNECTION_ABORTED,
                "The connection with %s broke off before it was established".formatted(peer));
    }

    private static VerbenaException rejected(
            int reason, ConnectionState state, @Nullable InetSocketAddress peer) {
        if (state != ConnectionState.CONNECTING) {
            String how =
                    switch (state) {
                        case ACCEPTED_BY_PEER, ACCEPTANCE_LOST ->
                                "accepted, and gave up before this side had completed the connection";
                        default ->
                                reason == ConnectionEvent.REJECTED_TIMEOUT
                                        ? "gave up waiting"
                                        : "refused after it had been accepted (reason %d)"
                                                .formatted(reason);
                    };
            return new VerbenaException(Status.CONNECTION_ABORTED, "%s %s".formatted(peer, how));
        }
        String why =
                switch (reason) {
                    case ConnectionEvent.REJECTED_BY_PROGRAM, -Errno.ECONNREFUSED ->
                            "its program rejected it; connectionData() has the private data of the rejection";
                    case ConnectionEvent.REJECTED_NO_LISTENER ->
                            "nobody listens on this RDMA port (TCP has ports of its own)";
                    case ConnectionEvent.REJECTED_STALE ->
                            "it still knows an older connection of this queue pair: try again";
                    case ConnectionEvent.REJECTED_TIMEOUT -> "it gave up waiting";
                    default -> "reason %d of the InfiniBand specification".formatted(reason);
                };
        return new VerbenaException(
                Status.CONNECTION_REFUSED, "%s refused the connection: %s".formatted(peer, why));
    }

    /** The deadline of a step came. */
    static VerbenaException deadline(
            ConnectionState state, @Nullable InetSocketAddress peer, Duration timeout) {
        String what =
                switch (state) {
                    case RESOLVING_ADDRESS, RESOLVING_ROUTE -> "no route to %s was found";
                    case CONNECTING -> "%s did not answer";
                    case ACCEPTING -> "%s did not establish the connection";
                    default -> "%s did not confirm the end of the connection";
                };
        return new VerbenaException(
                Status.IO_TIMEOUT,
                (what + " within %s (ConnectionOptions.withDeadline)")
                        .formatted(peer, Text.time(timeout)));
    }

    static VerbenaException refusal(ConnectionTrigger call, ConnectionState state) {
        if (call == ConnectionTrigger.DISCONNECT) {
            return new VerbenaException(
                    Status.CONNECTION_INVALID,
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
        return new VerbenaException(
                active ? Status.CONNECTION_ACTIVE : Status.CONNECTION_INVALID,
                "%s is not possible now: this connector is %s"
                        .formatted(name, state.description()));
    }

    /**
     * A call failed that answers the peer. The kernel has no event for a peer that gives up before
     * it was answered: these calls then fail, with an identifier that is of no use any more.
     */
    static VerbenaException whileAnswering(VerbenaException f, @Nullable InetSocketAddress peer) {
        return switch (f.errno()) {
            case 0, Errno.ENETUNREACH, Errno.EHOSTUNREACH, Errno.ETIMEDOUT -> f;
            case Errno.ENXIO, Errno.ENOMEM -> f; // of this machine
            default -> {
                // And not of the peer. EIO and ENODEV may pass: the device need not be gone.
                boolean ofDevice =
                        f.verb().startsWith(QueuePairHandle.CALL)
                                || f.errno() == Errno.EIO
                                || f.errno() == Errno.ENODEV;
                yield new VerbenaException(
                        Status.CONNECTION_ABORTED,
                        f.verb(),
                        f.errno(),
                        ofDevice
                                ? String.valueOf(f.getMessage())
                                : "%s gave up meanwhile (%s)".formatted(peer, f.getMessage()),
                        f.getCause());
            }
        };
    }

    /** A rejection failed with a negative errno. */
    static VerbenaException lateReject(int error) {
        return new VerbenaException(
                Status.CONNECTION_ABORTED,
                "rdma_reject",
                -error,
                "There was nothing left to reject: the peer gave up (%s)"
                        .formatted(Errno.sentence("rdma_reject", -error, "")),
                null);
    }

    /**
     * Throws unless a call that takes a local address returned 0.
     *
     * @param address the address asked for; port 0 is any
     * @param taken the status if the address is in use
     */
    static void checkAddress(
            long answer,
            ConnectionControl control,
            InetSocketAddress address,
            Status taken,
            String call,
            String advice) {
        int errno = (int) -answer;
        InetAddress ip = address.getAddress();
        boolean foreign =
                errno == Errno.EADDRNOTAVAIL && !ip.isAnyLocalAddress() && !control.local(ip);
        @Nullable Status status =
                switch (errno) {
                    case Errno.EADDRINUSE -> taken;
                    case Errno.EADDRNOTAVAIL -> // also where the port is in use on all addresses
                            foreign
                                    ? Status.INVALID_ADDRESS
                                    : address.getPort() == 0 ? Status.TOO_MANY_ADDRESSES : taken;
                    case Errno.ENODEV -> Status.INVALID_ADDRESS; // on all devices
                    default -> null;
                };
        if (status == null) {
            Errno.check(answer, call, advice);
            return;
        }
        String why =
                foreign
                        ? "%s is not an address of this machine (ip address)"
                                .formatted(ip.getHostAddress())
                        : advice;
        throw new VerbenaException(status, call, errno, Errno.sentence(call, errno, why), null);
    }

    /** The same failure for another caller, with the stack trace of that caller. */
    public static VerbenaException again(VerbenaException failure) {
        return new VerbenaException(
                failure.status(),
                failure.verb(),
                failure.errno(),
                String.valueOf(failure.getMessage()),
                failure.getCause());
    }

    /**
     * Describes an exception that an action has thrown; a VerbenaException is returned unchanged.
     */
    static VerbenaException thrown(Throwable thrown) {
        return thrown instanceof VerbenaException failure
                ? failure
                : new VerbenaException(
                        Status.CONNECTION_ABORTED,
                        "A step of the connection threw; the cause says what",
                        thrown);
    }

    /** The adapter's event thread ended. */
    static VerbenaException noEvents(Throwable cause) {
        return new VerbenaException(
                Status.INTERNAL_ERROR,
                "The adapter's event thread ended, and the cause says why: close the adapter and open it again",
                cause);
    }

    /** A close ended the step. */
    static VerbenaException closed() {
        return new VerbenaException(Status.CANCELLED, "The connector was closed meanwhile");
    }
}
