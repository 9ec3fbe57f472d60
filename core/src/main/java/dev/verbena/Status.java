package dev.verbena;

/**
 * The result of a request or call: NDK's NTSTATUS values.
 *
 * <p>A post returns a {@link PostResult}, which has one of these; unless it is {@link #SUCCESS},
 * the request has no effect and no completion.
 */
public enum Status {
    /** The operation succeeded; for a post, the request was accepted. */
    SUCCESS(0x00000000, "success"),
    /** Nothing has happened yet that concerns the program: {@link CompletionQueue#takeEvent}. */
    PENDING(0x00000103, "accepted, not completed yet"),
    /**
     * More arrived than fits: a message longer than its receive, or more completions than the
     * completion queue holds, so that the completion of this request was lost. Some devices also
     * report this for a receive whose message named a bad remote key (NDK: token) to invalidate.
     */
    BUFFER_OVERFLOW(0x80000005, "more arrived than fits the receive or the completion queue"),
    /** Still in use. */
    DEVICE_BUSY(0x80000011, "still in use"),
    /**
     * The queue is full; poll for completions, then post again. On a channel: the peer has no room,
     * see {@link dev.verbena.messaging.MessageChannel#trySend}.
     */
    NO_MORE_ENTRIES(
            0x8000001A,
            "no room: poll for completions of a queue pair, or wait until the peer of a channel has read, then try again"),
    /**
     * The request may not use its memory: a wrong token, a range outside of the memory, a missing
     * access right, or a closed arena.
     */
    ACCESS_VIOLATION(
            0xC0000005,
            "the request may not use this memory (wrong token, range or access right, or a closed arena)"),
    /** An argument is outside of the limits of this object. */
    INVALID_PARAMETER(0xC000000D, "an argument is outside the limits of this object"),
    /** The request is not possible in the current state of the object. */
    INVALID_DEVICE_REQUEST(0xC0000010, "not possible in the current state of the object"),
    /** The caller's buffer is too small for the result. */
    BUFFER_TOO_SMALL(0xC0000023, "the buffer is too small for the result"),
    /** Flags or arguments that exclude each other. */
    INVALID_PARAMETER_MIX(0xC0000030, "flags or arguments that exclude each other"),
    /** The local buffers do not fit the request. */
    DATA_OVERRUN(0xC000003C, "the local buffers do not fit the request"),
    /** Data were corrupted or rejected in transit. */
    DATA_ERROR(0xC000003E, "data were corrupted or rejected in transit"),
    /** The address is in use. */
    SHARING_VIOLATION(0xC0000043, "the address is in use"),
    /** Memory, lockable memory or device resources ran out. */
    INSUFFICIENT_RESOURCES(0xC000009A, "memory, lockable memory or device resources ran out"),
    /**
     * A timeout expired: of a request that the peer did not acknowledge or had no receive for, of a
     * step of a connection, or of a wait on this side.
     */
    IO_TIMEOUT(
            0xC00000B5,
            "timed out: a request was not acknowledged or found no receive, or a wait ended without a result"),
    /** The device or this library does not support it. */
    NOT_SUPPORTED(0xC00000BB, "not supported here"),
    /** No such network. */
    BAD_NETWORK_NAME(0xC00000CC, "no such network"),
    /** The device or its driver failed; or, on a channel, a handler, or the peer's protocol. */
    INTERNAL_ERROR(0xC00000E5, "the device, its driver, a handler or the peer's protocol failed"),
    /** Cancelled by a flush, or by the failure of an earlier request on the same queue pair. */
    CANCELLED(0xC0000120, "cancelled by a flush or by an earlier failure on the same queue pair"),
    /**
     * The peer could not execute the request (verbs: REM_OP_ERR, and REM_INV_REQ_ERR of a send
     * queue request).
     */
    REMOTE_RESOURCES(0xC000013D, "the peer could not execute the request"),
    /** The address does not belong to this machine, or is not usable for RDMA. */
    INVALID_ADDRESS(0xC0000141, "not a usable address"),
    /** The length does not fit the memory. */
    INVALID_BUFFER_SIZE(0xC0000206, "the length does not fit the memory"),
    /** No free port is left. */
    TOO_MANY_ADDRESSES(0xC0000209, "no free port is left"),
    /** A connection between the same two addresses exists. */
    ADDRESS_ALREADY_EXISTS(0xC000020A, "a connection between the same addresses exists"),
    /** The peer refused the connection. */
    CONNECTION_REFUSED(0xC0000236, "the peer refused the connection"),
    /** An address is bound already. */
    ADDRESS_ALREADY_ASSOCIATED(0xC0000238, "an address is bound already"),
    /** There is no connection, or it has ended. */
    CONNECTION_INVALID(0xC000023A, "there is no connection, or it has ended"),
    /** Connected already. */
    CONNECTION_ACTIVE(0xC000023B, "connected already"),
    /** No route to that network. */
    NETWORK_UNREACHABLE(0xC000023C, "no route to that network"),
    /** No route to that host. */
    HOST_UNREACHABLE(0xC000023D, "no route to that host"),
    /** The connection broke off. */
    CONNECTION_ABORTED(0xC0000241, "the connection broke off"),
    /** The device was removed. */
    DEVICE_REMOVED(0xC00002B6, "the device was removed"),
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
     * @return the 32-bit value, as in the Windows headers
     */
    public int value() {
        return value;
    }

    /**
     * What it means.
     *
     * @return the explanation that messages contain
     */
    public String meaning() {
        return meaning;
    }

    /**
     * NDK's test for success: the value is not negative. {@link #PENDING} passes, all errors and
     * warnings fail.
     *
     * @return true if this is no failure
     */
    public boolean isSuccess() {
        return value >= 0;
    }

    /**
     * Throws an exception unless this is a success.
     *
     * @throws VerbenaException on any other status
     */
    public void orThrow() {
        if (!isSuccess()) {
            throw new VerbenaException(this, toString());
        }
    }

    /**
     * Name, value and meaning, for example {@code NO_MORE_ENTRIES (0x8000001A): the queue is
     * full…}.
     */
    @Override
    public String toString() {
        return "%s (0x%08X): %s".formatted(name(), value, meaning);
    }
}
