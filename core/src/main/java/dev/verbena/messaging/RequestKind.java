package dev.verbena.messaging;

import java.util.Locale;

/** The kinds of requests that a channel posts, for its user or for itself. */
enum RequestKind {
    /** A message. */
    SEND(true, false, false),
    /** A write into memory that the peer exposes. */
    WRITE(false, false, false),
    /** A read from memory that the peer exposes. */
    READ(false, true, false),
    /** A message that invalidates the remote key of an exposure. */
    SEND_AND_INVALIDATE(true, false, true),
    /** A write, and a message that invalidates the remote key. */
    WRITE_AND_INVALIDATE(true, false, true),
    /** The announcement of a large message. */
    ANNOUNCEMENT(true, false, false),
    /** A part of a large message that others follow. */
    PART(false, false, false),
    /** The last part of a large message, and the frame that takes the peer's offer back. */
    LAST_PART(false, false, false),
    /** A control frame. */
    CONTROL(false, false, false),
    /** Invalidates the token of an exposure of this side. */
    INVALIDATE(false, false, false);

    /** Whether it sends a user's message, which uses a receive of the peer. */
    final boolean message;

    final boolean reads;
    final boolean invalidates;

    RequestKind(boolean message, boolean reads, boolean invalidates) {
        this.message = message;
        this.reads = reads;
        this.invalidates = invalidates;
    }

    /** What has not happened when such a request is late, for the reason of an end. */
    String lateness() {
        return switch (this) {
            case WRITE, READ -> "a %s did not complete".formatted(name().toLowerCase(Locale.ROOT));
            case INVALIDATE -> "the invalidation of an exposure's token did not complete";
            default -> "a message was not acknowledged";
        };
    }
}
