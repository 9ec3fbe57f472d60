package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/**
 * A channel cannot do what was asked: it is closed, and {@link #status} and the message say why; or
 * the time is over.
 */
@CheckReturnValue
public final class ChannelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Why. */
    private final Status status;

    ChannelException(Status status, String message) {
        this(status, message, null);
    }

    ChannelException(Status status, String message, @Nullable Throwable cause) {
        super(message, cause);
        this.status = status;
    }

    /**
     * Why.
     *
     * @return IO_TIMEOUT when the time was over, the channel being open; otherwise why the channel
     *     is closed: CANCELLED by this side, CONNECTION_INVALID by the peer, or the status of what
     *     failed
     */
    public Status status() {
        return status;
    }
}
