package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Access;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.OperationType;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;

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
 * <p><b>The end.</b> {@link #close}, the peer, a request that fails or exceeds its deadline, or a
 * handler that throws: whatever comes first is the {@linkplain #closeReason reason}. Every
 * callback, future and waiting thread gets it, once.
 *
 * {@snippet file="dev/verbena/examples/ChannelEcho.java" region="ask"}
 *
 * <p>May be used from any thread if its poller has one of its own, otherwise from the poller's
 * thread.
 */
public final class Channel extends Polled implements AutoCloseable {
    private static final String CLOSED_HERE = "this side closed it";
    private static final int ALIGNMENT = 64;
    private static final int MOST_INLINE = 128;
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(30);

    /** Completes the future that is attached. */
    static final SendCallback COMPLETE_FUTURE = Channel::completeFuture;

    private final Poller poller;
    private final ChannelOptions options;
    private final @Nullable MessageHandler handler;
    private final PollerQueue queue;
    private final int completions; // of the queue, that are reserved for this channel
    private final MemoryRegion region;
    private final QueuePair pair;
    private final int keepAliveTicks;

    private final ReentrantLock lock = new ReentrantLock();
    private final CompletableFuture<Status> closed = new CompletableFuture<>();

    // Guarded by the lock.
    private final Credits credits;
    private final Outbox outbox;
    private final Inbox inbox;
    private @Nullable Connector connector;
    private int maxMessage; // that the peer takes, too
    private boolean freed;

    private volatile boolean closing; // by close()
    private volatile @Nullable ChannelException reason; // null while it is open

    /** Makes what it needs, and posts its receives. It may not send before {@link #open}. */
    Channel(Poller poller, ChannelOptions options, @Nullable MessageHandler handler) {
        this.poller = poller;
        this.options = options;
        this.handler = handler;
        this.maxMessage = options.maxMessage;
        this.credits = new Credits(options.receives);
        this.keepAliveTicks = Poller.ticks(options.keepAlive);
        int receiveCount = options.receives + Credits.RESERVE;
        int sendDepth = options.outstanding + Credits.RESERVE;
        int stride =
                Math.toIntExact(
                        (long) Frame.HEADER_BYTES + options.maxMessage + ALIGNMENT - 1
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
                                            + Outbox.bytes(options.outstanding, stride),
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
            this.outbox =
                    new Outbox(
                            this,
                            poller,
                            pair,
                            credits,
                            region,
                            (long) receiveCount * stride,
                            stride,
                            inline,
                            options.outstanding,
                            Poller.ticks(options.timeout));
            pair.attach(this);
            this.inbox = new Inbox(this, lock, pair, credits, region, receiveCount, stride);
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
     * Connects to a {@link ChannelServer}, and waits for it.
     *
     * @param poller what polls for the channel
     * @param server the address that the server listens on
     * @param options how the channel is made
     * @param handler receives its messages; null for {@link #receive}
     * @return the channel, to be closed by the caller
     * @throws VerbenaException as {@link Connector#connect} does
     * @throws ChannelException CONNECTION_REFUSED when the peer is no channel, or says why it
     *     refuses
     */
    @CheckReturnValue
    public static Channel connect(
            Poller poller,
            InetSocketAddress server,
            ChannelOptions options,
            @Nullable MessageHandler handler) {
        Channel channel = new Channel(poller, options, handler);
        Connector connector = null;
        try {
            connector = poller.adapter().createConnector();
            request(connector, channel, server);
            Handshake peer = Handshake.read(connector.connectionData().privateData());
            channel.open(peer, connector); // before the peer may send
            connector.completeConnect();
            return channel;
        } catch (Throwable t) {
            channel.abandon(connector);
            throw t;
        }
    }

    private static void request(Connector connector, Channel channel, InetSocketAddress server) {
        try {
            connector.connect(channel.pair, server, channel.connectionOptions());
        } catch (VerbenaException e) {
            byte[] said =
                    e.status() == Status.CONNECTION_REFUSED
                            ? connector.connectionData().privateData()
                            : new byte[0];
            if (said.length == 0) {
                throw e;
            }
            throw new ChannelException(
                    Status.CONNECTION_REFUSED,
                    "%s refused the channel: %s"
                            .formatted(server, new String(said, StandardCharsets.US_ASCII).trim()),
                    e);
        }
    }

    /** What the peer learns of this side. */
    ConnectionOptions connectionOptions() {
        return options.connection.withPrivateData(handshake().toBytes());
    }

    Handshake handshake() {
        return new Handshake(options.maxMessage, options.receives);
    }

    QueuePair pair() {
        return pair;
    }

    /** The peer is known: messages may be sent when the connection stands. */
    void open(Handshake peer, @Nullable Connector by) {
        lock.lock();
        try {
            connector = by;
            maxMessage = Math.min(options.maxMessage, peer.maxMessage());
            credits.open(peer.receives());
        } finally {
            lock.unlock();
        }
        poller.add(this);
        if (by != null) {
            by.onDisconnect(this::disconnected);
        }
    }

    private void disconnected(Status status) {
        fail(
                status.isSuccess() ? Status.CANCELLED : status,
                switch (status) {
                    case SUCCESS -> CLOSED_HERE;
                    case CONNECTION_INVALID -> "the peer closed it, or its process has ended";
                    default -> "the connection was lost";
                },
                null);
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

    // ---- sending

    /**
     * Sends a message if there is room, and returns at once. Allocates nothing.
     *
     * @param data the message, which is copied
     * @return SUCCESS; NO_MORE_ENTRIES when the peer has no room, or as many messages as may be are
     *     outstanding; CONNECTION_INVALID when the channel is closed
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
     */
    @CheckReturnValue
    public Status trySend(
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        lock.lock();
        try {
            return post(data, offset, length, callback, attachment);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Sends a message, and waits for room if there is none. Returns when the message was handed to
     * the device, not when the peer has it. Not from a handler or callback.
     *
     * @param data the message, which is copied
     * @param timeout how long to wait at most
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws ChannelException IO_TIMEOUT when there was no room in time; or why the channel is
     *     closed
     */
    public void send(MemorySegment data, Duration timeout) throws InterruptedException {
        Status status = trySend(data);
        if (status == Status.NO_MORE_ENTRIES) {
            long left = TimeUnit.NANOSECONDS.convert(timeout);
            status = poller.onPollingThread() ? pollForRoom(data, left) : awaitPost(data, left);
        }
        if (status == Status.NO_MORE_ENTRIES) {
            throw new ChannelException(
                    Status.IO_TIMEOUT,
                    "No room for a message within %s: the peer of %s releases none"
                            .formatted(timeout, this));
        }
        if (!status.isSuccess()) {
            throw closedException(status);
        }
    }

    private Status pollForRoom(MemorySegment data, long nanoseconds) {
        long deadline = System.nanoTime() + nanoseconds;
        Status status;
        long left;
        do {
            left = deadline - System.nanoTime();
            int ignored = poller.await(Duration.ofNanos(left)); // throws in a handler or callback
            status = trySend(data);
        } while (status == Status.NO_MORE_ENTRIES && left > 0);
        return status;
    }

    /**
     * Waits in the queue of those that came first, until this message was posted.
     *
     * @return SUCCESS, NO_MORE_ENTRIES when the time is over, or why it was refused
     */
    private Status awaitPost(MemorySegment data, long nanoseconds) throws InterruptedException {
        Outbox.Pending mine = new Outbox.Pending(data, new CompletableFuture<>(), true);
        lock.lockInterruptibly();
        try {
            if (reason != null) {
                return Status.CONNECTION_INVALID;
            }
            boolean ignored = outbox.enqueue(mine);
        } finally {
            lock.unlock();
        }
        try {
            mine.future().get(nanoseconds, TimeUnit.NANOSECONDS);
            return Status.SUCCESS;
        } catch (ExecutionException e) {
            return Status.CONNECTION_INVALID; // the reason is known
        } catch (TimeoutException e) {
            return withdraw(mine) ? Status.NO_MORE_ENTRIES : Status.SUCCESS;
        } catch (InterruptedException e) {
            if (withdraw(mine)) {
                throw e;
            }
            Thread.currentThread().interrupt(); // too late: the message was posted
            return Status.SUCCESS;
        }
    }

    private boolean withdraw(Outbox.Pending mine) {
        lock.lock();
        try {
            return outbox.withdraw(mine);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Sends a message, when there is room.
     *
     * @param data the message; it must not change until the future is done
     * @return a future that is done when the message is in the peer's memory, and fails with a
     *     {@link ChannelException}: why the channel was closed, or NO_MORE_ENTRIES when 1,024
     *     messages wait already. It is completed by the polling thread
     */
    @CheckReturnValue
    public CompletableFuture<Void> sendAsync(MemorySegment data) {
        CompletableFuture<Void> future = new CompletableFuture<>();
        lock.lock();
        try {
            Status status = post(data, 0, data.byteSize(), COMPLETE_FUTURE, future);
            if (status == Status.NO_MORE_ENTRIES
                    && !outbox.enqueue(new Outbox.Pending(data, future, false))) {
                future.completeExceptionally(
                        new ChannelException(status, "1,024 messages wait already"));
            } else if (status != Status.NO_MORE_ENTRIES && !status.isSuccess()) {
                future.completeExceptionally(closedException(status));
            }
        } finally {
            lock.unlock();
        }
        return future;
    }

    @SuppressWarnings("unchecked") // what sendAsync attached
    private static void completeFuture(
            Channel channel, @Nullable Object attachment, Status status) {
        CompletableFuture<Void> future = (CompletableFuture<Void>) attachment;
        if (future == null) {
            return;
        }
        if (status.isSuccess()) {
            future.complete(null);
        } else {
            future.completeExceptionally(channel.closedException(status));
        }
    }

    private void checkLength(long length) {
        if (length > maxMessage) {
            throw new IllegalArgumentException(
                    "A message of %,d bytes is longer than the %,d that both ends of %s take (ChannelOptions.withMaxMessage)"
                            .formatted(length, maxMessage, this));
        }
    }

    /** Posts a message if the channel is open and has room. The caller holds the lock. */
    private Status post(
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        checkLength(length);
        return reason != null
                ? Status.CONNECTION_INVALID
                : outbox.send(data, offset, length, callback, attachment);
    }

    // ---- by the polling thread

    /** A completion of this channel's. */
    @Override
    void completed(Completions from, int index) {
        Status status = from.status(index);
        long context = from.context(index);
        if (status == Status.CANCELLED && closing) {
            fail(status, CLOSED_HERE, null);
        } else if (!status.isSuccess()) {
            // What is cancelled was flushed behind a failure, which is known or comes first.
            fail(
                    status == Status.CANCELLED ? Status.CONNECTION_ABORTED : status,
                    "a request ended with " + status,
                    null);
        } else if (from.type(index) == OperationType.RECEIVE) {
            received((int) context, from.bytes(index));
        } else if ((context & Outbox.CONTROL) != 0) {
            controlEnded();
        } else {
            messageEnded((int) context);
        }
    }

    private void messageEnded(int slot) {
        SendCallback callback;
        Object attachment;
        lock.lock();
        try {
            callback = outbox.callback(slot);
            attachment = outbox.attachment(slot);
            if (reason == null) {
                outbox.ended(slot);
            } else {
                callback = null; // the end calls it
            }
        } finally {
            lock.unlock();
        }
        if (callback != null) {
            call(callback, attachment, Status.SUCCESS);
        }
    }

    private void controlEnded() {
        lock.lock();
        try {
            if (reason == null) {
                outbox.controlEnded();
            }
        } finally {
            lock.unlock();
        }
    }

    private void call(SendCallback callback, @Nullable Object attachment, Status status) {
        try {
            callback.ended(this, attachment, status);
        } catch (Throwable t) {
            fail(Status.INTERNAL_ERROR, "a callback has thrown", t);
        }
    }

    private void received(int slot, long bytes) {
        Message message = inbox.message(slot);
        MemorySegment at = message.frame();
        boolean toHandler = false;
        lock.lock();
        try {
            if (reason != null) {
                return; // its memory may be gone
            }
            if (!Frame.isValid(at, bytes) || !Frame.grant(at, credits)) {
                fail(Status.INTERNAL_ERROR, "the peer sent a frame that is none", null);
                return;
            }
            if (Frame.kind(at) == Frame.MESSAGE) {
                toHandler = handler != null;
                inbox.arrived(message, Frame.length(at), toHandler);
            } else {
                inbox.repost(slot, true);
            }
            outbox.roomChanged();
            outbox.reportIfDue();
        } finally {
            lock.unlock();
        }
        if (toHandler) {
            handle(message);
        }
    }

    private void handle(Message message) {
        try {
            if (handler != null) {
                handler.received(this, message);
            }
        } catch (Throwable t) {
            fail(Status.INTERNAL_ERROR, "its handler has thrown", t);
        }
        if (!message.retained()) {
            release(message);
        }
    }

    /** A message is not needed any more. */
    void release(Message message) {
        lock.lock();
        try {
            if (!message.drop()) {
                return; // it was released before
            }
            inbox.released();
            if (reason == null) {
                inbox.repost(message.slot(), false);
                outbox.reportIfDue();
            } else {
                freeIfUnused();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Looks at deadlines, and at whether the peer is to be asked. */
    @Override
    void tick(int now) {
        boolean late = false;
        lock.lock();
        try {
            if (reason == null) {
                late = outbox.isLate(now);
                if (!late && outbox.idleTicks(now) >= keepAliveTicks) {
                    outbox.control(Frame.KEEP_ALIVE);
                }
            }
        } finally {
            lock.unlock();
        }
        if (late) {
            fail(
                    Status.IO_TIMEOUT,
                    "a message was not acknowledged within " + options.timeout,
                    null);
        }
    }

    // ---- receiving by threads

    /**
     * Waits for a message, on a channel without a handler.
     *
     * @param timeout how long at most
     * @return the message, to be released; null when none came in time
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws ChannelException why the channel is closed, once all messages that had come are taken
     */
    @CheckReturnValue
    public @Nullable Message receive(Duration timeout) throws InterruptedException {
        if (handler != null) {
            throw new IllegalStateException(this + " has a handler, which gets the messages");
        }
        long left = TimeUnit.NANOSECONDS.convert(timeout);
        long deadline = System.nanoTime() + left;
        boolean polls = poller.onPollingThread();
        while (true) {
            lock.lockInterruptibly();
            try {
                Message message = inbox.poll();
                if (message != null) {
                    return message;
                }
                if (reason != null) {
                    throw closedException(Status.CONNECTION_INVALID);
                }
                if (left <= 0) {
                    return null;
                }
                if (!polls) {
                    left = inbox.await(left);
                    continue;
                }
            } finally {
                lock.unlock();
            }
            int ignored = poller.await(Duration.ofNanos(left));
            left = deadline - System.nanoTime();
        }
    }

    // ---- the end

    /** Ends the channel, if it has not ended before. From any thread; does not wait. */
    @Override
    void fail(Status status, String why, @Nullable Throwable cause) {
        lock.lock();
        try {
            if (reason != null) {
                return;
            }
            reason =
                    new ChannelException(
                            status, "%s is closed: %s".formatted(describe(), why), cause);
            inbox.wakeAll();
        } finally {
            lock.unlock();
        }
        poller.execute(this::tearDown);
    }

    /** By the polling thread: calls all callbacks, and frees everything. */
    private void tearDown() {
        Status status = closeReason() == null ? Status.CANCELLED : closedException(null).status();
        pair.flush();
        List<Outbox.Outstanding> called;
        List<Outbox.Pending> waited;
        lock.lock();
        try {
            called = outbox.takeOutstanding();
            waited = outbox.takePending();
            inbox.detachWaiting();
        } finally {
            lock.unlock();
        }
        for (Outbox.Outstanding one : called) {
            if (one.callback() != null) {
                call(one.callback(), one.attachment(), status);
            }
        }
        for (Outbox.Pending one : waited) {
            one.future().completeExceptionally(closedException(status));
        }
        try {
            Connector by = connector;
            if (by != null) {
                by.close();
            }
        } finally {
            try {
                pair.close();
            } finally {
                free(status);
            }
        }
    }

    private void free(Status status) {
        lock.lock();
        try {
            freed = true;
            freeIfUnused();
        } finally {
            lock.unlock();
            poller.release(queue, completions);
            poller.remove(this);
            closed.complete(status);
        }
    }

    /** Frees the memory, unless somebody reads a message in it. The caller holds the lock. */
    private void freeIfUnused() {
        if (freed && !inbox.inUse()) {
            region.close();
        }
    }

    /**
     * Whether messages may be sent.
     *
     * @return false once it has ended, for whatever reason
     */
    @CheckReturnValue
    public boolean isOpen() {
        return reason == null;
    }

    /**
     * Why it has ended.
     *
     * @return null while it is open
     */
    @CheckReturnValue
    public @Nullable ChannelException closeReason() {
        return reason;
    }

    private ChannelException closedException(@Nullable Status refused) {
        ChannelException why = reason;
        return why != null
                ? new ChannelException(
                        why.status(), String.valueOf(why.getMessage()), why.getCause())
                : new ChannelException(
                        refused == null ? Status.CONNECTION_INVALID : refused,
                        "%s refuses messages: %s".formatted(this, refused));
    }

    /**
     * A future that is done when the channel has ended, all its callbacks were called, and what it
     * used is freed, but for messages that were not released.
     *
     * @return its value says why, as {@link #closeReason}; it is completed by the polling thread
     */
    @CheckReturnValue
    public CompletableFuture<Status> closed() {
        return closed.copy();
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
     * Closes the channel: waits until what was sent has arrived, up to the timeout of messages, and
     * ends the connection. A handler or callback may call it, too: then it does not wait.
     */
    @Override
    public void close() {
        Connector by;
        lock.lock();
        try {
            by = reason == null ? connector : null;
            closing = true;
        } finally {
            lock.unlock();
        }
        if (by != null) {
            // Its callback ends the channel when what was outstanding has ended.
            CompletableFuture<Void> ended =
                    by.disconnectAsync(options.connection.withDeadline(options.timeout));
            var _ =
                    ended.whenComplete(
                            (nothing, thrown) -> fail(Status.CANCELLED, CLOSED_HERE, null));
        } else {
            fail(Status.CANCELLED, CLOSED_HERE, null);
        }
        if (!poller.isDispatchingHere()) {
            awaitClosed();
        }
    }

    private void awaitClosed() {
        Duration most = options.timeout.plus(CLOSE_WITHIN);
        long deadline = System.nanoTime() + TimeUnit.NANOSECONDS.convert(most);
        try {
            while (poller.onPollingThread() && !closed.isDone()) {
                int ignored = poller.await(Duration.ofMillis(10));
                if (System.nanoTime() - deadline > 0) {
                    throw new TimeoutException();
                }
            }
            Status ignored = closed.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new ChannelException(
                    Status.IO_TIMEOUT, "%s has not ended within %s".formatted(this, most), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // it goes on without this thread
        } catch (ExecutionException e) {
            throw new AssertionError(e); // nothing completes it so
        }
    }

    private String describe() {
        return "Channel over " + pair;
    }

    @Override
    public String toString() {
        return reason == null ? describe() : describe() + ", closed";
    }
}
