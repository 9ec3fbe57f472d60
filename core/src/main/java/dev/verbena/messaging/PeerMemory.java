package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.BufferList;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.CompletableFuture;

/**
 * The memory that the peer of a {@link MessageChannel} exposes: this side writes it, reads it, and
 * takes it back. A {@link RemoteMemory} comes in a message of the peer's, made by {@link
 * Exposure#remoteMemory}.
 *
 * {@snippet file="dev/verbena/examples/FileServer.java" region="answer"}
 *
 * <p>Requests take part in what a channel does for messages: they are carried out in the order in
 * which they were posted (but may overtake a message above the eager limit that waits for the
 * peer's memory), have its {@linkplain MessagingOptions#withTimeout deadline} and its number of
 * {@linkplain MessagingOptions#withOutstanding outstanding} requests, and get the reason, once,
 * when it ends. Each comes in two forms: {@code try…} returns at once, with a callback, and
 * allocates nothing; {@code …Async} waits for room, and returns a future.
 *
 * <p><b>Memory that is gone.</b> Once a key (NDK: token) was taken back, or the peer has asked for
 * it, requests that name it are refused with ACCESS_VIOLATION, and nothing happens to the channel.
 * What was posted before is carried out: the peer waits for it. So no key is taken back twice. The
 * exception of the future says which of these it was.
 *
 * <p>The data of writes and reads is never copied: it is registered memory of the caller's, from
 * the {@linkplain Poller#domain poller's domain}. One request has at most {@link
 * dev.verbena.AdapterInfo#maxTransferBytes} bytes.
 *
 * <p>May be used from the threads that may use the channel, also from handlers and callbacks.
 */
public final class PeerMemory {
    private static final MemorySegment NOTHING = FrameSender.NOTHING;

    private final MessageChannel channel;
    private final RoomWait roomWait;

    PeerMemory(MessageChannel channel, RoomWait roomWait) {
        this.channel = channel;
        this.roomWait = roomWait;
    }

    /**
     * Writes into memory that the peer exposes, if there is room, and returns at once. The peer
     * does not notice. Nothing is copied, and nothing allocated.
     *
     * @param local what is written: registered memory of the poller's domain, which must not change
     *     until it completes. The list may be reused at once
     * @param remote where to: from the peer's message
     * @param offset where in it
     * @param callback called when it completes, if it was accepted; null for none
     * @param attachment what the callback gets
     * @return as {@link MessageChannel#trySend(MemorySegment)}; ACCESS_VIOLATION when the peer does
     *     not expose that memory on this channel, or has asked for it back; and what {@link
     *     QueuePair#write} refuses without effect
     */
    @CheckReturnValue
    public Status tryWrite(
            BufferList local,
            RemoteMemory remote,
            long offset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return access(RequestKind.WRITE, local, remote, offset, callback, attachment);
    }

    /**
     * Writes into memory that the peer exposes, when there is room: the start of it. Nothing is
     * copied.
     *
     * @param local what is written; neither the list nor the memory may change until the future is
     *     done
     * @param remote where to
     * @return a future as that of {@link MessageChannel#sendAsync(MemorySegment)}, which also fails
     *     with the statuses of {@link #tryWrite}
     */
    @CheckReturnValue
    public CompletableFuture<Void> writeAsync(BufferList local, RemoteMemory remote) {
        return roomWait.async(RequestKind.WRITE, NOTHING, local, remote);
    }

    /**
     * Reads memory that the peer exposes, if there is room, and returns at once. The peer does not
     * notice. Nothing is copied, and nothing allocated. Requests posted after it may overtake it,
     * except messages that take memory back.
     *
     * @param local where to: registered memory of the poller's domain with LOCAL_WRITE, which is
     *     the device's until it completes. The list may be reused at once
     * @param remote where from: from the peer's message
     * @param offset where in it
     * @param callback called when the bytes are here, if it was accepted; null for none
     * @param attachment what the callback gets
     * @return as {@link #tryWrite}
     */
    @CheckReturnValue
    public Status tryRead(
            BufferList local,
            RemoteMemory remote,
            long offset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return access(RequestKind.READ, local, remote, offset, callback, attachment);
    }

