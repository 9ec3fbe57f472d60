package dev.verbena.messaging;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.BufferList;
import dev.verbena.ConnectionData;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A connection for protocols of others: a queue pair on a {@link Poller} with posted receives, a
 * callback for each request, deadlines, and one place that records why it ended; without the
 * framing and the credits of {@link MessageChannel}. How many messages a side may send is the
 * protocol's affair.
 *
 * <p><b>Connecting.</b> One side calls {@link #connect}, the other {@link #acceptAsync} for a
 * request that a {@link dev.verbena.Listener} brought. The private data of both sides is the
 * program's. A connection that could not be connected ends, and needs no cleanup.
 *
 * <p><b>Depth.</b> Each request counts until it completed, binds and invalidates too: a protocol
 * whose commands bind a window, send, and perhaps invalidate needs an initiator depth of three
 * times as many as commands are outstanding.
 *
 * <p><b>Requests</b> return as those of {@link QueuePair} do, and refuse in the same way. Those
 * that the provider refuses, with an errno, end the connection, too; a bind does not, which may
 * only lack memory for a new window. Those with SILENT_SUCCESS have no callback. Each of the others
 * has, once: when it has ended, or with the reason when the connection ends.
 *
 * <p><b>The end.</b> What the peer sent before it disconnected is delivered first, and what it had
 * acknowledged is reported as sent; then each other request has the reason.
 *
 * <p>May be used from any thread if its poller has one of its own, otherwise from the poller's
 * thread.
 */
public final class RawConnection extends PolledConnection<RawCallback> {
    private final RawHandler handler;
    private volatile boolean expectsMessage;
    private int messageTicks; // that the next message has; 0: its deadline is set; under the lock
    private int messageDeadline; // under the lock
    private boolean endReported; // of the polling thread

    private RawConnection(
            Poller poller,
            QueuePairLimits limits,
            @Nullable RawReceives shared,
            int receiveBytes,
            @Nullable Duration timeout,
            RawHandler handler) {
        Arguments.notNull(poller, "poller");
        Arguments.notNull(limits, "limits");
        if (timeout != null && !timeout.isPositive()) {
            throw new IllegalArgumentException(
                    "The timeout of requests must be longer than zero, or null for none, not "
                            + Text.time(timeout));
        }
        if (shared == null) {
            RawReceives.checkSize(limits.receiveDepth(), receiveBytes);
        } else {
            shared.checkPoller(poller);
        }
        this.handler = Arguments.notNull(handler, "handler");
        super(
                poller,
                limits,
                shared,
                receiveBytes,
                limits.initiatorDepth(),
                new RequestRing<>(
                        limits.initiatorDepth(),
                        timeout == null ? 0 : PollerClock.ticks(timeout),
                        0));
        try {
            start();
        } catch (Throwable t) {
            discard();
            throw t;
        }
    }

    /**
     * Creates a connection with receives of its own, and posts them.
     *
     * @param poller polls for it
     * @param limits of the queue pair; each of its receives is posted
     * @param receiveBytes how long each receive is, at least 1
     * @param timeout the deadline of each request, which ends the connection with IO_TIMEOUT;
     *     looked at every 100 ms; null for none
     * @param handler receives the messages, and the end
     * @return the connection, to be closed by the caller
     * @throws VerbenaException as {@link dev.verbena.ProtectionDomain#createQueuePair} does
     */
    @CheckReturnValue
    public static RawConnection create(
            Poller poller,
            QueuePairLimits limits,
            int receiveBytes,
            @Nullable Duration timeout,
            RawHandler handler) {
        return new RawConnection(poller, limits, null, receiveBytes, timeout, handler);
    }

    /**
     * Creates a connection that takes its receives from a shared pool.
     *
     * @param poller polls for it, and for all others of the pool
     * @param limits of the queue pair; its receives do not count
     * @param receives the pool, of the same poller
     * @param timeout as {@link #create(Poller, QueuePairLimits, int, Duration, RawHandler)}
     * @param handler receives the messages, and the end
     * @return the connection, to be closed by the caller
     * @throws VerbenaException as {@link dev.verbena.ProtectionDomain#createQueuePair} does
     */
    @CheckReturnValue
    public static RawConnection create(
            Poller poller,
            QueuePairLimits limits,
            RawReceives receives,
            @Nullable Duration timeout,
            RawHandler handler) {
        return new RawConnection(
                poller, limits, Arguments.notNull(receives, "receives"), 0, timeout, handler);
    }

    /**
     * Connects to a peer, and waits until requests may be posted. If that fails, the connection
     * ends.
     *
     * @param peer the address that the peer listens on
     * @param options deadline, private data, local address, path
     * @throws VerbenaException as {@link Connector#connect(QueuePair, InetSocketAddress,
     *     ConnectionOptions)} and {@link Connector#completeConnect(ConnectionOptions)} do; after
     *     CONNECTION_REFUSED by the peer's program, {@link #connectionData} has its private data
     * @throws IllegalStateException in a handler or callback, or if it was called before
     */
    public void connect(InetSocketAddress peer, ConnectionOptions options) {
        connect(peer, options, accepted -> {});
    }

    /**
     * Connects to a peer whose answer the program checks first.
     *
     * @param peer the address that the peer listens on
     * @param options deadline, private data, local address, path
     * @param check gets what the peer has accepted with, before anything can be posted; to refuse
     *     it, it throws, which this call then does, too
     * @throws VerbenaException as {@link #connect(InetSocketAddress, ConnectionOptions)}
     * @throws IllegalStateException in a handler or callback, or if it was called before
     */
    public void connect(
            InetSocketAddress peer,
            ConnectionOptions options,
            Consumer<? super ConnectionData> check) {
        Arguments.notNull(check, "check");
        checkNotConnected();
        connectAndWait(
                peer,
                options,
                accepted -> {
                    connectionData = accepted;
                    check.accept(accepted);
                });
    }

    /**
     * Accepts a peer's request. Does not wait: the peer's first messages may come before the future
     * is done, and requests may be posted when it is. If that fails, the connection ends.
     *
     * @param request of a {@link dev.verbena.Listener}; the connection closes it
     * @param options deadline, private data and path
     * @return done when the peer has completed the connection; fails as {@link
     *     Connector#acceptAsync} does
     * @throws IllegalStateException if it was connected before
     */
    @CanIgnoreReturnValue
    public CompletableFuture<Void> acceptAsync(Connector request, ConnectionOptions options) {
        checkNotConnected();
        CompletableFuture<Void> accepted;
        try {
            connectionData = request.connectionData();
            open(request);
            accepted = request.acceptAsync(pair, options);
        } catch (VerbenaException | IllegalStateException e) { // not answered in time, or closed
            accepted = CompletableFuture.failedFuture(e);
        } catch (Throwable t) {
            notConnected(null, t);
            throw t;
        }
        return accepted.whenComplete(
                (nothing, thrown) -> {
                    if (thrown != null) {
                        notConnected(null, thrown);
                    }
                });
    }

    private void checkNotConnected() {
        if (connector().isPresent()) {
            throw new IllegalStateException(
                    this + " is connected or connecting already. Create another RawConnection");
        }
    }

    /**
     * The peer's private data and parameters: from the request that {@link #acceptAsync} was given,
     * or from the peer's answer to {@link #connect}, also if that was a refusal (without private
     * data if no program listens).
     *
     * @return empty before that, and if there was no answer
     */
    @CheckReturnValue
    public Optional<ConnectionData> connectionData() {
        return Optional.ofNullable(connectionData);
    }

    /**
     * Sets a deadline for the next message, whichever it is: if none comes in time, the connection
     * ends with IO_TIMEOUT. For a peer that received a request, and does not answer. Without it, a
     * connection waits for messages without limit.
     *
     * @param timeout how long from now, positive; looked at every 100 ms; replaces that of an
     *     earlier call
     */
    public void expectMessageWithin(Duration timeout) {
        Arguments.checkPositive(timeout, "The deadline of a message");
        try (var _ = lock.hold()) {
            messageTicks = PollerClock.ticks(timeout);
            expectsMessage = true;
        }
    }

    // ---- requests

    /** No room for one more callback: completions were polled, and not all dispatched yet. */
    private boolean isFull(OpFlags flags) {
        return requests.isFull() && !flags.contains(OpFlags.SILENT_SUCCESS);
    }

    /** A request was posted, or refused. The caller holds the lock. */
    private PostResult began(
            PostResult result,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        if (result.isAccepted()) {
            if (!flags.contains(OpFlags.SILENT_SUCCESS)) {
                requests.posted(callback, attachment);
            }
        } else if (result.errno() != 0) {
            reason.refused("a request", result.status());
        }
        return result;
    }

    /**
     * Sends a message (NdkSend).
     *
     * @param buffers the bytes
     * @param flags as those of {@link QueuePair#send}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#send}
     */
    public PostResult send(
            BufferList buffers,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags) ? PostResult.FULL : pair.send(requests.next(), buffers, flags);
            return began(result, flags, callback, attachment);
        }
    }

    /**
     * Sends a message whose arrival invalidates a token of the peer (NdkSendAndInvalidate).
     *
     * @param buffers the bytes
     * @param remoteToken the token (remote key), as the peer handed it out
     * @param flags as those of {@link QueuePair#sendAndInvalidate}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#sendAndInvalidate}
     */
    public PostResult sendAndInvalidate(
            BufferList buffers,
            int remoteToken,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags)
                            ? PostResult.FULL
                            : pair.sendAndInvalidate(requests.next(), buffers, remoteToken, flags);
            return began(result, flags, callback, attachment);
        }
    }

    /**
     * Writes into the peer's memory (NdkWrite).
     *
     * @param buffers the bytes
     * @param remoteAddress the peer's memory
     * @param remoteToken the peer's token (remote key) for it
     * @param flags as those of {@link QueuePair#write}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#write}
     */
    public PostResult write(
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags)
                            ? PostResult.FULL
                            : pair.write(
                                    requests.next(), buffers, remoteAddress, remoteToken, flags);
            return began(result, flags, callback, attachment);
        }
    }

    /**
     * Reads from the peer's memory (NdkRead).
     *
     * @param buffers where the bytes go
     * @param remoteAddress the peer's memory
     * @param remoteToken the peer's token (remote key) for it
     * @param flags as those of {@link QueuePair#read}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#read}
     */
    public PostResult read(
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags)
                            ? PostResult.FULL
                            : pair.read(
                                    requests.next(), buffers, remoteAddress, remoteToken, flags);
            return began(result, flags, callback, attachment);
        }
    }

    /**
     * Gives a window's next token to a part of a region (NdkBind).
     *
     * @param window not bound
     * @param region of the same domain
     * @param offset where it starts in the region
     * @param length how long it is
     * @param flags as those of {@link QueuePair#bind}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#bind}
     */
    public PostResult bind(
            MemoryWindow window,
            MemoryRegion region,
            long offset,
            long length,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags)
                            ? PostResult.FULL
                            : pair.bind(requests.next(), window, region, offset, length, flags);
            // A refused bind, which may only lack memory for a new window, does not end the
            // connection.
            return result.isAccepted() ? began(result, flags, callback, attachment) : result;
        }
    }

    /**
     * Invalidates the token of a window of this side (NdkInvalidate).
     *
     * @param window bound by this connection
     * @param flags as those of {@link QueuePair#invalidate}
     * @param callback called when it completes; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#invalidate}
     */
    public PostResult invalidate(
            MemoryWindow window,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        try (var _ = lock.hold()) {
            PostResult result =
                    isFull(flags)
                            ? PostResult.FULL
                            : pair.invalidate(requests.next(), window, flags);
            return began(result, flags, callback, attachment);
        }
    }

    // ---- by the polling thread

    @Override
    void received(RawMessage message) {
        if (expectsMessage) {
            expectsMessage = false;
        }
        try {
            handler.received(this, message);
        } catch (Throwable t) {
            failedInProgram("its handler", t);
        }
    }

    @Override
    void requestEnded(int slot) {
        // The ring has room again; nobody waits for it.
    }

    @Override
    void call(RawCallback callback, @Nullable Object attachment, Status status) {
        callback.ended(this, attachment, status);
    }

    @Override
    @Nullable String late(int now) {
        if (requests.isLate(now)) {
            return "a request did not complete before its deadline";
        }
        return isMessageLate(now)
                ? "the peer did not send the message that was expected before its deadline"
                : null;
    }

    @Override
    boolean awaits() {
        return requests.oldest() >= 0 || expectsMessage;
    }

    /** As for requests, the time begins at the first tick. */
    private boolean isMessageLate(int now) {
        if (messageTicks > 0) {
            messageDeadline = now + messageTicks;
            messageTicks = 0;
        }
        return expectsMessage && now - messageDeadline > 0;
    }

    // ---- the end

    @Override
    boolean ended(MessagingException why) {
        if (!endReported) {
            endReported = true;
            try {
                handler.ended(this, why);
            } catch (Throwable t) {
                Uncaught.report(
                        "The handler of %s threw when it was told of the end".formatted(this), t);
            }
        }
        receives.release();
        return true;
    }

    /**
     * Lets outstanding requests complete, for at most 5 s, then disconnects the peer and ends the
     * connection. Does not wait: see {@link #closed()}, which completes when {@link
     * RawHandler#ended} has returned.
     */
    @Override
    public void close() {
        beginClose(ConnectionOptions.DEFAULTS);
    }

    @Override
    String describe() {
        return "RawConnection over " + pair;
    }
}
