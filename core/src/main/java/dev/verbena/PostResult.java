package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

/**
 * What a post returns: {@link #ACCEPTED}, or the reason why it was refused. A refused post has no
 * effect and no completion. Each reason belongs to an NDK {@link #status}.
 *
 * <p>There is one object for each reason, created in advance: no post allocates, and results can be
 * compared by {@code ==}. If the provider refused the request, the result carries its {@link
 * #errno}.
 *
 * {@snippet :
 * queuePair.send(1, message, OpFlags.NONE).orThrow();
 * }
 */
@CheckReturnValue
public final class PostResult {
    /** The request was accepted, and will complete. */
    public static final PostResult ACCEPTED =
            new PostResult("ACCEPTED", Status.SUCCESS, "the request was accepted");

    /** The queue pair is not connected, or no longer. */
    public static final PostResult NOT_CONNECTED =
            new PostResult(
                    "NOT_CONNECTED",
                    Status.CONNECTION_INVALID,
                    "the queue pair is not connected, or no longer connected");

    /** The queue is full of outstanding requests: poll its completion queue, then post again. */
    public static final PostResult FULL =
            new PostResult(
                    "FULL",
                    Status.NO_MORE_ENTRIES,
                    "the queue is full of outstanding requests: poll its completion queue");

    /** The operation does not support one of the flags. */
    public static final PostResult UNKNOWN_FLAG =
            new PostResult(
                    "UNKNOWN_FLAG",
                    Status.INVALID_PARAMETER,
                    "the operation does not support one of the flags");

    /** The buffers hold more bytes than one message of the port may have. */
    public static final PostResult TOO_MANY_BYTES =
            new PostResult(
                    "TOO_MANY_BYTES",
                    Status.INVALID_PARAMETER,
                    "the buffers hold more bytes than one message of this port may have");

    /** The request is INLINE and has more bytes than the queue pair carries inline. */
    public static final PostResult TOO_MANY_INLINE_BYTES =
            new PostResult(
                    "TOO_MANY_INLINE_BYTES",
                    Status.INVALID_PARAMETER,
                    "the request is INLINE and has more bytes than the queue pair's maxInlineBytes");

    /** The list has more buffers than the queue pair was created for. */
    public static final PostResult TOO_MANY_BUFFERS =
            new PostResult(
                    "TOO_MANY_BUFFERS",
                    Status.INVALID_PARAMETER,
                    "the list has more buffers than the queue pair was made for");

    /** A buffer is not registered, which only INLINE allows. */
    public static final PostResult NOT_REGISTERED =
            new PostResult(
                    "NOT_REGISTERED",
                    Status.ACCESS_VIOLATION,
                    "a buffer is not registered, which only INLINE allows");

    /** An object belongs to another protection domain. */
    public static final PostResult OTHER_DOMAIN =
            new PostResult(
                    "OTHER_DOMAIN",
                    Status.INVALID_PARAMETER_MIX,
                    "an object belongs to another protection domain");

    /** The arena of a buffer was closed. */
    public static final PostResult ARENA_CLOSED =
            new PostResult(
                    "ARENA_CLOSED", Status.ACCESS_VIOLATION, "the arena of a buffer was closed");

    /** The bytes of an INLINE buffer cannot be read by this thread. */
    public static final PostResult UNREADABLE =
            new PostResult(
                    "UNREADABLE",
                    Status.ACCESS_VIOLATION,
                    "the bytes of an INLINE buffer cannot be read: its arena was closed, or it is confined to another thread");

    /** The device may not write to a buffer: register it with LOCAL_WRITE. */
    public static final PostResult NOT_WRITABLE =
            new PostResult(
                    "NOT_WRITABLE",
                    Status.ACCESS_VIOLATION,
                    "the device may not write to a buffer: register it with LOCAL_WRITE");

    /** The device cannot invalidate at the peer, or the peer did not announce that it may. */
    public static final PostResult NO_REMOTE_INVALIDATE =
            new PostResult(
                    "NO_REMOTE_INVALIDATE",
                    Status.NOT_SUPPORTED,
                    "the device cannot invalidate at the peer, or the peer did not announce that its tokens can be invalidated");

    /** The device carries no immediate data. */
    public static final PostResult NO_IMMEDIATE_DATA =
            new PostResult(
                    "NO_IMMEDIATE_DATA",
                    Status.NOT_SUPPORTED,
                    "the device carries no immediate data");

    /** The device has no atomic operations. */
    public static final PostResult NO_ATOMICS =
            new PostResult(
                    "NO_ATOMICS", Status.NOT_SUPPORTED, "the device has no atomic operations");

    /** An atomic operation takes one buffer of 8 bytes. */
    public static final PostResult NOT_ONE_LONG =
            new PostResult(
                    "NOT_ONE_LONG",
                    Status.INVALID_PARAMETER,
                    "an atomic operation takes one buffer of 8 bytes");

    /** An atomic operation takes an address at the peer that is a multiple of 8. */
    public static final PostResult NOT_ALIGNED =
            new PostResult(
                    "NOT_ALIGNED",
                    Status.INVALID_PARAMETER,
                    "an atomic operation takes an address of the peer's that is a multiple of 8");

    /** The peer accepts no reads, or this side asked for none. */
    public static final PostResult NO_READS =
            new PostResult(
                    "NO_READS",
                    Status.NOT_SUPPORTED,
                    "the peer accepts no reads, or this side asked for none (outboundReads)");