    /**
     * Reads memory that the peer exposes, when there is room: the start of it. Nothing is copied.
     *
     * @param local where to; neither the list nor the memory may be used until the future is done
     * @param remote where from
     * @return a future that is done when the bytes are here; it fails as that of {@link
     *     #writeAsync}
     */
    @CheckReturnValue
    public CompletableFuture<Void> readAsync(BufferList local, RemoteMemory remote) {
        return roomWait.async(RequestKind.READ, NOTHING, local, remote);
    }

    private Status access(
            RequestKind kind,
            BufferList local,
            RemoteMemory remote,
            long offset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return channel.outbox
                .submit(kind, NOTHING, 0, 0, local, remote, offset, callback, attachment)
                .status();
    }

    /**
     * Sends a message that takes back memory that the peer exposes (NDK: send and invalidate), if
     * there is room, and returns at once. The peer's {@link Exposure} gets the message. Allocates
     * nothing.
     *
     * @param data holds the message, which is copied
     * @param offset where it begins
     * @param length how long it is
     * @param taken the memory, or a part of it: this side cannot use any of it any more
     * @param callback called when it completes, if it was accepted; null for none
     * @param attachment what the callback gets
     * @return as {@link #tryWrite}; ACCESS_VIOLATION also when it was taken back before
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public Status trySendAndInvalidate(
            MemorySegment data,
            long offset,
            long length,
            RemoteMemory taken,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return channel.outbox
                .submit(
                        RequestKind.SEND_AND_INVALIDATE,
                        data,
                        offset,
                        length,
                        null,
                        taken,
                        0,
                        callback,
                        attachment)
                .status();
    }

    /**
     * Sends a message that takes back memory that the peer exposes, when there is room.
     *
     * @param data the message; it must not change until the future is done
     * @param taken the memory
     * @return a future as that of {@link #writeAsync}
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public CompletableFuture<Void> sendAndInvalidateAsync(MemorySegment data, RemoteMemory taken) {
        return roomWait.async(RequestKind.SEND_AND_INVALIDATE, data, null, taken);
    }

    /**
     * Writes into memory that the peer exposes, and sends a message that takes it back, both at
     * once, if there is room. The bytes are there when the peer gets the message. The bytes that
     * are written are not copied, and nothing is allocated.
     *
     * @param local what is written, as {@link #tryWrite}
     * @param remote where to; this side cannot use any of it any more
     * @param remoteOffset where in it
     * @param data holds the message, which is copied
     * @param offset where it begins
     * @param length how long it is
     * @param callback called when both are complete, if they were accepted; null for none
     * @param attachment what the callback gets
     * @return as {@link #trySendAndInvalidate}; either both are accepted or none
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public Status tryWriteAndInvalidate(
            BufferList local,
            RemoteMemory remote,
            long remoteOffset,
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return channel.outbox
                .submit(
                        RequestKind.WRITE_AND_INVALIDATE,
                        data,
                        offset,
                        length,
                        local,
                        remote,
                        remoteOffset,
                        callback,
                        attachment)
                .status();
    }

    /**
     * Writes into memory that the peer exposes, and sends a message that takes it back, when there
     * is room.
     *
     * @param local what is written, to the start of it, as {@link #writeAsync}
     * @param remote where to
     * @param data the message; it must not change until the future is done
     * @return a future as that of {@link #writeAsync}
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public CompletableFuture<Void> writeAndInvalidateAsync(
            BufferList local, RemoteMemory remote, MemorySegment data) {
        return roomWait.async(RequestKind.WRITE_AND_INVALIDATE, data, local, remote);
    }

    @Override
    public String toString() {
        return "Memory of the peer of " + channel;
    }

    /**
     * The longest message that takes memory back: the lower {@linkplain
     * MessagingOptions#withEagerLimit eager limit} of both sides.
     *
     * @return bytes
     */
    @CheckReturnValue
    public int maxMessage() {
        return channel.outbox.eagerLimit;
    }
}
