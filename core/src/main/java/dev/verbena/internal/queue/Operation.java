package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.internal.verbs.SendChain;

/**
 * An operation of the send queue, described once: its opcode, the type of its completion, the flags
 * that it knows and what it needs; how its requests are checked and filled in. To add one, add a
 * constant here, its fields in {@link #fill}, and a method in {@code SendRequests}.
 *
 * <p>A record, because the JIT treats the fields of a constant record as constants.
 */
public record Operation(String name, int opcode, OperationType type, int flags, Needs needs) {
    /** The bits of NDK_OP_FLAG_*, which {@code OpFlags} of the API describes. */
    public static final class Flags {
        public static final int SILENT_SUCCESS = 0x001;

        public static final int READ_FENCE = 0x002;

        public static final int SEND_AND_SOLICIT_EVENT = 0x004;

        public static final int ALLOW_REMOTE_READ = 0x008;

        public static final int ALLOW_LOCAL_WRITE = 0x010;

        public static final int ALLOW_REMOTE_WRITE = 0x030;

        public static final int INLINE = 0x040;

        public static final int RDMA_READ_SINK = 0x080;

        public static final int RDMA_READ_LOCAL_INVALIDATE = 0x100;

        public static final int DEFER = 0x200;

        public static final int ALL = 0x3FF;

        private Flags() {}

        /**
         * The {@code IBV_SEND_…} of a request.
         *
         * @param inline {@link SendChain#INLINE} when its bytes are in the request, otherwise 0
         */
        static int toVerbs(int flags, int inline, boolean signaled) {
            int verbs = inline | (signaled ? SendChain.SIGNALED : 0);
            if ((flags & (READ_FENCE | SEND_AND_SOLICIT_EVENT)) != 0) {
                verbs |=
                        ((flags & READ_FENCE) != 0 ? SendChain.FENCE : 0)
                                | ((flags & SEND_AND_SOLICIT_EVENT) != 0 ? SendChain.SOLICITED : 0);
            }
            return verbs;
        }
    }

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

    /**
     * Checks a request with buffers, except for what it needs of the peer. The list's size is read
     * once, by the caller: another thread may change the list meanwhile, although it must not, and
     * what is copied into the request's own memory has to be what was checked here.
     *
     * @param asked the request's flags
     */
    PostResult check(SendLimits limits, Buffers buffers, int count, long remoteAddress, int asked) {
        long bytes = buffers.bytes();
        if (bytes > limits.maxMessageBytes()) {
            return PostResult.TOO_MANY_BYTES;
        }
        if ((asked & Flags.INLINE) != 0) {
            if (bytes > limits.maxInlineBytes()) {
                return PostResult.TOO_MANY_INLINE_BYTES;
            }
        } else {
            if (count > limits.maxBuffers()) {
                return PostResult.TOO_MANY_BUFFERS;
            }
            PostResult result = buffers.check(limits.domain(), count);
            if (!result.isAccepted()) {
                return result;
            }
        }
        // Compared first: the switch would read a table.
        return needs == Operation.Needs.NOTHING
                ? PostResult.ACCEPTED
                : checkNeeds(limits, buffers, count, remoteAddress);
    }

    private PostResult checkNeeds(
            SendLimits limits, Buffers buffers, int count, long remoteAddress) {
        return switch (needs) {
            case NOTHING, WINDOW -> PostResult.ACCEPTED;
            case REMOTE_INVALIDATE ->
                    limits.remoteInvalidate()
                            ? PostResult.ACCEPTED
                            : PostResult.NO_REMOTE_INVALIDATE;
            case IMMEDIATE_DATA ->
                    limits.immediateData() ? PostResult.ACCEPTED : PostResult.NO_IMMEDIATE_DATA;
            case READ -> checkRead(limits, buffers, count);
            case ATOMIC -> {
                if (!limits.atomics()) {
                    yield PostResult.NO_ATOMICS;
                }
                if (!isAligned(remoteAddress)) {
                    yield PostResult.NOT_ALIGNED;
                }
                yield count == 1 && buffers.bytes() == Long.BYTES
                        ? checkRead(limits, buffers, count)
                        : PostResult.NOT_ONE_LONG;
            }
        };
    }

    /** Whether atomic operations can have the address; the peer would end the connection. */
    private static boolean isAligned(long remoteAddress) {
        return remoteAddress % Long.BYTES == 0;
    }

    /** Checks the peer's memory of a request that passed {@link #check} before with another. */
    PostResult checkRemote(long remoteAddress) {
        return needs != Operation.Needs.ATOMIC || isAligned(remoteAddress)
                ? PostResult.ACCEPTED
                : PostResult.NOT_ALIGNED;
    }

    private static PostResult checkRead(SendLimits limits, Buffers buffers, int count) {
        if (count > limits.maxReadBuffers()) {
            return PostResult.TOO_MANY_BUFFERS;
        }
        return buffers.writable() ? PostResult.ACCEPTED : PostResult.NOT_WRITABLE;
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

    private static final int ANY = Flags.SILENT_SUCCESS | Flags.READ_FENCE | Flags.DEFER;
    private static final int MESSAGE = ANY | Flags.SEND_AND_SOLICIT_EVENT | Flags.INLINE;

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
                    "write",
                    SendChain.WRITE,
                    OperationType.WRITE,
                    ANY | Flags.INLINE,
                    Needs.NOTHING);

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
                    ANY | Flags.RDMA_READ_LOCAL_INVALIDATE,
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
                    ANY | Flags.ALLOW_REMOTE_READ | Flags.ALLOW_REMOTE_WRITE,
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
