package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.Operation;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

/**
 * The requests of a send queue (NDK: initiator queue; verbs: {@code ibv_send_wr}): a {@link
 * QueuePair} posts each at once, a {@link RequestBatch} records them, to be posted together. Binds
 * and invalidates are posted to the queue pair only.
 *
 * <p><b>The peer's memory</b> is named by a {@link RemoteMemory} and an offset in it, which are
 * checked, or by an address and a token (remote key) as the program's own protocol brings them,
 * which the peer's device checks.
 *
 * <p><b>What they return.</b> {@link PostResult#ACCEPTED}: the queue pair has accepted the request,
 * or the batch has recorded it. Any other result is a refusal, and the request has no effect:
 *
 * <table>
 *   <caption>Refusals</caption>
 *   <tr><th>status</th><th>reason</th></tr>
 *   <tr><td>CONNECTION_INVALID</td><td>the queue pair is not connected, flushed or closed; a batch is refused when it is posted</td></tr>
 *   <tr><td>NO_MORE_ENTRIES</td><td>the queue is full of outstanding requests, or the batch is full</td></tr>
 *   <tr><td>INVALID_PARAMETER</td><td>flags that the operation does not support, too many buffers or too many bytes, also beyond the end of a {@link RemoteMemory}</td></tr>
 *   <tr><td>INVALID_PARAMETER_MIX</td><td>buffers of another protection domain</td></tr>
 *   <tr><td>ACCESS_VIOLATION</td><td>memory that is not registered, whose arena is closed or, inline, that is confined to another thread</td></tr>
 *   <tr><td>NOT_SUPPORTED</td><td>this device or the peer does not support it: see the methods; if it is the peer, a batch is refused when it is posted</td></tr>
 *   <tr><td>another</td><td>the provider's error</td></tr>
 * </table>
 *
 * <p>{@link PostResult#reason} tells the reasons apart, and {@link PostResult#orThrow} throws an
 * exception with it.
 *
 * <p><b>Flags.</b> A batch posts its requests together, so DEFER has no effect there.
 */
@CheckReturnValue
public sealed interface SendRequests permits QueuePair, RequestBatch {
    // ---- NDK's requests

    /**
     * Sends a message (NdkSend), which fills the next receive of the peer. Ends in a completion of
     * type {@link OperationType#SEND} on {@link QueuePair#initiatorCompletions}.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes; an empty list sends an empty message
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, SEND_AND_SOLICIT_EVENT, INLINE,
     *     DEFER
     * @return {@link PostResult#ACCEPTED}, or a refusal: see above
     */
    default PostResult send(long context, BufferList buffers, OpFlags flags) {
        return post(Operation.SEND, context, buffers, 0, 0, 0, 0, flags);
    }

    /**
     * Sends a message with no flags.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes; an empty list sends an empty message
     * @return {@link PostResult#ACCEPTED}, or a refusal: see above
     */
    default PostResult send(long context, BufferList buffers) {
        return send(context, buffers, OpFlags.NONE);
    }

    /**
     * Sends a message whose arrival invalidates a token (remote key) of the peer's
     * (NdkSendAndInvalidate). When the peer's receive completes, with {@link
     * OperationType#RECEIVE_AND_INVALIDATE}, no access through the token is possible any more. Ends
     * in a completion of type {@link OperationType#SEND} here.
     *
     * <p>If the token is not valid, the peer's device ends the connection: this request may still
     * end in SUCCESS, and the next one fails. Never send a token twice: a peer with Soft-RoCE
     * panics then (kernels up to 6.12).
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes
     * @param remoteToken the token, as the peer handed it out
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, SEND_AND_SOLICIT_EVENT, INLINE,
     *     DEFER
     * @return {@link PostResult#ACCEPTED}, or a refusal; NOT_SUPPORTED when this device does not
     *     support it, or the peer did not announce tokens that can be invalidated ({@link
     *     QueuePairAddress#invalidatable})
     */
    default PostResult sendAndInvalidate(
            long context, BufferList buffers, int remoteToken, OpFlags flags) {
        return post(Operation.SEND_AND_INVALIDATE, context, buffers, 0, remoteToken, 0, 0, flags);
    }

    /**
     * Writes into the peer's memory (NdkWrite). The peer gets no completion. Ends in a completion
     * of type {@link OperationType#WRITE}.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param remoteAddress where they go: the address that the peer handed out, plus an offset
     * @param remoteToken the peer's token for that memory
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, INLINE, DEFER
     * @return {@link PostResult#ACCEPTED}, or a refusal: see above
     */
    default PostResult write(
            long context, BufferList buffers, long remoteAddress, int remoteToken, OpFlags flags) {
        return post(Operation.WRITE, context, buffers, remoteAddress, remoteToken, 0, 0, flags);
    }

