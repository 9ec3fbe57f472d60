package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PooledBuffer;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * A connection that carries messages: a queue pair with its buffers, credits so that neither side
 * ever runs out of receives, deadlines, and one place that says why it ended.
 *
 * <p><b>Sending.</b> {@link #trySend} returns at once, and refuses when the peer has no room;
 * {@link #send} waits for room; {@link #sendAsync} returns a future. All copy the message into a
 * registered buffer. Messages arrive in the order in which they were sent.
 *
 * <p><b>Receiving.</b> By a {@link MessageHandler}, on the thread of the {@link Poller}; or, where
 * none was given, by {@link #receive}, on any thread. A virtual thread that waits in {@link #send}
 * or {@link #receive} holds no carrier.
 *
 * <p><b>Remote memory.</b> {@link #expose} lets the peer write or read memory of this side until it
 * sends the answer ({@link Exposure}); {@link #peerMemory} writes and reads what the peer exposes.
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
public final class MessageChannel extends Polled implements AutoCloseable {
    private static final int ALIGNMENT = 64;
    private static final int MOST_INLINE = 128;

    final Poller poller;
    final MessagingOptions options;
    final @Nullable MessageHandler handler;
    final PollerQueue queue;
    private final int completions; // of the queue, that are reserved for this channel
    final MemoryRegion region;
    final QueuePair pair;
    final int keepAliveTicks;

    final ReentrantLock lock = new ReentrantLock();
    final MessageChannelEnd end = new MessageChannelEnd(this);
    final MessageCounts counts = new MessageCounts();
    final RoomWait roomWait;
    final Dispatch dispatch;
    private final PeerMemory peerMemory;

    // Guarded by the lock.
    final Credits credits;
    final Outbox outbox;
    final Inbox inbox;
    final Exposures exposures;
    private int maxMessage; // that the peer takes, too

    /** Makes what it needs, and posts its receives. It may not send before {@link #open}. */
    MessageChannel(Poller poller, MessagingOptions options, @Nullable MessageHandler handler) {
        options.checkFits(poller.adapter());
        this.poller = poller;
        this.options = options;
        this.handler = handler;
        this.maxMessage = options.values.maxMessage;
        this.credits = new Credits(options.values.receives);
        this.keepAliveTicks = Poller.ticks(options.values.keepAlive);
        int receiveCount = options.receiveDepth();
        int sendDepth = options.sendDepth();
        int stride =
                Math.toIntExact(
                        (long) Frame.MOST_EXTRA_BYTES + options.values.maxMessage + ALIGNMENT - 1
                                & -(long) ALIGNMENT);
        this.completions = receiveCount + sendDepth;
        int inline = Math.min(MOST_INLINE, poller.adapter().info().maxInlineBytes());
        this.queue = poller.reserve(completions);
        MemoryRegion made = null;
        QueuePair madePair = null;
        try {
            made =
                    poller.domain()
                            .allocate(
                                    (long) receiveCount * stride
                                            + Outbox.bytes(options.values.outstanding, stride),
                                    Access.LOCAL_WRITE);
            this.region = made;
            madePair =
                    poller.domain()
                            .createQueuePair(
                                    queue.queue(),
                                    queue.queue(),
                                    QueuePairLimits.depths(sendDepth, receiveCount)
                                            .withInlineBytes(inline));
            this.pair = madePair;
            this.exposures =
                    new Exposures(
                            this, options.values.exposures, Poller.ticks(options.values.timeout));
            this.outbox = new Outbox(this, (long) receiveCount * stride, stride, inline);
            this.inbox = new Inbox(this, receiveCount, stride);
            this.roomWait = new RoomWait(this, outbox);
            this.dispatch = new Dispatch(this, outbox, inbox);
            this.peerMemory = new PeerMemory(this, roomWait);
            pair.attach(this); // last: from now on it is called
        } catch (Throwable t) {
            if (madePair != null) {
                madePair.close();
            }
            if (made != null) {
                made.close();
            }
            poller.release(queue, completions);
            throw t;
        }
    }

    // ---- the connection

    /**
     * Connects to a {@link MessageServer}, and waits for it.
     *
     * @param poller what polls for the channel
     * @param server the address that the server listens on
     * @param options how the channel is made; {@link MessagingOptions#withConnection} has the
     *     deadline
     * @param handler receives its messages; null for {@link #receive}: until then they are kept,
     *     and count against the peer's credit
     * @return the channel, to be closed by the caller
     * @throws VerbenaException as {@link Connector#connect} does, CANCELLED when interrupted; a
     *     {@link MessagingException} with CONNECTION_REFUSED when the server says why it refuses
     *     for now; NOT_SUPPORTED when the peer is no channel of this version; and INVALID_PARAMETER
     *     when the options have longer messages than the device sends
     */
    @CheckReturnValue
    public static MessageChannel connect(
            Poller poller,
            InetSocketAddress server,
            MessagingOptions options,
            @Nullable MessageHandler handler) {
        Arguments.notNull(poller, "poller");
        Arguments.notNull(server, "server");
        Arguments.notNull(options, "options");
        poller.checkMayWait();
        MessageChannel channel = new MessageChannel(poller, options, handler);
        Connector connector = null;
        try {
            connector = poller.adapter().createConnector();
            request(connector, channel, server);
            Handshake peer = Handshake.read(connector.connectionData().privateData());
            channel.open(peer, connector); // before the peer may send
            connector.completeConnect();
            channel.established();
            return channel;
        } catch (Throwable t) {
            channel.abandon(connector);
            throw t;
        }
    }

    private static void request(
            Connector connector, MessageChannel channel, InetSocketAddress server) {
        try {
            connector.connect(channel.pair, server, channel.connectionOptions());
        } catch (VerbenaException e) {
            throw Refusal.explain(e, connector, server);
        }
    }

    /** What the peer learns of this side. */
    ConnectionOptions connectionOptions() {
        return options.values.connection.withPrivateData(handshake().toBytes());
    }

    Handshake handshake() {
        return new Handshake(
                options.values.maxMessage,
                options.values.receives,
                options.values.exposures,
                options.values.peerExposures);
    }

    QueuePair pair() {
        return pair;
    }

    /** The peer is known: messages may be sent when the connection stands. */
    void open(Handshake peer, @Nullable Connector by) {
        lock.lock();
        try {
            end.connection(by);
            maxMessage = Math.min(options.values.maxMessage, peer.maxMessage());
            credits.open(peer.receives());
            outbox.open(Math.min(options.values.peerExposures, peer.exposures()));
            exposures.open(peer.peerExposures());
        } finally {
            lock.unlock();
        }
        poller.add(this);
        if (by != null) {
            by.onDisconnect(end::disconnected);
        } else {
            established();
        }
    }

    /** The connection stands: from now on messages are sent, and deadlines looked at. */
    void established() {
        dispatch.established();
    }

    /** Gives it to the program, once it is established. By the polling thread. */
    void opened(Consumer<MessageChannel> callback) {
        try {
            callback.accept(this);
        } catch (Throwable t) {
            failedInProgram("the callback for opened channels", t);
        }
    }

    /** Undoes the constructor: the connection did not come about. */
    void abandon(@Nullable Connector by) {
        fail(Status.CONNECTION_ABORTED, "the connection did not come about", null);
        if (by != null) {
            by.close();
        }
    }

    @Override
    boolean reportsTo(PollerQueue other) {
        return queue == other;
    }

    /** It does not report to its queue any more. */
    void leavePoller() {
        poller.release(queue, completions);
        poller.remove(this);
    }

    // ---- sending

    /**
     * Sends a message if there is room, and returns at once. Allocates nothing.
     *
     * @param data the message, in heap or native memory, which is copied
     * @return SUCCESS; NO_MORE_ENTRIES when the peer has no room, as many messages as may be are
     *     outstanding, others wait for room already, or the connection does not stand yet: nothing
     *     was sent, and there is room again when the peer has released messages, or some of this
     *     side's have ended ({@link #sendAsync} and {@link #send} wait for that);
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
     * @param callback called when it has ended, if it was accepted; null for none
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
        return post(RequestKind.SEND, data, offset, length, null, null, 0, callback, attachment)
                .status();
    }

    /**
     * Sends a message, and waits for room if there is none. Returns when the message was handed to
     * the device, not when the peer has it. Not from a handler or callback.
     *
     * @param data the message, in heap or native memory, which is copied
     * @param timeout how long to wait at most
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException IO_TIMEOUT when there was no room in time; or why the channel is
     *     closed
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    public void send(MemorySegment data, Duration timeout) throws InterruptedException {
        roomWait.send(data, timeout);
    }

    /**
     * Sends a message, when there is room.
     *
     * @param data the message; it must not change until the future is done
     * @return a future that is done when the message is in the peer's memory, and fails with a
     *     {@link MessagingException}: why the channel was closed, or NO_MORE_ENTRIES when 1,024
     *     messages wait already. It is completed by the polling thread
     * @throws IllegalArgumentException if the message is longer than {@link #maxMessage}
     */
    @CheckReturnValue
    public CompletableFuture<Void> sendAsync(MemorySegment data) {
        return roomWait.async(RequestKind.SEND, data, null, null);
    }

    private void checkLength(long length) {
        if (length > maxMessage) {
            throw new IllegalArgumentException(
                    "A message of %,d bytes is longer than the %,d that both ends of %s take (MessagingOptions.withMaxMessage)"
                            .formatted(length, maxMessage, this));
        }
    }

    /** Posts a request if the channel is open and has room. */
    PostResult post(
            RequestKind kind,
            MemorySegment data,
            long offset,
            long length,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote,
            long remoteOffset,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        checkLength(length);
        lock.lock();
        try {
            return end.takesRequests()
                    ? outbox.submit(
                            kind,
                            data,
                            offset,
                            length,
                            local,
                            remote,
                            remoteOffset,
                            callback,
                            attachment)
                    : PostResult.NOT_CONNECTED;
        } finally {
            lock.unlock();
        }
    }

    // ---- the memory of this side

    /**
     * Exposes memory to the peer, for a time, and waits for one of the {@linkplain
     * MessagingOptions#withExposures exposures} if all are in use. Not from a handler or callback.
     *
     * <p>The region needs LOCAL_WRITE to be written, nothing to be read. Do not give it {@link
     * dev.verbena.Access#REMOTE_WRITE}: a key of its own would then open all of it, and for good.
     *
     * @param region registered memory, of the {@linkplain Poller#domain poller's domain}
     * @param offset where the exposed part begins
     * @param length how long it is, at least 1
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long to wait for a free exposure; and, from when this call returns, how
     *     long the peer has: then it is revoked, see {@link Exposure}
     * @return what goes into a message to the peer; to be closed by the caller
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException IO_TIMEOUT when all were in use for that time; or why the channel
     *     is closed
     * @throws VerbenaException as {@link QueuePair#bind} refuses: INVALID_PARAMETER for memory
     *     outside the region, ACCESS_VIOLATION for rights that it does not have; NOT_SUPPORTED on a
     *     device without memory windows
     */
    @CheckReturnValue
    public Exposure expose(
            MemoryRegion region, long offset, long length, OpFlags rights, Duration within)
            throws InterruptedException {
        return exposures.expose(region, offset, length, rights, within);
    }

    /**
     * Exposes a whole region to the peer, as {@link #expose(MemoryRegion, long, long, OpFlags,
     * Duration)} does.
     *
     * @param region registered memory
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @return what goes into a message to the peer; to be closed by the caller
     * @throws InterruptedException when the thread is interrupted while it waits
     */
    @CheckReturnValue
    public Exposure expose(MemoryRegion region, OpFlags rights, Duration within)
            throws InterruptedException {
        return expose(region, 0, region.bytes(), rights, within);
    }

    /**
     * Exposes a buffer of a pool to the peer, as {@link #expose(MemoryRegion, long, long, OpFlags,
     * Duration)} does. It may be given back to the pool when the exposure has ended.
     *
     * @param buffer of a pool of the poller's domain
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @return what goes into a message to the peer; to be closed by the caller
     * @throws InterruptedException when the thread is interrupted while it waits
     */
    @CheckReturnValue
    public Exposure expose(PooledBuffer buffer, OpFlags rights, Duration within)
            throws InterruptedException {
        return expose(buffer.region(), buffer.offset(), buffer.memory().byteSize(), rights, within);
    }

    /**
     * Exposes memory to the peer, if not all exposures are in use, and returns at once. Allocates
     * nothing once as many exposures were in use before.
     *
     * @param region registered memory, of the poller's domain
     * @param offset where the exposed part begins
     * @param length how long it is, at least 1
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @param callback gets the end, and the peer's message
     * @param attachment what {@link Exposure#attachment} returns
     * @return null when all exposures are in use, or the channel is closed
     * @throws VerbenaException as {@link #expose(MemoryRegion, long, long, OpFlags, Duration)}
     */
    @CheckReturnValue
    public @Nullable Exposure tryExpose(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            ExposureCallback callback,
            @Nullable Object attachment) {
        return exposures.tryExpose(region, offset, length, rights, within, callback, attachment);
    }

    /**
     * Exposes a buffer of a pool to the peer, as {@link #tryExpose(MemoryRegion, long, long,
     * OpFlags, Duration, ExposureCallback, Object)} does.
     *
     * @param buffer of a pool of the poller's domain; not given back before the callback was called
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @param callback gets the end, and the peer's message
     * @param attachment what {@link Exposure#attachment} returns
     * @return null when all exposures are in use, or the channel is closed
     */
    @CheckReturnValue
    public @Nullable Exposure tryExpose(
            PooledBuffer buffer,
            OpFlags rights,
            Duration within,
            ExposureCallback callback,
            @Nullable Object attachment) {
        return tryExpose(
                buffer.region(),
                buffer.offset(),
                buffer.memory().byteSize(),
                rights,
                within,
                callback,
                attachment);
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

    /** A completion of this channel's. */
    @Override
    void completed(Completions from, int index) {
        dispatch.completed(from, index);
    }

    /** Looks at deadlines, and at whether the peer is to be asked. */
    @Override
    void tick(int now) {
        dispatch.tick(now);
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
        return inbox.receive(this, timeout);
    }

    // ---- the end

    @Override
    void tearDown() {
        end.tearDown();
    }

    /** Ends the channel, if it has not ended before. From any thread; does not wait. */
    @Override
    void fail(Status status, String why, @Nullable Throwable cause) {
        end.fail(status, why, cause);
    }

    /**
     * Whether messages may be sent.
     *
     * @return false once it has ended, for whatever reason
     */
    @CheckReturnValue
    public boolean isOpen() {
        return end.isOpen();
    }

    /**
     * Why it has ended. Until {@link #closed} is done, a failed request that is polled late may
     * take the place of what followed from it.
     *
     * @return null while it is open
     */
    @CheckReturnValue
    public @Nullable MessagingException closeReason() {
        return end.reason();
    }

    /**
     * A future that is done when the channel has ended, all its callbacks were called, and what it
     * used is freed, but for messages that were not released.
     *
     * @return its value says why, as {@link #closeReason}; it is completed by the polling thread
     */
    @CheckReturnValue
    public CompletableFuture<Status> closed() {
        return end.closed();
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
        lock.lock();
        try {
            return credits.available();
        } finally {
            lock.unlock();
        }
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
     * MessagingOptions#withTimeout timeout} at most, and ends the connection. From then on nothing
     * can be sent; what waits for room is not sent any more. A handler or callback may call it,
     * too: then it does not wait. Nor does a thread that is interrupted, unless it is the polling
     * thread; the close goes on, and the thread stays interrupted.
     *
     * @throws MessagingException IO_TIMEOUT when it has not ended 30 s after that timeout: a
     *     handler does not return
     */
    @Override
    public void close() {
        end.beginClose();
        end.awaitClosed();
    }

    String describe() {
        return "MessageChannel over " + pair;
    }

    @Override
    public String toString() {
        return end.isOpen() ? describe() : describe() + ", closed";
    }
}
