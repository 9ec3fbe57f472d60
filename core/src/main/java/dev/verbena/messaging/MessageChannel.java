package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.AdapterInfo;
import dev.verbena.BufferList;
import dev.verbena.Connector;
import dev.verbena.PooledBuffer;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * A connection that carries messages: a queue pair, credits so that neither side sends more than
 * the other may hold, deadlines, and one place that records why it ended.
 *
 * <p><b>Sending.</b> {@link #trySend} returns at once, and refuses when the peer has no room;
 * {@link #send} waits for room; {@link #sendAsync(MemorySegment)} returns a future. A message from
 * a segment is copied into registered memory; one from a {@link BufferList} is sent from where it
 * is. Messages of up to {@link #maxMessage} bytes are sent, however small the receives are ({@link
 * MessagingOptions#withEagerLimit}), and arrive in the order in which they were sent.
 *
 * <p><b>Receiving.</b> By a {@link MessageHandler}, on the thread of the {@link Poller}; or, where
 * none was given, by {@link #receive}, on any thread. A virtual thread that waits in {@link #send}
 * or {@link #receive} holds no carrier.
 *
 * <p><b>Remote memory.</b> {@link #ownMemory} lets the peer write or read memory of this side until
 * it sends the answer ({@link Exposure}); {@link #peerMemory} writes and reads what the peer
 * exposes.
 *
 * <p><b>Requests and answers</b> over messages: see {@link Calls}.
 *
 * <p><b>The end.</b> {@link #close}, the peer, a request that fails or exceeds its deadline, or a
 * handler that throws: whatever comes first is the {@linkplain #closeReason reason}. If a request
 * has failed, that is the reason, even if the channel first noticed what follows from it, such as
 * the end of the connection. Every callback, future and waiting thread gets the reason, once; only
 * a send that is refused at that moment may get what followed from it.
 *
 * {@snippet file="dev/verbena/examples/MessageEcho.java" region="ask"}
 *
 * <p>May be used from any thread if its poller has one of its own, otherwise from the poller's
 * thread.
 */
public final class MessageChannel extends PolledConnection<SendCallback> {
    private static final int MOST_BUFFERS = 8; // of a request

    final MessagingOptions options;
    final @Nullable MessageHandler handler;
    final MessageCounts counts = new MessageCounts();
    final Outbox outbox;
    private final FrameSender frames;
    final Inbox inbox;
    final Exposures exposures;
    final Credits credits;
    private final RoomWait roomWait;
    final OwnMemory ownMemory;
    private final PeerMemory peerMemory;
    final @Nullable CallTable calls; // null unless its handler is a Calls
    private int maxMessage; // that the peer takes, too
    private boolean awaitsDestroy; // of its queue pair; of the polling thread
    final boolean offersMemory; // for large messages
    private final Tasks.Task disconnect = new Tasks.Task(this::disconnect, false);
    private volatile int closeTicks; // if > 0, a close waits; under the lock

    /** Makes what it needs, and posts its receives. It sends only once it is established. */
    MessageChannel(Poller poller, MessagingOptions options, @Nullable MessageHandler handler) {
        options.checkFits(poller.adapter());
        AdapterInfo info = poller.adapter().info();
        int inline = Math.min(PostScratch.MOST_INLINE, info.maxInlineBytes());
        int list = Math.min(MOST_BUFFERS, info.maxInitiatorBuffers());
        int eager = options.eagerLimit(poller.adapter());
        this.offersMemory = options.offersMemory(poller.adapter());
        int stride = Frame.stride(eager);
        this.options = options;
        this.handler = handler;
        super(
                poller,
                poller.memory()
                        .shared(
                                QueuePairLimits.depths(options.sendDepth(), options.receiveDepth())
                                        .withBuffers(list, 1)
                                        .withInlineBytes(inline)),
                poller.memory().receives(stride, options.receiveDepth()),
                stride,
                options.completions(),
                Outbox.ring(options));
        FrameSender made = null;
        try {
            this.maxMessage = options.maxMessage;
            this.credits = new Credits(options.receives);
            poller.memory().large().raiseLimit(options.largeMemory());
            this.exposures = new Exposures(this);
            this.ownMemory = new OwnMemory(this, exposures);
            made = new FrameSender(this, poller.memory().frames(stride), inline, list);
            this.frames = made;
            this.outbox = new Outbox(this, made, list - FrameSender.OWN_BUFFERS, eager);
            this.inbox = new Inbox(this);
            this.roomWait = new RoomWait(this, outbox);
            this.peerMemory = new PeerMemory(this, roomWait);
            this.calls = handler instanceof Calls ? new CallTable(this) : null;
            start();
            receives.need(options.receiveDepth());
        } catch (Throwable t) {
            discard();
            if (made != null) {
                made.free();
            }
            throw t;
        }
    }

    // ---- the connection

    /**
     * Connects to a {@link MessageServer}, and waits for it.
     *
     * @param pollers what polls for the channel, which belongs to {@link Pollers#next}
     * @param server the address that the server listens on
     * @param options how the channel is made; {@link MessagingOptions#withConnection} has the
     *     deadline
     * @param handler receives its messages; null for {@link #receive}: until then they are kept,
     *     and count against the peer's credit
     * @return the channel, to be closed by the caller
     * @throws VerbenaException as {@link Connector#connect} does, CANCELLED when interrupted; a
     *     {@link MessagingException} with CONNECTION_REFUSED when the server refuses with a reason
     *     for now; NOT_SUPPORTED when the peer is no channel of this version; and INVALID_PARAMETER
     *     when the device has no room for what the options ask for
     * @throws IllegalStateException if the poller was closed, or in a handler or callback
     */
    @CheckReturnValue
    public static MessageChannel connect(
            Pollers pollers,
            InetSocketAddress server,
            MessagingOptions options,
            @Nullable MessageHandler handler) {
        Arguments.notNull(pollers, "pollers");
        Arguments.notNull(server, "server");
        Arguments.notNull(options, "options");
        pollers.all().forEach(Poller::checkMayWait);
        MessageChannel channel = new MessageChannel(pollers.next(), options, handler);
        try {
            channel.connectAndWait(
                    server,
                    options.connection(channel.poller.adapter()),
                    accepted -> channel.agree(Handshake.read(accepted.privateData())));
        } catch (VerbenaException e) {
            throw Refusal.explain(e, channel.connectionData, server);
        }
        try {
            channel.established();
        } catch (Throwable t) {
            channel.endFor(t); // nobody else knows it
            throw t;
        }
        return channel;
    }

    /**
     * Connects to a {@link MessageServer}, and returns at once.
     *
     * @param pollers what polls for the channel, which belongs to {@link Pollers#next}
     * @param server the address that the server listens on
     * @param options how the channel is made; {@link MessagingOptions#withConnection} has the
     *     deadline
     * @param handler receives its messages, the first ones perhaps before the future is completed;
     *     null for {@link #receive}
     * @return a future of the channel, which is completed by the polling thread, and fails as
     *     {@link #connect} does. Cancelling it aborts the attempt
     */
    @CheckReturnValue
    public static CompletableFuture<MessageChannel> connectAsync(
            Pollers pollers,
            InetSocketAddress server,
            MessagingOptions options,
            @Nullable MessageHandler handler) {
        Arguments.notNull(pollers, "pollers");
        Arguments.notNull(server, "server");
        Arguments.notNull(options, "options").checkFits(pollers.adapter());
        return ConnectAttempt.async(pollers.next(), server, options, handler);
    }

    /** The peer is known: messages may be sent when the connection is established. */
    void agree(Handshake peer) {
        try (var _ = lock.hold()) {
            int eagerMost = Math.min(outbox.eagerLimit, peer.eagerLimit());
            int most = Math.min(options.maxMessage, peer.maxMessage());
            maxMessage = offersMemory && peer.offers() ? most : Math.min(most, eagerMost);
            credits.open(peer.receives());
            outbox.open(eagerMost, Math.min(options.peerExposures, peer.exposures()));
            exposures.open(peer.peerExposures());
        }
    }

    /** The connection is established: from now on messages are sent and deadlines checked. */
    void established() {
        try (var _ = lock.hold()) {
            if (isOpen()) {
                outbox.established();
                inbox.offerMemory();
                endCloseWait();
            }
        }
    }

    /** Gives it to the program, once it is established. By the polling thread. */
    void opened(Consumer<MessageChannel> callback) {
        try {
            callback.accept(this);
        } catch (Throwable t) {
            failedInProgram("the callback for opened channels", t);
        }
    }

    /** Undoes the constructor: the connection was not established. */
    void abandon() {
        fail(Status.CONNECTION_ABORTED, "the connection was not established", null);
    }

    // ---- sending

    /**
     * Sends a message if there is room, and returns at once. Allocates nothing.
     *
     * @param data the message, in heap or native memory, which is copied
     * @return SUCCESS; NO_MORE_ENTRIES when the peer has no room, the maximum number of messages is
     *     outstanding, other messages are already waiting, or the connection is not established
     *     yet: nothing was sent, and there is room again when the peer has released messages, or
     *     some of this side's have completed ({@link #sendAsync(MemorySegment)} and {@link #send}
     *     wait for that); INSUFFICIENT_RESOURCES when there is no registered memory for the copy;
     *     CONNECTION_INVALID when the channel is closed, or being closed
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public Status trySend(MemorySegment data) {
        return trySend(data, 0, data.byteSize(), null, null);
    }

    /**
     * Sends a message if there is room, and returns at once. Allocates nothing.
     *
     * @param data holds the message, which is copied
     * @param offset where it begins
     * @param length how long it is
     * @param callback called when it completes, if it was accepted; null for none
     * @param attachment what the callback gets
     * @return as {@link #trySend(MemorySegment)}
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public Status trySend(
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        return outbox.submit(
                        RequestKind.SEND, data, offset, length, null, null, 0, callback, attachment)
                .status();
    }

    /**
     * Sends a message from registered memory, if there is room, and returns at once. Nothing is
     * copied, except by the device if it is very short, and nothing allocated.
     *
     * <p>The memory may be that of a {@link PooledBuffer}, which a message can be composed in
     * ({@link PooledBuffer#buffers}), of a {@link dev.verbena.RegisteredArena}, or of regions. If
     * the poller has a thread of its own, do not use memory of {@code Arena.ofConfined()}: the
     * thread that finds room for a very short message copies it.
     *
     * @param buffers the message, in up to {@link #maxBuffers} buffers of the {@linkplain
     *     Poller#domain poller's domain}, which must not change until it completes. The list may be
     *     reused at once
     * @param callback called when it completes, if it was accepted: from then on, the memory is the
     *     caller's again; null for none
     * @param attachment what the callback gets
     * @return as {@link #trySend(MemorySegment)}; or why {@link QueuePair#send} refuses it
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public Status trySend(
            BufferList buffers, @Nullable SendCallback callback, @Nullable Object attachment) {
        return outbox.submit(
                        RequestKind.SEND,
                        FrameSender.NOTHING,
                        0,
                        0,
                        Arguments.notNull(buffers, "buffers"),
                        null,
                        0,
                        callback,
                        attachment)
                .status();
    }

    /**
     * Sends a message from registered memory, when there is room. Nothing is copied.
     *
     * @param buffers the message, as {@link #trySend(BufferList, SendCallback, Object)}; neither
     *     the list nor the memory may change until the future is done
     * @return as {@link #sendAsync(MemorySegment)}; it also fails with the statuses of trySend
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public CompletableFuture<Void> sendAsync(BufferList buffers) {
        return roomWait.async(
                RequestKind.SEND, FrameSender.NOTHING, Arguments.notNull(buffers, "buffers"), null);
    }

    /**
     * Sends a message, and waits for room if there is none. Not from a handler or callback.
     *
     * <p>Returns when the message is copied and accepted, not when the peer has it. One up to the
     * {@linkplain MessagingOptions#withEagerLimit eager limit} was handed to the device; a longer
     * one was announced to the peer, and is written when the peer offers memory for it.
     *
     * @param data the message, in heap or native memory, which is copied
     * @param timeout how long to wait at most
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException IO_TIMEOUT when there was no room in time; INSUFFICIENT_RESOURCES
     *     when there is no registered memory for the copy; or why the channel is closed
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    public void send(MemorySegment data, Duration timeout) throws InterruptedException {
        roomWait.send(data, timeout);
    }

    /**
     * Sends a message, when there is room. A future that is cancelled or times out withdraws its
     * request while that waits for room: nothing is sent. A request that was posted is carried out
     * all the same, and its memory is the device's until the device is done with it.
     *
     * @param data the message; it must not change until the future is done. It is copied now if
     *     there is room, and otherwise later, usually by the polling thread, except that memory
     *     which is confined to a thread is always copied now. A long copy delays the poller's other
     *     channels, so send messages of many megabytes from registered memory
     * @return a future that is done when the message is in the peer's memory, and fails with a
     *     {@link MessagingException}: why the channel was closed; NO_MORE_ENTRIES when 1,024
     *     messages wait already; or INSUFFICIENT_RESOURCES when there is no registered memory for
     *     the copy. It is completed by the polling thread
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public CompletableFuture<Void> sendAsync(MemorySegment data) {
        return roomWait.async(RequestKind.SEND, data, null, null);
    }

    /**
     * Has something run each time there is room for a message again that {@link #trySend} refused
     * with NO_MORE_ENTRIES. To be set before the first send.
     *
     * @param callback runs on the polling thread, once for any number of refusals, and must not
     *     block. A send may be refused again all the same
     */
    public void onRoom(Runnable callback) {
        Tasks.Task task = new Tasks.Task(Arguments.notNull(callback, "callback"), false);
        try (var _ = lock.hold()) {
            outbox.waiting.onRoom(task);
        }
    }

    // ---- memory

    /**
     * The memory that this side exposes to the peer, to be written or read.
     *
     * @return always the same object
     */
    @CheckReturnValue
    public OwnMemory ownMemory() {
        return ownMemory;
    }

    /**
     * The memory that the peer exposes: writes, reads, and messages that take it back.
     *
     * @return always the same object
     */
    @CheckReturnValue
    public PeerMemory peerMemory() {
        return peerMemory;
    }

    // ---- by the polling thread

    @Override
    void received(RawMessage message) {
        inbox.received(message);
    }

    @Override
    void requestEnded(int slot) {
        outbox.ended(slot);
        inbox.offerMemory();
        endCloseWait();
    }

    @Override
    void call(SendCallback callback, @Nullable Object attachment, Status status) {
        callback.ended(this, attachment, status);
    }

    @Override
    @SuppressWarnings("ReferenceEquality") // all futures have the same callback
    boolean completesFuture(@Nullable SendCallback callback) {
        return callback == RoomWait.COMPLETE_FUTURE;
    }

    @Override
    @Nullable String late(int now) {
        if (closeTicks > 0) {
            closeWithin(closeTicks - 1);
        }
        if (calls != null) {
            calls.tick(now);
        }
        inbox.offerMemory(); // other channels may have given memory back
        return outbox.late(now);
    }

    @Override
    boolean awaits() {
        boolean peer = requests.oldest() >= 0 || exposures.inUse() || outbox.keepAlive.isAsked();
        boolean here = closeTicks > 0 || inbox.awaitsMemory();
        return peer || here || (calls != null && calls.count() > 0);
    }

    // ---- receiving by threads

    /**
     * Waits for a message, on a channel without a handler.
     *
     * @param timeout how long at most
     * @return the message, to be released; null when none came in time
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException why the channel is closed, once all messages that had come are
     *     taken
     */
    @CheckReturnValue
    public @Nullable Message receive(Duration timeout) throws InterruptedException {
        if (handler != null) {
            throw new IllegalStateException(this + " has a handler, which gets the messages");
        }
        return inbox.receive(timeout);
    }

    // ---- the end

    @Override
    boolean ended(MessagingException why) {
        try (var _ = lock.hold()) {
            inbox.ended();
        }
        while (roomWait.cancelOldest(why.status())
                || ownMemory.cancelOldest(why.status())
                || (calls != null && calls.cancelAny(why.status()))) {
            continue;
        }
        outbox.large.cancelAll(why.status());
        if (exposures.awaitDestroy()) {
            if (!awaitsDestroy) {
                var _ = pair.closed().whenComplete((nothing, thrown) -> tearDownAgain());
                awaitsDestroy = true; // last: that needs memory
            }
            return false;
        }
        exposures.endAll(why.status());
        try (var _ = lock.hold()) {
            outbox.large.free();
            frames.free();
            inbox.freeComing();
        }
        receives.need(-options.receiveDepth());
        receives.release();
        return true;
    }

    /**
     * What it has counted since it was made. From any thread, also after the close; takes no lock.
     * While messages come and go, each count is as of a moment ago, and not all are of the same
     * moment.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public MessageCounters counters() {
        return counts.snapshot(pair.counters().requests().outstanding());
    }

    /**
     * How many messages may be sent now before the peer has to release some.
     *
     * @return 0 or more
     */
    @CheckReturnValue
    public int credit() {
        try (var _ = lock.hold()) {
            return credits.available();
        }
    }

    /**
     * How many buffers a message may be sent from.
     *
     * @return 6, or less where the device takes fewer in a request
     */
    @CheckReturnValue
    public int maxBuffers() {
        return outbox.mostBuffers;
    }

    /**
     * The longest message that both ends take.
     *
     * @return bytes
     */
    @CheckReturnValue
    public int maxMessage() {
        return maxMessage;
    }

    /**
     * Closes the channel: waits until what was sent has arrived, for half of the {@linkplain
     * MessagingOptions#withTimeout timeout} at most, and ends the connection, which the peer has to
     * confirm within the timeout. Messages above the eager limit that wait for the peer's memory
     * have half of the timeout before that. From then on nothing can be sent; what waits for room
     * is not sent any more, and messages that have come and were not handled are dropped. A handler
     * or callback may call it, too: then it does not wait. Nor does a thread that is interrupted,
     * unless it is the polling thread; the close goes on, and the thread stays interrupted. If the
     * poller belongs to another thread ({@link Poller#onThisThread}), the close begins when that
     * thread polls.
     *
     * @throws MessagingException IO_TIMEOUT when it has not ended 30 s after that timeout: a
     *     handler does not return
     */
    @Override
    public void close() {
        beginClose();
        poller.awaitClosed(this, closed(), options.timeout);
    }

    /**
     * Closes the channel as {@link #close} does, and returns at once.
     *
     * @return {@link #closed()}
     */
    public CompletableFuture<Status> closeAsync() {
        beginClose();
        return closed();
    }

    void beginClose() {
        if (poller.isForeign()) {
            poller.execute(this::beginClose);
            return;
        }
        try (var _ = lock.hold()) {
            boolean first = !reason.isClosing();
            reason.closing();
            if (first && isOpen() && closeHasToWait()) {
                closeWithin(Math.ceilDiv(PollerClock.ticks(options.timeout), 2));
            }
            if (closeTicks > 0) {
                return;
            }
        }
        disconnect();
    }

    /** For large messages; or for the event of a connection that the peer uses already. */
    private boolean closeHasToWait() {
        return outbox.large.isWaiting() || (!outbox.established && credits.anyMessageReceived());
    }

    private void endCloseWait() {
        if (closeTicks > 0 && !closeHasToWait()) {
            closeWithin(0);
        }
    }

    /** A close may wait so many ticks more. */
    private void closeWithin(int ticks) {
        closeTicks = ticks;
        if (ticks == 0) {
            poller.execute(disconnect);
        }
    }

    private void disconnect() {
        try (var _ = lock.hold()) {
            outbox.close();
        } finally {
            beginClose(options.connection.withDeadline(options.timeout));
        }
    }

    /** Whether it is open, and not being disconnected: a close waits for large messages. */
    boolean sendsFrames() {
        return isOpen() && (takesRequests() || closeTicks > 0);
    }

    @Override
    String describe() {
        return "MessageChannel over " + pair;
    }
}
