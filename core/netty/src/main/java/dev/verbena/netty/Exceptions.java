package dev.verbena.netty;

import dev.verbena.Status;
import dev.verbena.VerbenaException;

import io.netty.channel.ConnectTimeoutException;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.net.BindException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.SocketAddress;
import java.net.SocketException;
import java.util.concurrent.CompletionException;

/** What Netty's users expect where Verbena throws; Verbena's exception is the cause. */
final class Exceptions {
    private Exceptions() {}

    /** Why a channel could not connect. */
    static Throwable ofConnect(
            Throwable thrown,
            SocketAddress remote,
            @Nullable SocketAddress from,
            int timeoutMillis) {
        Throwable why =
                thrown instanceof CompletionException e && e.getCause() != null
                        ? e.getCause()
                        : thrown;
        if (!(why instanceof VerbenaException e)) {
            return why;
        }
        Status status = e.status();
        IOException made;
        if (status == Status.IO_TIMEOUT) {
            made =
                    new ConnectTimeoutException(
                            "connection timed out after " + timeoutMillis + " ms: " + remote);
        } else if (status == Status.NETWORK_UNREACHABLE || status == Status.HOST_UNREACHABLE) {
            made = new NoRouteToHostException(e.getMessage());
        } else if (status == Status.INVALID_ADDRESS && from != null) {
            made = new BindException(e.getMessage());
        } else {
            made = new ConnectException(e.getMessage());
        }
        return with(made, e);
    }

    /**
     * Has no stack trace: Netty's bootstrap logs it, and what peers do is not this side's fault.
     */
    private static final class NotAccepted extends IOException {
        private static final long serialVersionUID = 1;

        NotAccepted(String message) {
            super(message);
        }

        @Override
        public synchronized Throwable fillInStackTrace() {
            return this;
        }
    }

    /** Why a peer was not accepted. */
    static Throwable ofAccept(Throwable thrown) {
        return thrown instanceof VerbenaException e
                ? new NotAccepted(String.valueOf(e.getMessage()))
                : thrown;
    }

    /** Why a server channel could not be bound. */
    static Exception ofBind(VerbenaException e) {
        return e.status() == Status.SHARING_VIOLATION || e.status() == Status.INVALID_ADDRESS
                ? with(new BindException(e.getMessage()), e)
                : e;
    }

    /**
     * Why an established connection has ended. It begins as the kernel's message for TCP does, by
     * which handlers (of TLS, for example) recognize that the peer is the reason.
     */
    static SocketException ofEnd(VerbenaException e) {
        String tcp =
                switch (e.status()) {
                    case CONNECTION_INVALID -> "Broken pipe: "; // a write after the peer's close
                    case CONNECTION_ABORTED -> "Connection reset by peer: ";
                    case IO_TIMEOUT -> "Connection timed out: ";
                    default -> "";
                };
        return with(new SocketException(tcp + e.getMessage()), e);
    }

    private static <T extends Throwable> T with(T made, Throwable cause) {
        made.initCause(cause);
        return made;
    }
}
