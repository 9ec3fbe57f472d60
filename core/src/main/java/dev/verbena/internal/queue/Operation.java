package dev.verbena.internal.queue;

import static dev.verbena.internal.queue.RequestFlags.ALLOW_REMOTE_READ;
import static dev.verbena.internal.queue.RequestFlags.ALLOW_REMOTE_WRITE;
import static dev.verbena.internal.queue.RequestFlags.DEFER;
import static dev.verbena.internal.queue.RequestFlags.INLINE;
import static dev.verbena.internal.queue.RequestFlags.RDMA_READ_LOCAL_INVALIDATE;
import static dev.verbena.internal.queue.RequestFlags.READ_FENCE;
import static dev.verbena.internal.queue.RequestFlags.SEND_AND_SOLICIT_EVENT;
import static dev.verbena.internal.queue.RequestFlags.SILENT_SUCCESS;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.SendChain;

/**
 * An operation of the send queue, described once: its opcode, the type of its completion, the flags
 * that it knows and what it needs. To add one, add a constant here, its fields in {@link #fill},
 * and a method in {@code QueuePair}.
 *
 * <p>A record, because the JIT treats the fields of a constant record as constants.
 */
public record Operation(String name, int opcode, OperationType type, int flags, Needs needs) {
    /** What an operation needs of its device, its peer and its buffers. */
    enum Needs {
        /** Nothing more. */
        NOTHING,
        /** A device and a peer that can invalidate a remote key. */
        REMOTE_INVALIDATE,
        /** A device that carries immediate data. */
        IMMEDIATE_DATA,
        /** Local memory that the device may write, and a peer that accepts reads. */
        READ,
        /** The same, one buffer of eight bytes, and a device with atomics. */
        ATOMIC,
        /** A window, and no buffers. */
        WINDOW;

        /** Whether it invalidates a key of the peer's, which has to be able to. */
        boolean invalidates() {
            return this == REMOTE_INVALIDATE;
        }

        /** Whether it reads from the peer, which has to let reads in. */
        boolean reads() {
            return this == READ || this == ATOMIC;
        }
    }

    /** Writes the fields that it has beside its buffers into a request that was begun. */
    void fill(SendChain request, long remoteAddress, int remoteKey, long operand, long swap) {
        fillRemote(request, remoteAddress, remoteKey);
        switch (opcode) {
            case SendChain.SEND_WITH_IMMEDIATE, SendChain.WRITE_WITH_IMMEDIATE ->
                    request.immediate((int) operand);
            case SendChain.COMPARE_AND_SWAP, SendChain.FETCH_AND_ADD ->
                    request.operands(operand, swap);
            default -> {} // those without operands
        }
    }

    /** Writes what it names at the peer into a request that has all else. */
    void fillRemote(SendChain request, long remoteAddress, int remoteKey) {
        switch (opcode) {
            case SendChain.SEND_WITH_INVALIDATE -> request.invalidate(remoteKey);
            case SendChain.COMPARE_AND_SWAP, SendChain.FETCH_AND_ADD ->
                    request.remoteOfAtomic(remoteAddress, remoteKey);
            case SendChain.WRITE, SendChain.WRITE_WITH_IMMEDIATE, SendChain.READ ->
                    request.remote(remoteAddress, remoteKey);
            default -> {} // those that name nothing there
        }
    }

    public boolean invalidatesAtPeer() {
        return opcode == SendChain.SEND_WITH_INVALIDATE;
    }

    /** Whether it names memory of the peer. */
    public boolean namesRemoteMemory() {
        return switch (opcode) {
            case SendChain.WRITE,
                    SendChain.WRITE_WITH_IMMEDIATE,
                    SendChain.READ,
                    SendChain.COMPARE_AND_SWAP,
                    SendChain.FETCH_AND_ADD ->
                    true;
            default -> false;
        };
    }

    private static final int ANY = SILENT_SUCCESS | READ_FENCE | DEFER;
    private static final int MESSAGE = ANY | SEND_AND_SOLICIT_EVENT | INLINE;

    /** NdkSend. */
    public static final Operation SEND =
            new Operation("send", SendChain.SEND, OperationType.SEND, MESSAGE, Needs.NOTHING);

    /** NdkSendAndInvalidate. */
    public static final Operation SEND_AND_INVALIDATE =
            new Operation(
                    "sendAndInvalidate",
                    SendChain.SEND_WITH_INVALIDATE,
                    OperationType.SEND,
                    MESSAGE,
                    Needs.REMOTE_INVALIDATE);

    /** A send with 32 bits of immediate data. */
    public static final Operation SEND_WITH_IMMEDIATE =
            new Operation(
                    "sendWithImmediate",
                    SendChain.SEND_WITH_IMMEDIATE,
                    OperationType.SEND,
                    MESSAGE,
                    Needs.IMMEDIATE_DATA);

    /** NdkWrite. */
    public static final Operation WRITE =
            new Operation(
                    "write", SendChain.WRITE, OperationType.WRITE, ANY | INLINE, Needs.NOTHING);

    /** A write with 32 bits of immediate data. */
    public static final Operation WRITE_WITH_IMMEDIATE =
            new Operation(
                    "writeWithImmediate",
                    SendChain.WRITE_WITH_IMMEDIATE,
                    OperationType.WRITE,
                    MESSAGE,
                    Needs.IMMEDIATE_DATA);

    /** NdkRead. */
    public static final Operation READ =
            new Operation(
                    "read",
                    SendChain.READ,
                    OperationType.READ,
                    ANY | RDMA_READ_LOCAL_INVALIDATE,
                    Needs.READ);

    public static final Operation COMPARE_AND_SWAP =
            new Operation(
                    "compareAndSwap",
                    SendChain.COMPARE_AND_SWAP,
                    OperationType.COMPARE_AND_SWAP,
                    ANY,
                    Needs.ATOMIC);

    public static final Operation FETCH_AND_ADD =
            new Operation(
                    "fetchAndAdd",
                    SendChain.FETCH_AND_ADD,
                    OperationType.FETCH_AND_ADD,
                    ANY,
                    Needs.ATOMIC);

    /** NdkBind. */
    public static final Operation BIND =
            new Operation(
                    "bind",
                    SendChain.BIND,
                    OperationType.BIND,
                    ANY | ALLOW_REMOTE_READ | ALLOW_REMOTE_WRITE,
                    Needs.WINDOW);

    /** NdkInvalidate. */
    public static final Operation INVALIDATE =
            new Operation(
                    "invalidate",
                    SendChain.INVALIDATE,
                    OperationType.INVALIDATE,
                    ANY,
                    Needs.WINDOW);
}
