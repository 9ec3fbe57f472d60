package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/**
 * Connects to a {@link MessageServer}, and again whenever the channel ended, with pauses that grow
 * ({@link ReconnectOptions}). Each time there is a new {@link MessageChannel}: nothing is sent
 * again silently. What was outstanding on the old one has failed with its {@linkplain
 * MessageChannel#closeReason reason} before the new one is handed out; whether the peer had it,
 * only the two programs can find out.
 *
 * {@snippet file="dev/verbena/examples/Publisher.java" region="client"}
 *
 * <p><b>The channels</b> come by the callback that {@link #start} takes, or by {@link #channel}. A
 * channel that the program closes itself ends as any other: the next one comes.
 *
 * <p><b>The end.</b> {@link #close}; the close of the poller; a status that ends it for good, or as
 * many attempts in a row as the options allow. Then no channel comes any more, and {@link
 * #closeReason} returns the reason.
 *
 * <p>May be used from any thread. If its poller is the current thread's, that has to poll, or wait
 * in {@link #channel(Duration)}.
 */
public final class MessageClient implements AutoCloseable {
    /** Lets a client connect again after a pause. */
    interface Later {
        void connect(MessageClient client, long nanoseconds);
    }

    /** Time and chance, for tests. */
    record Surroundings(LongSupplier nanoTime, Supplier<RandomGenerator> random, Later later) {
        static Surroundings real() {
            return new Surroundings(
                    System::nanoTime, ThreadLocalRandom::current, MessageClient::connectAfter);
        }
    }

    private final Poller poller;
    private final InetSocketAddress server;
    private final MessagingOptions options;
    private final ReconnectOptions reconnect;
    private final @Nullable MessageHandler handler;
    private final Consumer<MessageChannel> opened;
    private final Surroundings surroundings;
    private final Object lock = new Object();
    private final CompletableFuture<Status> closed = new CompletableFuture<>();

    // Guarded by the lock.
    private CompletableFuture<MessageChannel> next = new CompletableFuture<>();
    private @Nullable ConnectAttempt attempt; // that has not ended
    private @Nullable MessageChannel current; // that has not ended
    private @Nullable MessagingException reason; // null until it ends for good
    private @Nullable Throwable lastFailure;
    private int failures; // in a row
    private long attempts; // in all

    // Of the polling thread.
    private int doublings;
    private long since; // when the current channel was opened
    private boolean pausing;
    private boolean timed; // whether the poller's ticks end the pause
    private long pauseEnds;

    MessageClient(
            Poller poller,
            InetSocketAddress server,
            MessagingOptions options,
            ReconnectOptions reconnect,
            @Nullable MessageHandler handler,
            Consumer<MessageChannel> opened,
            Surroundings surroundings) {
        this.poller = poller;
        this.server = Arguments.notNull(server, "server");
        this.options = Arguments.notNull(options, "options");
        this.reconnect = Arguments.notNull(reconnect, "reconnect");
        this.handler = handler;
        this.opened = Arguments.notNull(opened, "opened");
        this.surroundings = surroundings;
    }

    /**
     * Starts to connect, and returns at once: whether it succeeds, {@link #channel} says.
     *
     * @param pollers what polls for the channels: all of a client belong to one poller
     * @param server the address that the server listens on
     * @param options how each channel is made; the deadline of its connection is that of an attempt
     * @param reconnect when to connect again
     * @param handler receives the messages of all channels; null for {@link MessageChannel#receive}
     * @param opened is given each channel once it is established, on the polling thread; must not
     *     block
     * @return the client, to be closed by the caller
     * @throws MessagingException INVALID_PARAMETER when the device has no room for what the options
     *     ask for
     */
    @CheckReturnValue
    public static MessageClient start(
            Pollers pollers,
            InetSocketAddress server,
            MessagingOptions options,
            ReconnectOptions reconnect,
            @Nullable MessageHandler handler,
            Consumer<MessageChannel> opened) {
        Arguments.notNull(options, "options");
        options.checkFits(Arguments.notNull(pollers, "pollers").adapter());
        MessageClient client =
                new MessageClient(
                        pollers.next(),
                        server,
                        options,
                        reconnect,
                        handler,
                        opened,
                        Surroundings.real());
        client.begin();
        return client;
    }

    // ---- attempts; by the polling thread

    /** Makes the first attempt. From any thread. */
    void begin() {
        poller.connections().add(this);
        poller.execute(this::connect);
    }

