package dev.verbena.messaging;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.BufferList;
import dev.verbena.Completions;
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

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * A connection for protocols of others: a queue pair on a {@link Poller} with posted receives, a
 * callback for each request, deadlines, and one place that says why it ended; without the framing
 * and the credits of {@link MessageChannel}. How many messages a side may send is the protocol's
 * affair.
 *
 * <p><b>Connecting.</b> One side calls {@link #connect}, the other {@link #accept} for a request
 * that a {@link dev.verbena.Listener} brought. The private data of both sides is the program's. A
 * channel that could not be connected ends, and needs no cleanup.
 *
 * <p><b>Depth.</b> Each request counts until it completed, binds and invalidates too: a protocol
 * whose commands bind a window, send, and perhaps invalidate needs an initiator depth of three
 * times as many as commands are outstanding.
 *
 * <p><b>Requests</b> return as those of {@link QueuePair} do, and refuse in the same way. Those
 * that the provider refuses, with an errno, end the channel, too; a bind does not, which may only
 * lack memory for a new window. Those with SILENT_SUCCESS have no callback. Each of the others has,
 * once: when it has ended, or with the reason when the channel ends.
 *
 * <p><b>The end.</b> What the peer sent before it disconnected is delivered first, and what it had
 * acknowledged is reported as sent; then each other request has the reason.
 *
 * <p>May be used from any thread if its poller has one of its own, otherwise from the poller's
 * thread.
 */
public final class RawConnection extends Polled implements AutoCloseable {
    private final Poller poller;
    private final RawHandler handler;
    private final PollerQueue queue;
    private final int completions; // of the queue, that are reserved for this channel
    private final RawReceives receives;
    private final QueuePair pair;
    private final int timeoutTicks; // 0: none
    private final RawRequests requests;
    private final ReentrantLock lock = new ReentrantLock(); // of the requests, and the end
    private final CompletableFuture<Status> closed = new CompletableFuture<>();

    private volatile @Nullable Connector connector;
    private volatile @Nullable ConnectionData connectionData;
    private volatile boolean expectsMessage;
    private int messageTicks; // that the next message has; 0: its deadline is set; under the lock
    private int messageDeadline; // under the lock
    private final EndReason reason;

    // Of the polling thread.
    private boolean connectionClosed;
    private boolean closingElsewhere; // by another thread
    private boolean told;

    private RawConnection(
            Poller poller,
            QueuePairLimits limits,
            @Nullable RawReceives shared,
            int receiveBytes,
            @Nullable Duration timeout,
            RawHandler handler) {
        this.poller = Arguments.notNull(poller, "poller");
        this.handler = Arguments.notNull(handler, "handler");
        Arguments.notNull(limits, "limits");
        if (timeout != null) {
            checkPositive("The timeout of requests is longer than 0, or null for none", timeout);
        }
        if (shared == null) {
            RawReceives.checkSize(limits.receiveDepth(), receiveBytes);
        } else {
            shared.checkPoller(poller);
        }
        this.reason =
                new EndReason(
                        lock, this::describe, this::failedByPeer, () -> poller.execute(tearDown));
        int sends = limits.initiatorDepth();
        this.timeoutTicks = timeout == null ? 0 : Poller.ticks(timeout);
        this.requests = new RawRequests(sends, timeoutTicks);
        this.completions = sends + (shared == null ? limits.receiveDepth() : 0);
        this.queue = poller.reserve(completions);
        RawReceives own = null;
        QueuePair made = null;
        try {
            RawReceives used = shared;
            if (used == null) {
                own = RawReceives.of(poller, queue, limits.receiveDepth(), receiveBytes);
                used = own;
            }
            this.receives = used;
            made = used.createPair(queue, limits);
            this.pair = made;
            pair.attach(this);
            poller.add(this);
        } catch (Throwable t) {
            if (made != null) {
                made.close();
            }
            if (own != null) {
                own.close();
            }
            poller.release(queue, completions);
            throw t;
        }
    }

    /**
     * Makes a channel with receives of its own, and posts them.
     *
     * @param poller polls for it
     * @param limits of the queue pair; each of its receives is posted
     * @param receiveBytes how long each receive is, at least 1
     * @param timeout the deadline of each request, which ends the channel with IO_TIMEOUT; looked
     *     at every 100 ms; null for none
     * @param handler receives the messages, and the end
     * @return the channel, to be closed by the caller
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
     * Makes a channel that takes its receives from a shared pool.
     *
     * @param poller polls for it, and for all others of the pool
     * @param limits of the queue pair; its receives do not count
     * @param receives the pool, of the same poller
     * @param timeout as {@link #create(Poller, QueuePairLimits, int, Duration, RawHandler)}
     * @param handler receives the messages, and the end
     * @return the channel, to be closed by the caller
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
     * Connects to a peer, and waits until requests may be posted. If that fails, the channel ends.
     *
     * @param peer the address that the peer listens on
     * @param options deadline, private data, local address, path
     * @throws VerbenaException as {@link Connector#connect(QueuePair, InetSocketAddress,
     *     ConnectionOptions)} and {@link Connector#completeConnect(ConnectionOptions)} do; after
     *     CONNECTION_REFUSED by the peer's program, {@link #connectionData} has its private data
     * @throws IllegalStateException in a handler or callback
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
     * @throws IllegalStateException in a handler or callback
     */
    public void connect(
            InetSocketAddress peer,
            ConnectionOptions options,
            Consumer<? super ConnectionData> check) {
        poller.checkMayWait();
        Arguments.notNull(check, "check");
        Connector by = null;
        try {
            by = poller.adapter().createConnector();
            open(by);
            by.connect(pair, peer, options);
            ConnectionData accepted = by.connectionData();
            connectionData = accepted;
            check.accept(accepted);
            by.completeConnect(options);
        } catch (Throwable t) {
            if (by != null && status(t) == Status.CONNECTION_REFUSED) {
                keepData(by);
            }
            notConnected(t);
            throw t;
        }
    }

    private void keepData(Connector by) {
        try {
            connectionData = by.connectionData();
        } catch (IllegalStateException e) {
            return; // closed meanwhile, by an abort
        }
    }

    /**
     * Accepts a peer's request. Does not wait: the peer's first messages may come before the future
     * is done, and requests may be posted when it is. If that fails, the channel ends.
     *
     * @param request of a {@link dev.verbena.Listener}; the channel closes it
     * @param options deadline, private data and path
     * @return done when the peer has completed the connection; fails as {@link
     *     Connector#acceptAsync} does
     */
    @CanIgnoreReturnValue
    public CompletableFuture<Void> accept(Connector request, ConnectionOptions options) {
        CompletableFuture<Void> accepted;
        try {
            connectionData = request.connectionData();
            open(request);
            accepted = request.acceptAsync(pair, options);
        } catch (VerbenaException | IllegalStateException e) { // not answered in time, or closed
            accepted = CompletableFuture.failedFuture(e);
        } catch (Throwable t) {
            notConnected(t);
            throw t;
        }
        return accepted.whenComplete(
                (nothing, thrown) -> {
                    if (thrown != null) {
                        notConnected(thrown);
                    }
                });
    }

    private void notConnected(Throwable thrown) {
        fail(status(thrown), "it could not be connected", thrown);
    }

    private static Status status(Throwable thrown) {
        return thrown instanceof VerbenaException e ? e.status() : Status.INTERNAL_ERROR;
    }

    /**
     * The peer's private data and parameters: from the request that {@link #accept} was given, or
     * from the peer's answer to {@link #connect}, also if that was a refusal (without private data
     * if no program listens).
     *
     * @return empty before that, and if there was no answer
     */
    @CheckReturnValue
    public Optional<ConnectionData> connectionData() {
        return Optional.ofNullable(connectionData);
    }

    /**
     * The connector of {@link #connect} or {@link #accept}, for its addresses and for {@link
     * Connector#awaitClosed}. The channel closes it.
     *
     * @return empty before that
     */
    @CheckReturnValue
    public Optional<Connector> connector() {
        return Optional.ofNullable(connector);
    }

    /**
     * From now on the channel ends when its connector is disconnected, and closes it when it ends.
     * To be called before the connection is established, as messages may arrive from then on.
     */
    void open(Connector by) {
        connector = Arguments.notNull(by, "by");
        by.onDisconnect(this::disconnected);
        if (!reason.isOpen()) {
            by.close(); // it has ended meanwhile
        }
    }

    /**
     * Not public: a program could attach an object of its own to the queue pair, or close its
     * completion queue, and so harm every channel of the poller.
     */
    QueuePair queuePair() {
        return pair;
    }

    /**
     * Sets a deadline for the next message, whichever it is: if none comes in time, the channel
     * ends with IO_TIMEOUT. For a peer that received a request, and does not answer. Without it, a
     * channel waits for messages without limit.
     *
     * @param timeout how long from now, positive; looked at every 100 ms; replaces that of an
     *     earlier call
     */
    public void expectMessageWithin(Duration timeout) {
        checkPositive("The deadline of a message is longer than 0", timeout);
        lock.lock();
        try {
            messageTicks = Poller.ticks(timeout);
            expectsMessage = true;
        } finally {
            lock.unlock();
        }
    }

    private static void checkPositive(String rule, Duration timeout) {
        if (!timeout.isPositive()) {
            throw new IllegalArgumentException(rule + ", not " + Text.time(timeout));
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
     * @param callback called when it has ended; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#send}
     */
    public PostResult send(
            BufferList buffers,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        lock.lock();
        try {
            return isFull(flags)
                    ? PostResult.FULL
                    : began(
                            pair.send(requests.next(), buffers, flags),
                            flags,
                            callback,
                            attachment);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Sends a message whose arrival invalidates a token of the peer (NdkSendAndInvalidate).
     *
     * @param buffers the bytes
     * @param remoteToken the token (remote key), as the peer handed it out
     * @param flags as those of {@link QueuePair#sendAndInvalidate}
     * @param callback called when it has ended; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#sendAndInvalidate}
     */
    public PostResult sendAndInvalidate(
            BufferList buffers,
            int remoteToken,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        lock.lock();
        try {
            return isFull(flags)
                    ? PostResult.FULL
                    : began(
                            pair.sendAndInvalidate(requests.next(), buffers, remoteToken, flags),
                            flags,
                            callback,
                            attachment);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Writes into the peer's memory (NdkWrite).
     *
     * @param buffers the bytes
     * @param remoteAddress the peer's memory
     * @param remoteToken the peer's token (remote key) for it
     * @param flags as those of {@link QueuePair#write}
     * @param callback called when it has ended; null for none
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
        lock.lock();
        try {
            return isFull(flags)
                    ? PostResult.FULL
                    : began(
                            pair.write(requests.next(), buffers, remoteAddress, remoteToken, flags),
                            flags,
                            callback,
                            attachment);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Reads from the peer's memory (NdkRead).
     *
     * @param buffers where the bytes go
     * @param remoteAddress the peer's memory
     * @param remoteToken the peer's token (remote key) for it
     * @param flags as those of {@link QueuePair#read}
     * @param callback called when it has ended; null for none
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
        lock.lock();
        try {
            return isFull(flags)
                    ? PostResult.FULL
                    : began(
                            pair.read(requests.next(), buffers, remoteAddress, remoteToken, flags),
                            flags,
                            callback,
                            attachment);
        } finally {
            lock.unlock();
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
     * @param callback called when it has ended; null for none
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
        lock.lock();
        try {
            if (isFull(flags)) {
                return PostResult.FULL;
            }
            PostResult result = pair.bind(requests.next(), window, region, offset, length, flags);
            // A refused bind, which may only lack memory for a new window, does not end the
            // channel.
            return result.isAccepted() ? began(result, flags, callback, attachment) : result;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Invalidates the token of a window of this side (NdkInvalidate).
     *
     * @param window bound by this channel
     * @param flags as those of {@link QueuePair#invalidate}
     * @param callback called when it has ended; null for none
     * @param attachment what the callback gets
     * @return as {@link QueuePair#invalidate}
     */
    public PostResult invalidate(
            MemoryWindow window,
            OpFlags flags,
            @Nullable RawCallback callback,
            @Nullable Object attachment) {
        lock.lock();
        try {
            return isFull(flags)
                    ? PostResult.FULL
                    : began(
                            pair.invalidate(requests.next(), window, flags),
                            flags,
                            callback,
                            attachment);
        } finally {
            lock.unlock();
        }
    }

    // ---- by the polling thread

    @Override
    void completed(Completions from, int index) {
        Status status = from.status(index);
        boolean receive = isReceive(from.type(index));
        boolean taken = reason.takesCompletions();
        if (receive && (!taken || !status.isSuccess())) {
            receives.giveBack((int) from.context(index));
        }
        if (!status.isSuccess()) {
            reason.requestFailed(from, index);
        } else if (receive) {
            if (taken) {
                received(receives.message((int) from.context(index)), from, index);
            }
        } else {
            requestEnded((int) from.context(index)); // silent ones have no completion like this
        }
    }

    private void received(RawMessage message, Completions from, int index) {
        if (expectsMessage) {
            expectsMessage = false;
        }
        message.arrived(from, index);
        try {
            handler.received(this, message);
        } catch (Throwable t) {
            failedInProgram("its handler", t);
        }
    }

    private void requestEnded(int slot) {
        RawCallback callback;
        Object attachment;
        lock.lock();
        try {
            if (!reason.takesCompletions()) {
                return; // the end calls it
            }
            callback = requests.callback(slot);
            attachment = requests.attachment(slot);
            requests.ended(slot);
        } finally {
            lock.unlock();
        }
        call(callback, attachment, Status.SUCCESS);
    }

    private void call(@Nullable RawCallback callback, @Nullable Object attachment, Status status) {
        try {
            if (callback != null) {
                callback.ended(this, attachment, status);
            }
        } catch (Throwable t) {
            failedInProgram("a callback", t);
        }
    }

    @Override
    void tick(int now) {
        boolean late;
        boolean noMessage;
        lock.lock();
        try {
            late = timeoutTicks > 0 && requests.isLate(now);
            noMessage = isMessageLate(now);
        } finally {
            lock.unlock();
        }
        if (late) {
            fail(Status.IO_TIMEOUT, "a request did not complete before its deadline", null);
        } else if (noMessage) {
            fail(
                    Status.IO_TIMEOUT,
                    "the peer did not send the message that was expected before its deadline",
                    null);
        }
    }

    /** As for {@link Deadlines}, the time begins at the first tick. The caller holds the lock. */
    private boolean isMessageLate(int now) {
        if (messageTicks > 0) {
            messageDeadline = now + messageTicks;
            messageTicks = 0;
        }
        return expectsMessage && now - messageDeadline > 0;
    }

    @Override
    boolean reportsTo(PollerQueue other) {
        return queue == other || receives.queue() == other;
    }

    @Override
    boolean takesFrom(RawReceives from) {
        return receives == from;
    }

    // ---- the end

    /** The connection has ended. */
    void disconnected(Status status) {
        reason.disconnected(status);
    }

    @Override
    void fail(Status status, String why, @Nullable Throwable cause) {
        reason.failed(status, why, cause);
    }

    /**
     * By the polling thread: delivers what had come before the end and, once the device has let go
     * of all memory, calls all callbacks. Nothing is posted any more: the queue pair is closed.
     */
    @Override
    void tearDown() {
        if (closingElsewhere) {
            closingElsewhere = false;
            poller.closesElsewhere(false);
        } else if (!connectionClosed) {
            drain();
            connectionClosed = true; // an object that fails to close is not closed again
            closeQuietly(connector);
            if (receives.isShared() && poller.mayCloseElsewhere()) {
                closePairElsewhere();
                return;
            }
            closeQuietly(pair);
        }
        MessagingException why = Objects.requireNonNull(closeReason());
        while (callOldest(why.status())) {
            continue;
        }
        if (!told) {
            told = true;
            tell(why);
        }
        if (!receives.isShared()) {
            closeQuietly(receives);
        }
        poller.release(queue, completions);
        poller.remove(this);
        closed.complete(why.status());
    }

    /**
     * The close waits up to a second until the device has returned the shared receives that the
     * queue pair took, and other channels of the poller are not to wait for that.
     */
    private void closePairElsewhere() {
        closingElsewhere = true;
        poller.closesElsewhere(true);
        Runnable close =
                () -> {
                    closeQuietly(pair);
                    poller.execute(tearDown);
                };
        try {
            var _ = Thread.ofPlatform().daemon().name("verbena-close-" + pair).start(close);
        } catch (Throwable t) { // no memory, or no thread
            close.run();
        }
    }

    private void drain() {
        try {
            if (reason.isDraining()) {
                poller.drain(queue);
                if (receives.queue() != queue) {
                    poller.drain(receives.queue());
                }
            }
        } finally {
            reason.drained();
        }
    }

    private void tell(MessagingException why) {
        try {
            handler.ended(this, why);
        } catch (Throwable t) {
            MessagingLog.uncaught(
                    "The handler of %s threw when it was told of the end".formatted(this), t);
        }
    }

    /** Calls the callback of the oldest request; false when there is none. */
    private boolean callOldest(Status status) {
        RawCallback callback;
        Object attachment;
        lock.lock(); // a post may have succeeded that is not noted yet
        try {
            int slot = requests.oldest();
            if (slot < 0) {
                return false;
            }
            callback = requests.callback(slot);
            attachment = requests.attachment(slot);
            requests.ended(slot);
        } finally {
            lock.unlock();
        }
        call(callback, attachment, status);
        return true;
    }

    /**
     * Ends the channel at once: what is outstanding is cancelled. From any thread, handlers and
     * callbacks too; does not wait.
     *
     * @param why becomes part of the {@link #closeReason}
     */
    public void abort(String why) {
        fail(Status.CANCELLED, why, null);
    }

    /**
     * Lets the requests end that are outstanding, for 5 s at most, then disconnects the peer, and
     * ends the channel. Does not wait: see {@link #closed}.
     */
    @Override
    public void close() {
        reason.closing();
        Connector by = connector;
        if (by != null && reason.isOpen()) {
            disconnect(by, ConnectionOptions.DEFAULTS, this::closedHere);
        } else {
            closedHere();
        }
    }

    private void closedHere() {
        reason.closedHere();
    }

    /**
     * Why it has ended. Until {@link #closed} is done, a failed request that is polled late may
     * take the place of what followed from it.
     *
     * @return null while it is open
     */
    @CheckReturnValue
    public @Nullable MessagingException closeReason() {
        return reason.get();
    }

    /**
     * A future that is done when the channel has ended, and {@link RawHandler#ended} has returned.
     *
     * @return its value says why; it is completed by the polling thread
     */
    @CheckReturnValue
    public CompletableFuture<Status> closed() {
        return closed.copy();
    }

    private boolean failedByPeer() {
        return pair.failedByPeer();
    }

    private String describe() {
        return "RawConnection over " + pair;
    }

    @Override
    public String toString() {
        return reason.isOpen() ? describe() : describe() + ", closed";
    }
}