    /**
     * Writes into the peer's memory (NdkWrite), as {@link #write(long, BufferList, long, int,
     * OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param target the peer's memory
     * @param offset where in it they go
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, INLINE, DEFER
     * @return {@link PostResult#ACCEPTED}, or a refusal: see above
     */
    default PostResult write(
            long context, BufferList buffers, RemoteMemory target, long offset, OpFlags flags) {
        return isWithin(buffers, target, offset)
                ? write(context, buffers, target.address() + offset, target.token(), flags)
                : refuse(Operation.WRITE);
    }

    /**
     * Reads from the peer's memory (NdkRead). The peer gets no completion. Ends in a completion of
     * type {@link OperationType#READ}: the bytes have arrived then.
     *
     * @param context what the completion will carry
     * @param buffers where the bytes go; at most {@link AdapterInfo#maxReadBuffers}
     * @param remoteAddress where they come from: the address that the peer handed out, plus an
     *     offset
     * @param remoteToken the peer's token for that memory
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER, and
     *     RDMA_READ_LOCAL_INVALIDATE without effect
     * @return {@link PostResult#ACCEPTED}, or a refusal; ACCESS_VIOLATION also for memory that may
     *     not be written to, NOT_SUPPORTED when the peer serves no reads or the limits of this
     *     queue pair allow none
     */
    default PostResult read(
            long context, BufferList buffers, long remoteAddress, int remoteToken, OpFlags flags) {
        return post(Operation.READ, context, buffers, remoteAddress, remoteToken, 0, 0, flags);
    }

    /**
     * Reads from the peer's memory (NdkRead), as {@link #read(long, BufferList, long, int,
     * OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers where the bytes go; at most {@link AdapterInfo#maxReadBuffers}
     * @param source the peer's memory
     * @param offset where in it they are
     * @param flags as {@link #read(long, BufferList, long, int, OpFlags)}
     * @return as that method
     */
    default PostResult read(
            long context, BufferList buffers, RemoteMemory source, long offset, OpFlags flags) {
        return isWithin(buffers, source, offset)
                ? read(context, buffers, source.address() + offset, source.token(), flags)
                : refuse(Operation.READ);
    }

    // ---- what verbs has beyond NDK

    /**
     * Beyond NDK: sends a message with 32 bits of immediate data, which the completion of the
     * peer's receive carries ({@link Completions#immediate}).
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes
     * @param immediate the 32 bits; a peer in C sees {@code ntohl(wc.imm_data)}
     * @param flags as {@link #send(long, BufferList, OpFlags)}
     * @return {@link PostResult#ACCEPTED}, or a refusal; NOT_SUPPORTED when the device does not
     *     support it
     */
    default PostResult sendWithImmediate(
            long context, BufferList buffers, int immediate, OpFlags flags) {
        return post(Operation.SEND_WITH_IMMEDIATE, context, buffers, 0, 0, immediate, 0, flags);
    }

    /**
     * Beyond NDK: writes into the peer's memory and notifies the peer: its next receive completes,
     * with type {@link OperationType#RECEIVE_OF_WRITE} and 32 bits of immediate data, and with its
     * buffers unchanged.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param remoteAddress where they go: the address that the peer handed out, plus an offset
     * @param remoteToken the peer's token for that memory
     * @param immediate the 32 bits; a peer in C sees {@code ntohl(wc.imm_data)}
     * @param flags as {@link #send(long, BufferList, OpFlags)}
     * @return {@link PostResult#ACCEPTED}, or a refusal; NOT_SUPPORTED when the device does not
     *     support it
     */
    default PostResult writeWithImmediate(
            long context,
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            int immediate,
            OpFlags flags) {
        return post(
                Operation.WRITE_WITH_IMMEDIATE,
                context,
                buffers,
                remoteAddress,
                remoteToken,
                immediate,
                0,
                flags);
    }

    /**
     * Beyond NDK: writes and notifies the peer, as {@link #writeWithImmediate(long, BufferList,
     * long, int, int, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param target the peer's memory
     * @param offset where in it they go
     * @param immediate the 32 bits
     * @param flags as {@link #send(long, BufferList, OpFlags)}
     * @return as that method
     */
    default PostResult writeWithImmediate(
            long context,
            BufferList buffers,
            RemoteMemory target,
            long offset,
            int immediate,
            OpFlags flags) {
        return isWithin(buffers, target, offset)
                ? writeWithImmediate(
                        context,
                        buffers,
                        target.address() + offset,
                        target.token(),
                        immediate,
                        flags)
                : refuse(Operation.WRITE_WITH_IMMEDIATE);
    }

