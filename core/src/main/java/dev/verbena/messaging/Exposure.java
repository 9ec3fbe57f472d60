package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.MemoryWindow;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * Memory of this side that the peer of a {@link MessageChannel} may read or write, by a remote key
 * (NDK: token) of its own. {@link OwnMemory#expose} makes it; its {@link #remoteMemory} goes into a
 * message to the peer.
 *
 * {@snippet file="dev/verbena/examples/FileClient.java" region="fetch"}
 *
 * <p><b>How it ends.</b> Once, in one of these ways; {@link #await}, {@link #returned} or the
 * {@link ExposureCallback} reports which:
 *
 * <ul>
 *   <li>The peer sends a message that takes the key back (send-and-invalidate: {@link
 *       PeerMemory#sendAndInvalidateAsync}, {@link PeerMemory#writeAndInvalidateAsync}). That
 *       message is the answer to this exposure: it is reported with the end, and goes neither to
 *       the handler nor to {@link MessageChannel#receive}.
 *   <li>This side revokes it, by {@link #revoke} or {@link #close}, or its time is over. The peer's
 *       channel is first asked to stop using the key: from then on it refuses requests that name
 *       the key, with ACCESS_VIOLATION, and its answer comes after the last one that it has posted.
 *       Then the key is invalidated here. If a message that takes the key back was on its way
 *       meanwhile, that is how the exposure ends. So no key is ever invalidated twice, and the
 *       channel stays open. A peer that does not answer within the {@linkplain
 *       MessagingOptions#withTimeout timeout} of the channel ends the channel.
 *   <li>The channel ends, for whatever reason.
 * </ul>
 *
 * <p><b>When the memory is safe.</b> Until the end is reported the peer may read and write it, also
 * after its time is over and after {@link #revoke}. After that it cannot, whatever it does. When
 * the channel ends, the end is reported after the queue pair was destroyed, up to 10 s later if the
 * peer is gone. The region may be closed at any time: its memory is freed after the end only.
 *
 * <p>May be used from the threads that may use the channel.
 */
public final class Exposure implements AutoCloseable {
    /** Where an exposure stands. */
    enum State {
        /** The peer may use it. */
        EXPOSED,
        /** The peer was asked to use it no more, and has not answered. */
        ASKED_BACK,
        /** The local invalidate is outstanding. */
        INVALIDATING,
        /** The peer can no longer use it. */
        ENDED
    }

    private final MessageChannel channel;
    private final @Nullable CompletableFuture<Message> future; // null for one with a callback
    private final @Nullable RemoteMemory memory; // of a future's, without the token

    // Guarded by the lock of the channel. An exposure with a callback is used again and again.
    private int claims; // calls of await and returned: the message is theirs
    private boolean closed;
    State state = State.ENDED;
    int use; // counts
    @Nullable MemoryWindow window;
    @Nullable ExposureCallback callback;
    @Nullable Object attachment;
    @Nullable Exposure next; // that may be used again, too
    @Nullable Message offeredFor; // the large message that the peer is to write here
    int token;
    Status why = Status.CANCELLED; // it was revoked
    int timeout; // ticks: its own, then the peer's to answer
    boolean timed; // whether that began, at a tick
    int expires; // the last tick in time

    /** With memory, it has a future; without, it is used again and again. */
    Exposure(MessageChannel channel, @Nullable RemoteMemory memory) {
        this.channel = channel;
        this.future = memory == null ? null : new CompletableFuture<>();
        this.memory = memory;
    }

    /** It is exposed from now on. The caller holds the lock. Needs no memory. */
    void begin(
            MemoryWindow bound,
            @Nullable ExposureCallback reported,
            @Nullable Object attached,
            int ticks) {
        state = State.EXPOSED;
        use++;
        window = bound;
        token = bound.remoteToken();
        callback = reported;
        attachment = attached;
        timeOut(ticks);
    }

    /** From the next tick on, it has so many ticks, or no limit: 0. The caller holds the lock. */
    void timeOut(int ticks) {
        timeout = ticks;
        timed = false;
    }

    /** At a tick: whether its time is over. The caller holds the lock. */
    boolean isLate(int now) {
        if (!timed) {
            timed = true;
            expires = now + timeout;
        }
        return timeout > 0 && now - expires > 0;
    }

    /** It has ended: reports it to the future, if there is one. Without the lock. */
    void complete(Status status, @Nullable Message message) {
        if (future == null) {
            return;
        }
        if (message != null) {
            future.complete(message);
        } else {
            future.completeExceptionally(
                    status == why && channel.isOpen()
                            ? new MessagingException(
                                    status,
                                    "%s %s; the memory may be used again"
                                            .formatted(
                                                    this,
                                                    status == Status.IO_TIMEOUT
                                                            ? "was not taken back by the peer in time, and was revoked"
                                                            : "was revoked"))
                            : channel.exception(status));
        }
    }

    /** Whether one object serves many exposures, one after the other. */
    boolean reusable() {
        return future == null;
    }

    /**
     * The memory, to be put into a message to the peer: its address, its remote key and its length.
     *
     * @return the description, which only the peer of this channel can use
     * @throws IllegalStateException for an exposure with a callback, if it ended
     */
    @CheckReturnValue
    public RemoteMemory remoteMemory() {
        try (var _ = channel.lock.hold()) {
            return memory == null
                    ? ensureWindow().remoteMemory()
                    : new RemoteMemory(memory.address(), token, memory.bytes());
        }
    }

    /**
     * Writes {@link #remoteMemory} into a message to the peer, as {@link RemoteMemory#writeTo}
     * does, and allocates nothing.
     *
     * @param message the message
     * @param offset where in it
     * @throws IllegalStateException when it has ended
     * @throws IndexOutOfBoundsException if the message is too short
     */
    public void writeTo(MemorySegment message, long offset) {
        try (var _ = channel.lock.hold()) {
            ensureWindow().writeTo(message, offset);
        }
    }

    private MemoryWindow ensureWindow() {
        MemoryWindow bound = window;
        if (bound == null) {
            throw new IllegalStateException(this + " has ended");
        }
        return bound;
    }

    /**
     * The channel that created it.
     *
     * @return the channel
     */
    @CheckReturnValue
    public MessageChannel channel() {
        return channel;
    }

    /**
     * What {@link OwnMemory#tryExpose} was given.
     *
     * @return null when it was given nothing
     */
    @CheckReturnValue
    public @Nullable Object attachment() {
        return attachment;
    }

    /**
     * Whether it ended: the peer can no longer access the memory by it.
     *
     * @return true from the end on
     */
    @CheckReturnValue
    public boolean hasEnded() {
        try (var _ = channel.lock.hold()) {
            return state == State.ENDED;
        }
    }

    /** Whether this use of the object has not ended. */
    boolean isIn(int use) {
        try (var _ = channel.lock.hold()) {
            return state != State.ENDED && this.use == use;
        }
    }

    /**
     * Waits for the message by which the peer takes the memory back. The wait ends by itself: at
     * the latest after the time that the exposure was given, the {@linkplain
     * MessagingOptions#withTimeout timeout} of the channel and, if that ends the channel, the 10 s
     * that the close of its queue pair may take. Not from a handler or callback.
     *
     * @return the message, to be released by the caller
     * @throws InterruptedException when the thread is interrupted while it waits; the exposure goes
     *     on
     * @throws MessagingException when it ended in another way: IO_TIMEOUT when its time was over,
     *     CANCELLED when it was revoked, or why the channel is closed
     */
    @CheckReturnValue
    public Message await() throws InterruptedException {
        channel.poller.checkMayWait();
        CompletableFuture<Message> end = future();
        changeClaims(1, false); // before the wait: a close meanwhile leaves it the message
        try {
            while (channel.poller.onPollingThread()
                    && !end.isDone()
                    && !Thread.currentThread().isInterrupted()) {
                int ignored = channel.poller.await(Duration.ofNanos(PollerClock.TICK_NANOSECONDS));
            }
            return end.get();
        } catch (InterruptedException | RuntimeException e) {
            changeClaims(-1, false);
            throw e;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof MessagingException why) {
                throw why.again();
            }
            throw new AssertionError(e); // nothing else completes it so
        }
    }

    /**
     * The asynchronous form of {@link #await}.
     *
     * @return a future of the message, to be released by the caller; it fails with the exceptions
     *     of {@link #await}, and is completed by the polling thread. Once it is cancelled or times
     *     out, the message is that of the next call of this method or {@link #await}; the exposure
     *     goes on
     */
    @CheckReturnValue
    public CompletableFuture<Message> returned() {
        CompletableFuture<Message> end = future();
        changeClaims(1, false);
        CompletableFuture<Message> copy = end.copy();
        channel.lock.whenFailed(copy, thrown -> changeClaims(-1, false));
        return copy;
    }

    /** After a close, a message that no caller claims is released. */
    private void changeClaims(int by, boolean closes) {
        boolean unclaimed;
        try (var _ = channel.lock.hold()) {
            claims += by;
            closed |= closes;
            unclaimed = closed && claims == 0;
        }
        if (unclaimed && future != null) {
            var _ = future.thenAccept(Message::release);
        }
    }

    private CompletableFuture<Message> future() {
        if (future == null) {
            throw new IllegalStateException(this + " has a callback, which gets the message");
        }
        return future;
    }

    /**
     * Revokes it, and returns at once; the end is reported later. Does nothing if it already ended.
     */
    public void revoke() {
        channel.exposures.revoke(this);
    }

    /**
     * Revokes it, and waits until it ends, so that the memory may be used again; an interrupt does
     * not shorten the wait. Does nothing if it already ended. A handler or callback may call it,
     * too: then it does not wait. If a message of the peer's took it back, and neither {@link
     * #await} nor {@link #returned} has handed that out, it is released.
     */
    @Override
    public void close() {
        channel.exposures.close(this);
        changeClaims(0, true);
    }

    @Override
    public String toString() {
        return "Exposure with token %s on %s".formatted(Text.key(token), channel);
    }
}