    /**
     * By the polling thread, at each tick: ends a pause, and does what was not done for lack of
     * memory.
     */
    void tick(long now) {
        MessageChannel channel;
        boolean idle;
        boolean ended;
        synchronized (lock) {
            channel = current;
            idle = attempts > 0 && attempt == null && channel == null;
            ended = reason != null;
        }
        if (channel != null && channel.isClosed()) {
            channelEnded(channel);
        } else if (idle && ended) {
            finish();
        } else if (timed && now - pauseEnds >= 0) {
            connect();
        } else if (idle && !pausing) {
            pause();
        }
    }

    /** By the polling thread: no tick comes any more. */
    void pollerCloses() {
        if (pausing) {
            connect(); // finds that the poller is closing
        }
    }

    private void connectAfter(long nanoseconds) {
        pauseEnds = poller.clock.now() + nanoseconds;
        timed = true;
    }

    void connect() {
        pausing = false;
        timed = false;
        if (poller.isClosing()) {
            end(Status.CANCELLED, "is closed: its poller was closed", lastFailure());
            return;
        }
        ConnectAttempt made;
        synchronized (lock) {
            if (reason != null) {
                return;
            }
            attempts++; // first: if there is no memory for it, the next tick tries again
            made = new ConnectAttempt(poller, server, options, handler, this::attempted);
            attempt = made;
        }
        made.start();
    }

    private void attempted(@Nullable MessageChannel channel, @Nullable Throwable thrown) {
        CompletableFuture<MessageChannel> waiting;
        boolean ended;
        synchronized (lock) {
            attempt = null;
            current = channel;
            ended = reason != null;
            waiting = next;
            if (channel != null) {
                failures = 0;
            } else {
                failures++;
                lastFailure = thrown;
            }
        }
        if (ended) {
            if (channel != null) {
                channel.abandon();
            }
            poller.execute(this::finish); // behind what the channel leaves to be done
        } else if (channel == null) {
            failed(Objects.requireNonNull(thrown));
        } else {
            try {
                established(channel, waiting);
            } catch (Throwable t) { // out of memory, most likely: nobody would get the channel
                channel.endFor(t);
            }
        }
    }

    private void established(MessageChannel channel, CompletableFuture<MessageChannel> waiting) {
        since = surroundings.nanoTime().getAsLong();
        var _ = channel.closed().whenComplete((status, none) -> channelEnded(channel));
        channel.opened(opened);
        if (channel.isOpen()) {
            waiting.complete(channel);
        }
    }

    private void failed(Throwable thrown) {
        Status status = thrown instanceof VerbenaException e ? e.status() : null;
        if (thrown instanceof OutOfMemoryError) {
            status = Status.INSUFFICIENT_RESOURCES; // there may be memory later
        }
        if (status == null) { // no network's doing: the adapter was closed, say
            end(Status.INTERNAL_ERROR, "cannot connect; the cause says why", thrown);
        } else if (reconnect.isLast(status)) {
            end(status, "cannot connect (%s); the cause says why".formatted(status.name()), thrown);
        } else if (failures >= reconnect.attempts()) {
            end(
                    status,
                    "has given up after %s, the last of which failed with %s; the cause says why"
                            .formatted(Text.count(failures, "attempt"), status.name()),
                    thrown);
        } else {
            pause();
        }
    }

    /** By the polling thread, when all callbacks of the channel were called. */
    private void channelEnded(MessageChannel channel) {
        MessagingException why = channel.closeReason();
        synchronized (lock) {
            if (current != channel) {
                return; // that is known
            }
            current = null;
            lastFailure = why;
            renewNext();
        }
        if (closeReason() != null) {
            finish();
        } else if (poller.isClosing()) {
            end(Status.CANCELLED, "is closed: its poller was closed", why);
        } else if (why != null && reconnect.isLast(why.status())) {
            end(
                    why.status(),
                    "does not connect again, because its channel ended with %s; the cause says why"
                            .formatted(why.status().name()),
                    why);
        } else {
            long lasted = surroundings.nanoTime().getAsLong() - since;
            if (lasted >= reconnect.longestPauseNanoseconds()) {
                doublings = 0;
            }
            pause();
        }
    }

    private void pause() {
        if (poller.isClosing()) {
            connect(); // finds that
            return;
        }
        long pause = reconnect.pauseNanoseconds(doublings++, surroundings.random().get());
        surroundings.later().connect(this, pause);
        pausing = true;
    }

    // ---- the channels

    /**
     * A future for the channel: the one that is established, or the next one.
     *
     * @return it is completed by the polling thread, and fails with a {@link MessagingException}
     *     when the client ends for good. A channel that ended is never the answer; one may end
     *     before it is used: ask again then
     */
    @CheckReturnValue
    public CompletableFuture<MessageChannel> channel() {
        return live().copy();
    }