    /**
     * Beyond NDK: compares 64 bits of the peer's memory and, if they have the expected value,
     * replaces them. Atomic with respect to other atomics of the peer's device ({@link
     * AdapterInfo#atomicsLevel}). Ends in a completion of type {@link
     * OperationType#COMPARE_AND_SWAP}; the buffer then has the previous value, as a long in this
     * machine's byte order.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param remoteAddress where at the peer, a multiple of 8
     * @param remoteToken the peer's token for that memory: registered with REMOTE_READ and
     *     REMOTE_WRITE
     * @param expected what is compared with
     * @param value what is put there
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as {@link #read(long, BufferList, long, int, OpFlags)}; NOT_SUPPORTED also when the
     *     device has no atomics, INVALID_PARAMETER also for another buffer or address
     */
    default PostResult compareAndSwap(
            long context,
            BufferList result,
            long remoteAddress,
            int remoteToken,
            long expected,
            long value,
            OpFlags flags) {
        return post(
                Operation.COMPARE_AND_SWAP,
                context,
                result,
                remoteAddress,
                remoteToken,
                expected,
                value,
                flags);
    }

    /**
     * Beyond NDK: compares and swaps, as {@link #compareAndSwap(long, BufferList, long, int, long,
     * long, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param target the peer's memory
     * @param offset where in it; the address is a multiple of 8
     * @param expected what is compared with
     * @param value what is put there
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as that method
     */
    default PostResult compareAndSwap(
            long context,
            BufferList result,
            RemoteMemory target,
            long offset,
            long expected,
            long value,
            OpFlags flags) {
        return isWithin(result, target, offset)
                ? compareAndSwap(
                        context,
                        result,
                        target.address() + offset,
                        target.token(),
                        expected,
                        value,
                        flags)
                : refuse(Operation.COMPARE_AND_SWAP);
    }

    /**
     * Beyond NDK: adds to 64 bits of the peer's memory. Atomic with respect to other atomics of the
     * peer's device ({@link AdapterInfo#atomicsLevel}). Ends in a completion of type {@link
     * OperationType#FETCH_AND_ADD}; the buffer then has the previous value, as a long in this
     * machine's byte order.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param remoteAddress where at the peer, a multiple of 8
     * @param remoteToken the peer's token for that memory: registered with REMOTE_READ and
     *     REMOTE_WRITE
     * @param added what is added
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as {@link #compareAndSwap(long, BufferList, long, int, long, long, OpFlags)}
     */
    default PostResult fetchAndAdd(
            long context,
            BufferList result,
            long remoteAddress,
            int remoteToken,
            long added,
            OpFlags flags) {
        return post(
                Operation.FETCH_AND_ADD,
                context,
                result,
                remoteAddress,
                remoteToken,
                added,
                0,
                flags);
    }

    /**
     * Beyond NDK: adds, as {@link #fetchAndAdd(long, BufferList, long, int, long, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param target the peer's memory
     * @param offset where in it; the address is a multiple of 8
     * @param added what is added
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as that method
     */
    default PostResult fetchAndAdd(
            long context,
            BufferList result,
            RemoteMemory target,
            long offset,
            long added,
            OpFlags flags) {
        return isWithin(result, target, offset)
                ? fetchAndAdd(
                        context, result, target.address() + offset, target.token(), added, flags)
                : refuse(Operation.FETCH_AND_ADD);
    }

    // ---- where they go

    /** The queue pair that posts or counts the requests. */
    private QueuePair queuePair() {
        return this instanceof RequestBatch batch ? batch.queuePair : (QueuePair) this;
    }

    private PostResult post(
            Operation operation,
            long context,
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            long operand,
            long swap,
            OpFlags flags) {
        checkPresent(buffers, "buffers");
        checkPresent(flags, "flags");
        // A constant for the JIT where the caller's flags are one.
        int bits = flags == OpFlags.NONE ? 0 : flags.bits;
        QueuePair queuePair = queuePair();
        return queuePair.answer(
                operation.name(),
                this instanceof RequestBatch recorded
                        ? recorded.batch.add(
                                operation,
                                context,
                                buffers.buffers,
                                remoteAddress,
                                remoteToken,
                                operand,
                                swap,
                                bits)
                        : queuePair.sends.post(
                                operation,
                                context,
                                buffers.buffers,
                                remoteAddress,
                                remoteToken,
                                operand,
                                swap,
                                bits));
    }

    /** Throws for a missing argument, after what was deferred before was posted. */
    private void checkPresent(@Nullable Object argument, String name) {
        if (argument == null) {
            if (this instanceof QueuePair queuePair) {
                queuePair.sends.postDeferred();
            }
            Arguments.notNull(argument, name);
        }
    }

    /** Whether all bytes of the buffers are within the memory, counted from the offset. */
    private boolean isWithin(BufferList buffers, RemoteMemory memory, long offset) {
        checkPresent(memory, "memory");
        checkPresent(buffers, "buffers");
        return memory.holds(offset, buffers.bytes());
    }

    private PostResult refuse(Operation operation) {
        PostResult outside = PostResult.OUTSIDE_REMOTE_MEMORY;
        return queuePair()
                .answer(
                        operation.name(),
                        this instanceof QueuePair queuePair
                                ? queuePair.sends.refuseOutside(outside)
                                : outside);
    }
}
