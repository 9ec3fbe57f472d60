package dev.verbena;

/**
 * The operation that a completion belongs to: NDK_OPERATION_TYPE, and operations that only verbs
 * has.
 */
public enum OperationType {
    /** A receive. */
    RECEIVE(0x0001),
    /** A send, a send and invalidate, or (beyond NDK) a send with immediate. */
    SEND(0x0002),
    /** Never reported: verbs offers no fast registration to programs. */
    FAST_REGISTER(0x0004),
    /** The bind of a memory window. */
    BIND(0x0008),
    /** The invalidate of a memory window. */
    INVALIDATE(0x0010),
    /** A read. */
    READ(0x0020),
    /** A write, or (beyond NDK) a write with immediate. */
    WRITE(0x0040),
    /** A receive whose message invalidated a remote key (NDK: token) of this side. */
    RECEIVE_AND_INVALIDATE(0x8001),
    /**
     * Beyond NDK: a receive consumed by the peer's write with immediate; its buffers are unchanged.
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
     * NDK's value, or a value beyond its 16 bits. {@code value & RECEIVE.value()} is not 0 for
     * every type of receive.
     *
     * @return the value of NDK_OPERATION_TYPE
     */
    public int value() {
        return value;
    }

    /**
     * Whether it is a type of receive.
     *
     * @return true if such completions arrive at the receive completion queue of the queue pair
     */
    public boolean isReceive() {
        return (value & RECEIVE.value) != 0;
    }
}
