package dev.verbena.internal.queue;

/**
 * Why a post had no effect. Posts return it as an {@code int}: {@link #NONE} when the request was
 * accepted, a positive errno when the provider refused it, and {@link #code} of one of these when
 * this library did. The API turns each into a status.
 */
public enum Refusal {
    /** Not connected, or no longer. */
    NOT_CONNECTED("the queue pair is not connected, or not any more"),
    /** The queue is full. */
    FULL("the queue is full of outstanding requests: poll its completion queue"),
    /** A flag that the operation does not know. */
    UNKNOWN_FLAG("the operation does not support one of the flags"),
    /** More bytes than a message may have. */
    TOO_MANY_BYTES("the buffers hold more bytes than one message of this port may have"),
    /** More bytes than fit into the request. */
    TOO_MANY_INLINE_BYTES(
            "the request is INLINE and has more bytes than the queue pair's maxInlineBytes"),
    /** More buffers than the queue pair was made for. */
    TOO_MANY_BUFFERS("the list has more buffers than the queue pair was made for"),
    /** Memory that is not registered. */
    NOT_REGISTERED("a buffer is not registered, which only INLINE allows"),
    /** Memory of another protection domain. */
    OTHER_DOMAIN("an object belongs to another protection domain"),
    /** Memory whose arena was closed. */
    ARENA_CLOSED("the arena of a buffer was closed"),
    /** Memory that this thread cannot read. */
    UNREADABLE(
            "the bytes of an INLINE buffer cannot be read: its arena was closed, or it is confined to another thread"),
    /** Memory that the device may not write. */
    NOT_WRITABLE("the device may not write to a buffer: register it with LOCAL_WRITE"),
    /** The peer has nothing to invalidate. */
    NO_REMOTE_INVALIDATE(
            "the device cannot invalidate at the peer, or the peer did not announce that its tokens can be invalidated"),
    /** No immediate data. */
    NO_IMMEDIATE_DATA("the device carries no immediate data"),
    /** No atomics. */
    NO_ATOMICS("the device has no atomic operations"),
    /** An atomic's buffer. */
    NOT_ONE_LONG("an atomic operation takes one buffer of 8 bytes"),
    /** An atomic's address. */
    NOT_ALIGNED("an atomic operation takes an address of the peer's that is a multiple of 8"),
    /** No reads. */
    NO_READS("the peer accepts no reads, or this side asked for none (outboundReads)"),
    /** Outside of the remote memory. */
    OUTSIDE_REMOTE_MEMORY("the bytes would go beyond the remote memory"),
    /** Outside of the region. */
    OUTSIDE_REGION("the range is empty, outside of the region, or longer than a window may be"),
    /** Wrong rights of a window. */
    WRONG_WINDOW_RIGHTS("0x20 alone is no right of a window: use ALLOW_REMOTE_WRITE"),
    /** The region takes no window. */
    REGION_NOT_BINDABLE(
            "the region cannot have this window: it was registered without WINDOWS, or without LOCAL_WRITE for a window that may be written to"),
    /** The window is bound. */
    WINDOW_BOUND("the window is still bound: invalidate it first"),
    /** The window is not bound. */
    WINDOW_NOT_BOUND(
            "the window is not bound on this queue pair, perhaps because the peer has invalidated it"),
    /** The window has requests elsewhere. */
    WINDOW_BUSY("requests that name the window are outstanding on another queue pair"),
    /** Receives come from elsewhere. */
    SHARED_RECEIVES(
            "the queue pair takes its receives from a shared receive queue: post them there");

    /** What a post returns when the request was accepted. */
    public static final int NONE = 0;

    private static final Refusal[] ALL = values();

    private final String reason;

    Refusal(String reason) {
        this.reason = reason;
    }

    /**
     * This refusal as a post returns it.
     *
     * @return a negative number
     */
    public int code() {
        return -1 - ordinal();
    }

    /**
     * The refusal that a post returned.
     *
     * @param code a negative number
     * @return the refusal with that {@link #code}
     */
    public static Refusal of(int code) {
        return ALL[-1 - code];
    }

    /** The reason, for messages. */
    public String reason() {
        return reason;
    }
}
