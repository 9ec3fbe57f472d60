package dev.verbena;

/**
 * What became of a request, as NDK's NTSTATUS values say it.
 *
 * <p>A post that answers anything but {@link #SUCCESS} has had no effect and yields no completion.
 */
public enum Status {
    /** Done. */
    SUCCESS(0x00000000, "done"),
    /** Accepted; a callback will tell the end. */
    PENDING(0x00000103, "accepted, not ended yet"),
    /**
     * More arrived than there was room for: a message longer than its receive, or more completions
     * than their queue holds, so that this request's own was lost. Some devices also end a receive
     * so whose message named a bad token to invalidate.
     */
    BUFFER_OVERFLOW(0x80000005, "more arrived than there was room for"),
    /** Still in use. */
    DEVICE_BUSY(0x80000011, "still in use"),
    /** The queue is full; poll for completions, then post again. */
    NO_MORE_ENTRIES(0x8000001A, "the queue is full: poll for completions, then post again"),
    /**
     * Memory was named that may not be used so: a wrong token, a range outside it, a right that was
     * not given, or an arena that is closed.
     */
    ACCESS_VIOLATION(
            0xC0000005,
            "memory was named that may not be used so (token, range, access right or a closed arena)"),
    /** An argument is outside of what was agreed for this object. */
    INVALID_PARAMETER(0xC000000D, "an argument is outside the limits of this object"),
    /** The request makes no sense in this state. */
    INVALID_DEVICE_REQUEST(0xC0000010, "the request makes no sense in this state"),
    /** The caller's buffer is too small for the answer. */
    BUFFER_TOO_SMALL(0xC0000023, "the buffer is too small for the answer"),
    /** Flags or arguments that exclude each other. */
    INVALID_PARAMETER_MIX(0xC0000030, "flags or arguments that exclude each other"),
    /** The local buffers do not fit the request. */
    DATA_OVERRUN(0xC000003C, "the local buffers do not fit the request"),
    /** Data were damaged or refused on the way. */
    DATA_ERROR(0xC000003E, "data were damaged or refused on the way"),
    /** The address is in use. */
    SHARING_VIOLATION(0xC0000043, "the address is in use"),
    /** Memory, lockable memory, or room on the device ran out. */
    INSUFFICIENT_RESOURCES(0xC000009A, "memory, lockable memory or room on the device ran out"),
    /**
     * The time ran out: of a request, whose peer did not answer or never had a receive ready; of a
     * step of a connection; or of a wait at this side, to which nothing came.
     */
    IO_TIMEOUT(
            0xC00000B5,
            "the time ran out: a request was not acknowledged or found no receive, or a wait saw nothing come"),
    /** This device or this interface cannot do it. */
    NOT_SUPPORTED(0xC00000BB, "not supported here"),
    /** No such network. */
    BAD_NETWORK_NAME(0xC00000CC, "no such network"),
    /** The device or its driver failed. */
    INTERNAL_ERROR(0xC00000E5, "the device or its driver failed"),
    /** Ended by a flush, or by the failure of an earlier request on the same queue pair. */
    CANCELLED(0xC0000120, "ended by a flush or by an earlier failure on the same queue pair"),
    /** The peer could not do its part. */
    REMOTE_RESOURCES(0xC000013D, "the peer could not do its part"),
    /** Not an address of this machine, or none at all. */
    INVALID_ADDRESS(0xC0000141, "not a usable address"),
    /** The length does not fit the memory. */
    INVALID_BUFFER_SIZE(0xC0000206, "the length does not fit the memory"),
    /** No port is left. */
    TOO_MANY_ADDRESSES(0xC0000209, "no port is left"),
    /** The same connection exists. */
    ADDRESS_ALREADY_EXISTS(0xC000020A, "the same connection exists"),
    /** The peer refused. */
    CONNECTION_REFUSED(0xC0000236, "the peer refused the connection"),
    /** Bound already. */
    ADDRESS_ALREADY_ASSOCIATED(0xC0000238, "an address is bound already"),
    /** There is no connection, or none any more. */
    CONNECTION_INVALID(0xC000023A, "there is no connection, or none any more"),
    /** Connected already. */
    CONNECTION_ACTIVE(0xC000023B, "connected already"),
    /** No route to that network. */
    NETWORK_UNREACHABLE(0xC000023C, "no route to that network"),
    /** No route to that host. */
    HOST_UNREACHABLE(0xC000023D, "no route to that host"),
    /** The connection broke off. */
    CONNECTION_ABORTED(0xC0000241, "the connection broke off"),
    /** The device is gone. */
    DEVICE_REMOVED(0xC00002B6, "the device is gone"),
    /** More than this implementation can do. */
    IMPLEMENTATION_LIMIT(0xC000042B, "more than this implementation can do");

    private final int value;
    private final String meaning;

    Status(int value, String meaning) {
        this.value = value;
        this.meaning = meaning;
    }

    /**
     * The NTSTATUS value.
     *
     * @return the 32-bit value, as Windows headers have it
     */
    public int value() {
        return value;
    }

    /**
     * What it means.
     *
     * @return a few plain words
     */
    public String meaning() {
        return meaning;
    }

    /**
     * NDK's test for success: the value is not negative. {@link #PENDING} passes, all errors and
     * warnings fail.
     *
     * @return whether this is no failure
     */
    public boolean isSuccess() {
        return value >= 0;
    }

    /**
     * For callers who want exceptions: does nothing on success.
     *
     * @throws VerbenaException on any other status
     */
    public void orThrow() {
        if (!isSuccess()) {
            throw new VerbenaException(this, toString());
        }
    }

    /**
     * For callers of posts who want exceptions that say more: does nothing on success. To be called
     * by the thread that posted, with the status that the post returned.
     *
     * {@snippet :
     * queuePair.send(1, message).orThrow(queuePair);
     * }
     *
     * @param queuePair to which the request was posted just now
     * @throws VerbenaException on any other status; says which operation was refused, on which
     *     queue pair, connected to which peer, and why
     */
    public void orThrow(QueuePair queuePair) {
        if (!isSuccess()) {
            throw queuePair.refused(this);
        }
    }

    /** Name, value and meaning, as in {@code NO_MORE_ENTRIES (0x8000001A): the queue is full…}. */
    @Override
    public String toString() {
        return "%s (0x%08X): %s".formatted(name(), value, meaning);
    }
}
