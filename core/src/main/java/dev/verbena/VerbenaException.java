package dev.verbena;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.time.Duration;

/**
 * A call failed. The message states what failed, why, and what to do about it. One that concerns a
 * channel is a {@link dev.verbena.messaging.MessagingException}.
 */
public class VerbenaException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The NDK status. */
    private final Status status;

    /** The C function that failed, or "". */
    private final String verb;

    /** Its errno, or 0. */
    private final int errno;

    /**
     * Something failed without a C function.
     *
     * @param status any but SUCCESS
     * @param message what failed, why, and what to do about it
     */
    public VerbenaException(Status status, String message) {
        this(status, message, null);
    }

    /**
     * A failure outside of any C function, with another exception as its cause.
     *
     * @param status any but SUCCESS
     * @param message what failed, why, and what to do about it
     * @param cause the underlying exception, or null
     */
    public VerbenaException(Status status, String message, @Nullable Throwable cause) {
        this(status, "", 0, message, cause);
    }

    /**
     * A failure whose status or message does not follow from the errno of the C function.
     *
     * @param status any but SUCCESS
     * @param verb the C function that failed, or ""
     * @param errno its errno, or 0
     * @param message what failed, why, and what to do about it
     * @param cause the underlying exception, or null
     */
    public VerbenaException(
            Status status, String verb, int errno, String message, @Nullable Throwable cause) {
        super(Arguments.notNull(message, "message"), cause);
        this.status = Arguments.notNull(status, "status");
        this.verb = Arguments.notNull(verb, "verb");
        this.errno = errno;
    }

    /**
     * A C function failed.
     *
     * @param verb its name
     * @param errno a positive number
     * @param advice what to do about it; may be empty
     */
    public VerbenaException(String verb, int errno, String advice) {
        this(
                statusOf(errno),
                Arguments.notNull(verb, "verb"),
                errno,
                Errno.sentence(verb, errno, Arguments.notNull(advice, "advice")),
                null);
    }

    /**
     * For a caller of {@code awaitClosed} after a failed destroy. A new exception for each caller,
     * with the stack trace of that caller.
     */
    static VerbenaException ofDestroy(NativeObject object, Throwable failure) {
        Status status = failure instanceof VerbenaException v ? v.status : Status.INTERNAL_ERROR;
        return new VerbenaException(
                status,
                "%s could not be destroyed (%s; the cause says why), and its memory must stay allocated"
                        .formatted(object, status.name()),
                failure);
    }

    /** For a close whose wait for a callback or thread timed out. */
    static VerbenaException stillRunning(String what, Duration timeout) {
        return new VerbenaException(
                Status.IO_TIMEOUT,
                "Closed, but %s is still running after %s".formatted(what, Text.time(timeout)));
    }

    /** For a call that returned a negative errno. */
    static VerbenaException of(String verb, long negativeErrno, String advice) {
        return new VerbenaException(verb, (int) -negativeErrno, advice);
    }

    static Status statusOf(int errno) {
        return switch (errno) {
            case 0 -> Status.SUCCESS;
            case Errno.EINVAL -> Status.INVALID_PARAMETER;
            case Errno.ENOMEM, Errno.EAGAIN, Errno.EMFILE, Errno.ENFILE ->
                    Status.INSUFFICIENT_RESOURCES;
            case Errno.EBUSY -> Status.DEVICE_BUSY;
            case Errno.EACCES, Errno.EPERM, Errno.EFAULT -> Status.ACCESS_VIOLATION;
            case Errno.ENOSYS, Errno.EOPNOTSUPP -> Status.NOT_SUPPORTED;
            case Errno.EIO, Errno.ENODEV, Errno.ENXIO -> Status.DEVICE_REMOVED;
            case Errno.ENETUNREACH -> Status.NETWORK_UNREACHABLE;
            case Errno.EHOSTUNREACH -> Status.HOST_UNREACHABLE;
            case Errno.ETIMEDOUT -> Status.IO_TIMEOUT;
            default -> Status.INTERNAL_ERROR;
        };
    }

    /**
     * The NDK status.
     *
     * @return a status for which {@link Status#isSuccess} is false
     */
    public final Status status() {
        return status;
    }

    /**
     * The C function that failed.
     *
     * @return its name, or "" when no C function was called
     */
    public final String verb() {
        return verb;
    }

    /**
     * The errno of the C function, or of the provider that refused a request.
     *
     * @return a positive number, or 0 when there is none
     */
    public final int errno() {
        return errno;
    }
}
