package dev.verbena;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.Batch;
import dev.verbena.internal.queue.Operation;
import dev.verbena.internal.util.Arguments;

/**
 * Requests of one queue pair that are recorded once, and then posted together by one call of {@code
 * ibv_post_send}, as often as needed. Costs less than posting them one by one, or with {@link
 * OpFlags#DEFER}: each request is checked and written when it is recorded, and a post does only
 * what differs each time. (NDK has no such call; it has DEFER.)
 *
 * {@snippet file="dev/verbena/examples/Batches.java" region="batch"}
 *
 * <p><b>Recording</b> is by the methods of {@link SendRequests}, which say what is refused; a
 * request that was refused is not part of the batch. What depends on the connection is checked by
 * the post. Buffers of {@link OpFlags#INLINE} requests are copied when they are recorded, for all
 * later posts; other buffers belong to the device from each post until the completion, and a {@link
 * BufferList} may be changed as soon as the request is recorded. DEFER has no effect here. Binds
 * and invalidates, whose tokens differ each time, are posted to the queue pair itself, before the
 * batch; a bind with DEFER goes out right before it.
 *
 * <p><b>Posting</b> is all or nothing. {@link #post} returns ACCEPTED, and each request ends in its
 * own completion; or something else, and none of them has any effect. They keep their order, and
 * come after what was posted and deferred before. If the provider refuses one after it has taken
 * others, the post has returned ACCEPTED all the same: the refused one ends in INTERNAL_ERROR,
 * those after it in CANCELLED, and the queue pair is not {@linkplain QueuePair#connected connected}
 * any more, as with deferred requests.
 *
 * <p><b>Posting again.</b> A batch stays as it is: post it again, also before its completions have
 * come, as long as the queue has room. What differs from post to post is replaced before: the
 * {@linkplain #context context}, the {@linkplain #buffers buffers}, the {@linkplain #remote memory
 * of the peer} or the {@linkplain #remoteToken token} that a request names; nothing else is written
 * or checked again. {@link #clear} starts over. The batch's memory is freed with the object.
 *
 * {@snippet file="dev/verbena/examples/Batches.java" region="again"}
 *
 * <p>For one thread at a time; with confined completion queues, only their owner thread may call
 * {@link #post}. Only the constructor allocates, and the first post of a queue pair.
 */
@CheckReturnValue
public final class RequestBatch implements SendRequests {
    final QueuePair queuePair;
    final Batch batch; // where SendRequests records
    private final int capacity;

    /**
     * Creates an empty batch.
     *
     * @param queuePair where its requests are posted; not closed
     * @param capacity how many requests it holds, from 1 to the {@linkplain
     *     QueuePairLimits#initiatorDepth depth} of the queue
     * @throws IllegalArgumentException for another capacity
     */
    public RequestBatch(QueuePair queuePair, int capacity) {
        int depth = Arguments.notNull(queuePair, "queuePair").limits().initiatorDepth();
        if (capacity < 1 || capacity > depth) {
            throw new IllegalArgumentException(
                    "A batch of %s holds 1 to %d requests, as its queue does, not %d"
                            .formatted(queuePair, depth, capacity));
        }
        this.queuePair = queuePair;
        this.capacity = capacity;
        this.batch =
                new Batch(
                        queuePair.handle().sends(),
                        queuePair.domain().adapter().device().provider(),
                        capacity);
    }

    /**
     * Forgets all requests.
     *
     * @return this batch
     */
    @CanIgnoreReturnValue
    public RequestBatch clear() {
        batch.clear();
        return this;
    }

    /**
     * How many requests are recorded.
     *
     * @return 0 to {@link #capacity}
     */
    public int size() {
        return batch.size();
    }

    /**
     * How many requests it holds.
     *
     * @return 1 or more
     */
    public int capacity() {
        return capacity;
    }

    /**
     * Posts all requests that are recorded, in order, by one call ({@code ibv_post_send}). An empty
     * batch posts what was deferred before, and nothing else.
     *
     * @return {@link PostResult#ACCEPTED}; or, with no effect of any of them, a refusal with the
     *     status CONNECTION_INVALID when not connected, flushed or closed, NO_MORE_ENTRIES when the
     *     queue has no room for all of them, NOT_SUPPORTED when one needs what the peer did not
     *     announce, ACCESS_VIOLATION when an arena of their buffers was closed, or the status for
     *     the provider's error
     * @throws WrongThreadException when the queue pair is confined to another thread
     */
    public PostResult post() {
        return queuePair.answer("the post of a batch", batch.post());
    }

