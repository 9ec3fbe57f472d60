package dev.verbena.internal.queue;

/** What a request was, kept by this layer: a failed completion's opcode says nothing. */
public enum RequestType {
    /** A send of any kind. */
    SEND,
    /** A write of any kind. */
    WRITE,
    /** A read. */
    READ,
    /** An atomic compare and swap. */
    COMPARE_AND_SWAP,
    /** An atomic fetch and add. */
    FETCH_AND_ADD,
    /** A window's bind. */
    BIND,
    /** A local invalidate. */
    INVALIDATE,
    /** A receive. */
    RECEIVE,
    /** A receive that invalidated a token. */
    RECEIVE_AND_INVALIDATE,
    /** A receive used up by the peer's write with immediate data. */
    RECEIVE_OF_WRITE;

    /** Whether it is one of the receives. */
    public boolean isReceive() {
        return compareTo(RECEIVE) >= 0;
    }
}