    private CompletableFuture<MessageChannel> live() {
        synchronized (lock) {
            if (current != null && !current.isOpen()) {
                renewNext();
            }
            return next;
        }
    }

    /** The next channel is awaited, unless it is already. The caller holds the lock. */
    private void renewNext() {
        if (reason == null && next.isDone()) {
            next = new CompletableFuture<>();
        }
    }

    /**
     * Waits for a channel: the one that is established, or the next one.
     *
     * @param timeout how long to wait at most
     * @return the channel, which belongs to this client; it may have ended when it is used
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException IO_TIMEOUT when there was none in time, with the last failure as
     *     its cause; or why the client ended for good
     */
    @CheckReturnValue
    public MessageChannel channel(Duration timeout) throws InterruptedException {
        poller.checkMayWait();
        CompletableFuture<MessageChannel> waiting = live();
        if (!poller.awaitDone(waiting, timeout)) {
            throw noneInTime(timeout);
        }
        if (waiting.isCompletedExceptionally()) {
            throw Objects.requireNonNull(closeReason()).again();
        }
        return waiting.join();
    }

    private MessagingException noneInTime(Duration timeout) {
        synchronized (lock) {
            return new MessagingException(
                    Status.IO_TIMEOUT,
                    "No channel to %s within %s and %s; %s"
                            .formatted(
                                    server,
                                    Text.time(timeout),
                                    Text.count(attempts, "attempt"),
                                    lastFailure == null
                                            ? "none has failed so far"
                                            : "the cause is the last failure"),
                    lastFailure);
        }
    }

    /**
     * How many attempts to connect were made.
     *
     * @return those that succeeded, too
     */
    @CheckReturnValue
    public long attempts() {
        synchronized (lock) {
            return attempts;
        }
    }

    /**
     * Why the last attempt failed or the last channel ended, whichever was later.
     *
     * @return null if neither has happened
     */
    @CheckReturnValue
    public @Nullable Throwable lastFailure() {
        synchronized (lock) {
            return lastFailure;
        }
    }

    // ---- the end

    private void end(Status status, String why, @Nullable Throwable cause) {
        if (decide(status, why, cause)) {
            finish();
        }
    }

    /** Decides that it ends for good; false when that was decided before. */
    private boolean decide(Status status, String why, @Nullable Throwable cause) {
        CompletableFuture<MessageChannel> waiting;
        MessagingException made =
                new MessagingException(status, "The client of %s %s".formatted(server, why), cause);
        synchronized (lock) {
            if (reason != null) {
                return false;
            }
            reason = made;
            waiting = next;
            if (next.isDone()) { // the channel that ends now, too
                next = new CompletableFuture<>();
                next.completeExceptionally(made);
            }
        }
        waiting.completeExceptionally(made);
        return true;
    }

    /** Nothing of it is left. */
    private void finish() {
        poller.connections().remove(this);
        MessagingException why = Objects.requireNonNull(closeReason());
        closed.complete(why.status());
    }

    /**
     * Why it ended for good.
     *
     * @return null while it connects again
     */
    @CheckReturnValue
    public @Nullable MessagingException closeReason() {
        synchronized (lock) {
            return reason;
        }
    }

    /**
     * A future that is done when the client has ended for good, and its channel, too.
     *
     * @return its value is the reason, as in {@link #closeReason}; it is completed by the polling
     *     thread or by the one that closes
     */
    @CheckReturnValue
    public CompletableFuture<Status> closed() {
        return closed.copy();
    }

    /**
     * Ends it: aborts an attempt, or {@linkplain MessageChannel#close closes} the channel, and
     * waits for the end. A handler or callback may call it, too: then it does not wait.
     *
     * @throws MessagingException IO_TIMEOUT as {@link MessageChannel#close}
     */
    @Override
    public void close() {
        ConnectAttempt aborted;
        MessageChannel last;
        boolean _ = decide(Status.CANCELLED, "is closed: this side closed it", null);
        synchronized (lock) {
            aborted = attempt;
            last = current;
        }
        if (aborted != null) {
            aborted.cancel();
        } else if (last != null) {
            last.close();
        } else {
            finish(); // it was in a pause
        }
        poller.awaitClosed(this, closed, Duration.ZERO);
    }

    @Override
    public String toString() {
        synchronized (lock) {
            String state =
                    reason != null
                            ? "closed"
                            : current != null
                                    ? "connected"
                                    : attempt != null ? "connecting" : "in a pause";
            return "MessageClient of %s, %s, %s"
                    .formatted(server, state, Text.count(attempts, "attempt"));
        }
    }
}
