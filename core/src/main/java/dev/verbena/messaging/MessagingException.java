package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

/**
 * A channel cannot do what was asked; {@link #status} and the message say why. {@link
 * MessageChannel#isOpen} says whether the channel goes on.
 *
 * <p>The status, while the channel is open: IO_TIMEOUT when the time was over, NO_MORE_ENTRIES when
 * too many wait for room, ACCESS_VIOLATION for peer memory that was taken back, CANCELLED for an
 * exposure that was revoked, INSUFFICIENT_RESOURCES where there is no registered memory for a copy,
 * and what {@link dev.verbena.SendRequests} refuses. Before it is established: CONNECTION_REFUSED,
 * NOT_SUPPORTED, INVALID_PARAMETER. Otherwise why it is closed: CANCELLED by this side,
 * CONNECTION_INVALID by the peer, or the status of what failed.
 */
@CheckReturnValue
public final class MessagingException extends VerbenaException {
    private static final long serialVersionUID = 1;

    MessagingException(Status status, String message) {
        this(status, message, null);
    }

    MessagingException(Status status, String message, @Nullable Throwable cause) {
        super(status, message, cause);
    }

    /** The same exception for another thread, whose stack trace it has. */
    MessagingException again() {
        return new MessagingException(status(), String.valueOf(getMessage()), getCause());
    }
}