    /** The bytes would go beyond the remote memory. */
    public static final PostResult OUTSIDE_REMOTE_MEMORY =
            new PostResult(
                    "OUTSIDE_REMOTE_MEMORY",
                    Status.INVALID_PARAMETER,
                    "the bytes would go beyond the remote memory");

    /** The range is empty, outside the region, or longer than a window may be. */
    public static final PostResult OUTSIDE_REGION =
            new PostResult(
                    "OUTSIDE_REGION",
                    Status.INVALID_PARAMETER,
                    "the range is empty, outside of the region, or longer than a window may be");

    /** The value 0x20 alone is no right of a window. */
    public static final PostResult WRONG_WINDOW_RIGHTS =
            new PostResult(
                    "WRONG_WINDOW_RIGHTS",
                    Status.INVALID_PARAMETER,
                    "0x20 alone is no right of a window: use ALLOW_REMOTE_WRITE");

    /** The region cannot have this window: it lacks WINDOWS, or LOCAL_WRITE. */
    public static final PostResult REGION_NOT_BINDABLE =
            new PostResult(
                    "REGION_NOT_BINDABLE",
                    Status.ACCESS_VIOLATION,
                    "the region cannot have this window: it was registered without WINDOWS, or without LOCAL_WRITE for a window that may be written to");

    /** The window is still bound: invalidate it first. */
    public static final PostResult WINDOW_BOUND =
            new PostResult(
                    "WINDOW_BOUND",
                    Status.INVALID_DEVICE_REQUEST,
                    "the window is still bound: invalidate it first");

    /** The window is not bound on this queue pair; the peer may have invalidated it. */
    public static final PostResult WINDOW_NOT_BOUND =
            new PostResult(
                    "WINDOW_NOT_BOUND",
                    Status.INVALID_DEVICE_REQUEST,
                    "the window is not bound on this queue pair, perhaps because the peer has invalidated it");

    /** Requests that name the window are outstanding on another queue pair. */
    public static final PostResult WINDOW_BUSY =
            new PostResult(
                    "WINDOW_BUSY",
                    Status.DEVICE_BUSY,
                    "requests that name the window are outstanding on another queue pair");

    /** The queue pair takes its receives from a shared receive queue: post them there. */
    public static final PostResult SHARED_RECEIVES =
            new PostResult(
                    "SHARED_RECEIVES",
                    Status.INVALID_DEVICE_REQUEST,
                    "the queue pair takes its receives from a shared receive queue: post them there");

    /**
     * On a channel: the peer does not expose that memory, or no longer. It may have ended the
     * exposure just before the post.
     */
    public static final PostResult NOT_EXPOSED =
            new PostResult(
                    "NOT_EXPOSED",
                    Status.ACCESS_VIOLATION,
                    "the peer of the channel does not expose this memory, or no longer exposes it");

    /** A message found no registered memory for its header or its copy. */
    public static final PostResult NO_MEMORY =
            new PostResult(
                    "NO_MEMORY",
                    Status.INSUFFICIENT_RESOURCES,
                    "there is no registered memory for the header or the copy of the message. Raise the limit of locked memory (ulimit -l)");

    private static final PostResult[] BY_ERRNO = new PostResult[Errno.MOST + 1];

    static {
        for (int errno = 1; errno < BY_ERRNO.length; errno++) {
            BY_ERRNO[errno] = ofProvider(errno);
        }
    }

    private final String name;
    private final Status status;
    private final int errno; // 0: this library refused the request, or it was accepted
    private final @Nullable String reason; // null: the provider's, by the errno

    private PostResult(String name, Status status, String reason) {
        this(name, status, 0, reason);
    }

    private PostResult(String name, Status status, int errno, @Nullable String reason) {
        this.name = name;
        this.status = status;
        this.errno = errno;
        this.reason = reason;
    }

    private static PostResult ofProvider(int errno) {
        return new PostResult("PROVIDER_REFUSED", VerbenaException.statusOf(errno), errno, null);
    }

    /**
     * The result of a provider's function.
     *
     * @param errno 0, or a positive errno
     * @return {@link #ACCEPTED} for 0
     */
    public static PostResult ofErrno(int errno) {
        if (errno == 0) {
            return ACCEPTED;
        }
        return errno > 0 && errno < BY_ERRNO.length ? BY_ERRNO[errno] : ofProvider(errno);
    }

    /**
     * NDK's status of this result.
     *
     * @return SUCCESS if the request was accepted
     */
    public Status status() {
        return status;
    }

    /**
     * Whether the request was accepted.
     *
     * @return true for {@link #ACCEPTED} only
     */
    public boolean isAccepted() {
        return this == ACCEPTED;
    }

    /**
     * The error of the provider that refused the request.
     *
     * @return a positive errno; 0 if the request was accepted, or refused before it reached the
     *     provider
     */
    public int errno() {
        return errno;
    }

    /**
     * Why the request was refused.
     *
     * @return half a sentence, for messages
     */
    public String reason() {
        return reason != null ? reason : "the provider refused it, " + Errno.describe(errno);
    }

    /**
     * Throws an exception unless the request was accepted.
     *
     * @throws VerbenaException with the reason, and the provider's errno if there is one
     */
    public void orThrow() {
        if (!isAccepted()) {
            throw new VerbenaException(
                    status,
                    "",
                    errno,
                    "The request was refused: %s. %s".formatted(reason(), status),
                    null);
        }
    }

    /** Its name, and the provider's errno if there is one. */
    @Override
    public String toString() {
        return errno == 0 ? name : "%s (%s)".formatted(name, Errno.describe(errno));
    }
}