    /**
     * Replaces the context of a recorded request, for later posts.
     *
     * @param index which request: 0 is the one that was recorded first
     * @param context what the completion will carry
     * @return this batch
     * @throws IndexOutOfBoundsException when there is no such request
     */
    @CanIgnoreReturnValue
    public RequestBatch context(int index, long context) {
        batch.context(index, context);
        return this;
    }

    /**
     * Replaces the buffers of a recorded request, for posts to come: all of them, so addresses,
     * number and lengths may differ. Of an {@link OpFlags#INLINE} request the bytes are copied now.
     *
     * @param index which request: 0 is the one that was recorded first
     * @param buffers the new list, which may be changed after this
     * @return {@link PostResult#ACCEPTED}, or as the method that recorded it returns; then the
     *     request is unchanged, except that an inline request may have some of the new bytes if not
     *     all of them could be read
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public PostResult buffers(int index, BufferList buffers) {
        return queuePair.answer("buffers", batch.buffers(index, buffers.buffers));
    }

    /**
     * Replaces the peer's memory of a recorded write, read or atomic operation, for posts to come.
     *
     * @param index which request: 0 is the one that was recorded first
     * @param memory the peer's memory
     * @param offset where in it
     * @return {@link PostResult#ACCEPTED}, or a refusal with the status INVALID_PARAMETER when the
     *     request's buffers are longer than what is there (longer buffers that come later are not
     *     compared again), or the address of an atomic operation is no multiple of 8; then the
     *     request is as it was
     * @throws IllegalArgumentException when the request is a send, which names no such memory
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public PostResult remote(int index, RemoteMemory memory, long offset) {
        if (!memory.holds(offset, batch.length(index))) {
            return queuePair.answer("remote", PostResult.OUTSIDE_REMOTE_MEMORY);
        }
        return queuePair.answer(
                "remote", setRemote(index, memory.address() + offset, memory.token()));
    }

    /**
     * Replaces the peer's memory of a recorded write, read or atomic operation, for posts to come.
     *
     * @param index which request: 0 is the one that was recorded first
     * @param remoteAddress where at the peer
     * @param remoteToken the peer's token for that memory
     * @return this batch
     * @throws IllegalArgumentException when the request is a send, which names no such memory, or
     *     an atomic operation and the address no multiple of 8
     * @throws IndexOutOfBoundsException when there is no such request
     */
    @CanIgnoreReturnValue
    public RequestBatch remote(int index, long remoteAddress, int remoteToken) {
        PostResult refusal = setRemote(index, remoteAddress, remoteToken);
        if (refusal != PostResult.ACCEPTED) {
            throw wrongKind(
                    index,
                    batch.operation(index),
                    "takes an address that is a multiple of 8, not 0x%x".formatted(remoteAddress));
        }
        return this;
    }

    private PostResult setRemote(int index, long remoteAddress, int remoteToken) {
        Operation operation = batch.operation(index);
        if (!operation.namesRemoteMemory()) {
            throw wrongKind(index, operation, "names no memory of the peer");
        }
        return batch.remote(index, remoteAddress, remoteToken);
    }

    /**
     * Replaces the token that a recorded send and invalidate takes back, for posts to come.
     *
     * @param index which request: 0 is the one that was recorded first
     * @param remoteToken the peer's token
     * @return this batch
     * @throws IllegalArgumentException when the request is of another kind
     * @throws IndexOutOfBoundsException when there is no such request
     */
    @CanIgnoreReturnValue
    public RequestBatch remoteToken(int index, int remoteToken) {
        Operation operation = batch.operation(index);
        if (!operation.invalidatesAtPeer()) {
            throw wrongKind(index, operation, "invalidates no token");
        }
        var _ = batch.remote(index, 0, remoteToken); // takes any
        return this;
    }

    private static IllegalArgumentException wrongKind(int index, Operation operation, String why) {
        return new IllegalArgumentException(
                "Request %d of the batch is a %s, which %s"
                        .formatted(index, operation.name(), why));
    }

    @Override
    public String toString() {
        return "%d of %d requests of %s".formatted(size(), capacity, queuePair);
    }
}
