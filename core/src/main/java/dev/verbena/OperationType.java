package dev.verbena;

import dev.verbena.internal.queue.RequestType;

/** What a completion is the end of: NDK_OPERATION_TYPE, and what verbs has beyond it. */
public enum OperationType {
    /** A receive. */
    RECEIVE(0x0001),
    /** A send, a send and invalidate, or (beyond NDK) a send with immediate. */
    SEND(0x0002),
    /** Never told: verbs has no fast registration for programs. */
    FAST_REGISTER(0x0004),
    /** A window's bind. */
    BIND(0x0008),
    /** A window's invalidate. */
    INVALIDATE(0x0010),
    /** A read. */
    READ(0x0020),
    /** A write, or (beyond NDK) a write with immediate. */
    WRITE(0x0040),
    /** A receive whose message killed a token of this side. */
    RECEIVE_AND_INVALIDATE(0x8001),
    /**
     * Beyond NDK: a receive that the peer's write with immediate used up; its buffers are
     * untouched.
     */
    RECEIVE_OF_WRITE(0x1_0001),
    /** Beyond NDK: an atomic compare and swap. */
    COMPARE_AND_SWAP(0x2_0000),
    /** Beyond NDK: an atomic fetch and add. */
    FETCH_AND_ADD(0x4_0000);

    private final int value;

    OperationType(int value) {
        this.value = value;
    }

    /**
     * NDK's value, or one beyond its 16 bits. {@code type & RECEIVE.value()} catches every receive.
     *
     * @return as in NDK_OPERATION_TYPE
     */
    public int value() {
        return value;
    }

    /**
     * Whether it is one of the receives.
     *
     * @return true for those that end on a queue pair's receive completion queue
     */
    public boolean isReceive() {
        return (value & RECEIVE.value) != 0;
    }

    static OperationType of(RequestType type) {
        return switch (type) {
            case SEND -> SEND;
            case WRITE -> WRITE;
            case READ -> READ;
            case COMPARE_AND_SWAP -> COMPARE_AND_SWAP;
            case FETCH_AND_ADD -> FETCH_AND_ADD;
            case BIND -> BIND;
            case INVALIDATE -> INVALIDATE;
            case RECEIVE -> RECEIVE;
            case RECEIVE_AND_INVALIDATE -> RECEIVE_AND_INVALIDATE;
            case RECEIVE_OF_WRITE -> RECEIVE_OF_WRITE;
        };
    }
}
