package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * A call or a step of a connection failed. The API turns it into a {@code VerbenaException}; the
 * message is meant for the caller of this library.
 */
public final class Failure extends Exception {
    private static final long serialVersionUID = 1L;

    /** What kind of failure, for the caller's status. */
    public enum Kind {
        /** The peer refused, or no program listens. */
        REFUSED,
        /** The attempt broke off after the peer had been reached. */
        ABORTED,
        /** The peer did not answer in time. */
        TIMED_OUT,
        /** No route to the peer's network. */
        NETWORK_UNREACHABLE,
        /** No route to the peer. */
        HOST_UNREACHABLE,
        /** Not an address that RDMA can use here. */
        INVALID_ADDRESS,
        /** Another program listens on the address. */
        ADDRESS_IN_USE,
        /** The same connection exists. */
        SAME_CONNECTION,
        /** No port is left. */
        NO_PORT,
        /** The device is gone. */
        DEVICE_REMOVED,
        /** The caller gave up. */
        CANCELLED,
        /** Not possible in this state. */
        WRONG_STATE,
        /** Connected, or connecting. */
        ACTIVE,
        /** More private data than fit. */
        TOO_LONG,
        /** A call failed; its errno says more. */
        CALL,
        /** The adapter's event thread ended. */
        BROKEN
    }

    /** The kind. */
    private final Kind kind;

    /** The C function that failed, or "". */
    private final String call;

    /** Its errno, or 0. */
    private final int errno;

    Failure(Kind kind, String sentence) {
        this(kind, sentence, null);
    }

    Failure(Kind kind, String sentence, @Nullable Throwable cause) {
        super(sentence, cause);
        this.kind = kind;
        this.call = "";
        this.errno = 0;
    }

    /** The same failure, of another kind; not its cause, whose message would be the same. */
    Failure(Kind kind, Failure same) {
        super(same.getMessage(), same.getCause());
        this.kind = kind;
        this.call = same.call;
        this.errno = same.errno;
    }

    private Failure(Kind kind, String call, int errno, String advice) {
        super(Errno.sentence(call, errno, advice));
        this.kind = kind;
        this.call = call;
        this.errno = errno;
    }

    /** Throws unless a call answered 0 or an address. */
    static long check(long answer, String call, String advice) throws Failure {
        if (answer < 0) {
            throw of(call, answer, advice);
        }
        return answer;
    }

    /** The same, with the call's argument in the message. */
    static void check(long answer, String call, Object about, String advice) throws Failure {
        if (answer < 0) {
            throw of("%s(%s)".formatted(call, about), answer, advice);
        }
    }

    /** For a call that answered a negative errno. */
    static Failure of(String call, long negativeErrno, String advice) {
        int errno = (int) -negativeErrno;
        return new Failure(kindOf(errno), call, errno, advice);
    }

    /**
     * Throws unless a call that takes a local address answered 0.
     *
     * @param address the address asked for; port 0 is any
     * @param taken the kind of failure if the address is in use
     */
    static void checkAddress(
            long answer,
            ConnectionControl control,
            InetSocketAddress address,
            Kind taken,
            String call,
            String advice)
            throws Failure {
        int errno = (int) -answer;
        InetAddress ip = address.getAddress();
        if (errno == Errno.EADDRNOTAVAIL && !ip.isAnyLocalAddress() && !control.local(ip)) {
            throw new Failure(
                    Kind.INVALID_ADDRESS,
                    call,
                    errno,
                    "%s is not an address of this machine (ip address)"
                            .formatted(ip.getHostAddress()));
        }
        if (errno == Errno.EADDRINUSE) {
            throw new Failure(taken, call, errno, advice);
        }
        if (errno == Errno.EADDRNOTAVAIL) { // also where the port is in use on all addresses
            throw new Failure(address.getPort() == 0 ? Kind.NO_PORT : taken, call, errno, advice);
        }
        if (errno == Errno.ENODEV) { // on all devices
            throw new Failure(Kind.INVALID_ADDRESS, call, errno, advice);
        }
        check(answer, call, advice);
    }

    private static Kind kindOf(int errno) {
        return switch (errno) {
            case Errno.ENETUNREACH -> Kind.NETWORK_UNREACHABLE;
            case Errno.EHOSTUNREACH -> Kind.HOST_UNREACHABLE;
            case Errno.ETIMEDOUT -> Kind.TIMED_OUT;
            case Errno.ENXIO -> Kind.DEVICE_REMOVED;
            default -> Kind.CALL;
        };
    }

    /** The kind of failure. */
    public Kind kind() {
        return kind;
    }

    /**
     * The C function that failed.
     *
     * @return its name, or ""
     */
    public String call() {
        return call;
    }

    /**
     * Its errno.
     *
     * @return a positive number, or 0
     */
    public int errno() {
        return errno;
    }
}
