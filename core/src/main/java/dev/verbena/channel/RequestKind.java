package dev.verbena.channel;

/** What a channel posts for its user. */
enum RequestKind {
    /** A message. */
    SEND(true, false, false, false),
    /** A write into an exposure of the peer's. */
    WRITE(false, true, false, false),
    /** A read from one. */
    READ(false, false, true, false),
    /** A message that takes the remote key of one back. */
    SEND_AND_INVALIDATE(true, false, false, true),
    /** A write, and a message that takes the remote key back. */
    WRITE_AND_INVALIDATE(true, true, false, true);

    /** Whether it has a message, which takes a receive of the peer's. */
    final boolean message;

    final boolean writes;
    final boolean reads;
    final boolean invalidates;

    RequestKind(boolean message, boolean writes, boolean reads, boolean invalidates) {
        this.message = message;
        this.writes = writes;
        this.reads = reads;
        this.invalidates = invalidates;
    }

    /** Whether it names an exposure of the peer's. */
    boolean remote() {
        return this != SEND;
    }
}
