package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Log;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * Accepts channels, up to a number of them at a time; further peers are refused and read why.
 *
 * {@snippet file="dev/verbena/examples/MessageEcho.java" region="serve"}
 *
 * <p>The channels belong to the server until they end: {@link #close} closes them.
 */
public final class MessageServer implements AutoCloseable {
    private static final String STOPS = "the server stops";

    private final Pollers pollers;
    private final MessagingOptions options;
    private final int most;
    private final @Nullable MessageHandler handler;
    private final Consumer<MessageChannel> opened;
    private final AtomicInteger count = new AtomicInteger();
    private final AtomicBoolean fullLogged = new AtomicBoolean(); // until a channel has ended
    private final Set<MessageChannel> channels = ConcurrentHashMap.newKeySet();
    private final Listener listener;
    private volatile boolean stopping;

    private MessageServer(
            Pollers pollers,
            InetSocketAddress address,
            MessagingOptions options,
            int most,
            @Nullable MessageHandler handler,
            Consumer<MessageChannel> opened) {
        Arguments.notNull(pollers, "pollers");
        Arguments.notNull(address, "address");
        Arguments.notNull(options, "options");
        Arguments.notNull(opened, "opened");
        if (most < 1) {
            throw new IllegalArgumentException(
                    "A server has 1 or more channels at a time, not " + most);
        }
        options.checkFits(pollers.adapter());
        this.pollers = pollers;
        this.options = options;
        this.most = most;
        this.handler = handler;
        this.opened = opened;
        this.listener = pollers.adapter().listen(address, 0, this::request);
    }

    /**
     * Listens for channels.
     *
     * @param pollers what polls for them: each channel belongs to {@link Pollers#next}
     * @param address an address of the device; port 0 lets the kernel choose
     * @param options how each channel is made
     * @param most how many channels may be open at a time, at least 1
     * @param handler receives the messages of all; null for {@link MessageChannel#receive}. It may
     *     get a channel's first messages before {@code opened} gets the channel
     * @param opened is given each channel once it is established, on the thread of its poller; must
     *     not block
     * @return the server, to be closed by the caller
     * @throws VerbenaException as {@link dev.verbena.Adapter#listen} does; a {@link
     *     MessagingException} with INVALID_PARAMETER when the device has no room for what the
     *     options ask for
     */
    @CheckReturnValue
    public static MessageServer listen(
            Pollers pollers,
            InetSocketAddress address,
            MessagingOptions options,
            int most,
            @Nullable MessageHandler handler,
            Consumer<MessageChannel> opened) {
        return new MessageServer(pollers, address, options, most, handler, opened);
    }

    /**
     * Accepts a peer's request as a channel, on a poller that the program chooses, and returns at
     * once. A server from {@link #listen} chooses pollers itself, and limits the number of
     * channels.
     *
     * @param poller polls for the channel
     * @param request of a peer that connects a channel, from {@link dev.verbena.Adapter#listen}. It
     *     is answered, unless this call throws: a peer that is no channel is refused
     * @param options how the channel is made
     * @param handler receives its messages, the first ones perhaps before the future is completed;
     *     null for {@link MessageChannel#receive}
     * @return a future of the channel, which is completed by the polling thread; or why the peer
     *     was refused, or gave up. If it is cancelled, the channel is closed once it is established
     * @throws MessagingException INVALID_PARAMETER when the device has no room for what the options
     *     ask for
     */
    @CheckReturnValue
    public static CompletableFuture<MessageChannel> acceptAsync(
            Poller poller,
            Connector request,
            MessagingOptions options,
            @Nullable MessageHandler handler) {
        Arguments.notNull(poller, "poller");
        Arguments.notNull(request, "request");
        Arguments.notNull(options, "options").checkFits(poller.adapter());
        CompletableFuture<MessageChannel> future = new CompletableFuture<>();
        new AcceptAttempt(
                        poller,
                        request,
                        options,
                        handler,
                        new AcceptAttempt.Listener() {
                            @Override
                            public void made(MessageChannel channel) {}

                            @Override
                            public void opened(MessageChannel channel) {
                                if (!future.complete(channel)) {
                                    channel.beginClose(); // it was cancelled
                                }
                            }

                            @Override
                            public void failed(Throwable thrown) {
                                poller.execute(() -> future.completeExceptionally(thrown));
                            }
                        })
                .start();
        return future;
    }

    /** On a thread of the listener's. */
    private void request(Connector connector) {
        String refusal = null;
        if (stopping) {
            refusal = STOPS;
        } else if (!takesPlace()) {
            refusal =
                    "its limit of %s is reached: try again when one has closed"
                            .formatted(Text.count(most, "channel"));
            if (fullLogged.compareAndSet(false, true)) {
                Log.warn(
                        "A peer was refused by %s: %s. This is logged again only after a channel has closed"
                                .formatted(this, refusal),
                        null);
            }
        }
        if (refusal != null) {
            Refusal.forNow(refusal).reject(connector);
            return;
        }
        try {
            AcceptAttempt attempt;
            Place place = new Place();
            synchronized (channels) { // other threads of the listener count this one
                attempt = new AcceptAttempt(pollers.next(), connector, options, handler, place);
            }
            attempt.start();
        } catch (Throwable t) {
            count.decrementAndGet();
            throw t; // the listener refuses the peer
        }
    }

    private boolean takesPlace() {
        return count.getAndUpdate(taken -> Math.min(taken + 1, most)) < most;
    }

    /** What a channel takes of the limit, until it ends or does not come about. */
    private final class Place implements AcceptAttempt.Listener {
        private boolean taken; // whether its channel's end gives it back

        @Override
        public void made(MessageChannel channel) {
            channel.whenClosed = () -> ended(channel);
            taken = channels.add(channel);
            if (stopping) { // close() may have been too early to see the channel
                throw new MessagingException(Status.CONNECTION_REFUSED, STOPS);
            }
        }

        @Override
        public void opened(MessageChannel channel) {
            channel.opened(opened);
        }

        @Override
        public void failed(Throwable thrown) {
            if (!taken) {
                count.decrementAndGet();
            }
        }
    }

    private void ended(MessageChannel channel) {
        if (channels.remove(channel)) {
            fullLogged.set(false);
            count.decrementAndGet();
        }
    }

    /**
     * The address that peers connect to.
     *
     * @return the address, with the actual port if port 0 was asked for
     */
    @CheckReturnValue
    public InetSocketAddress localAddress() {
        return listener.localAddress();
    }

    /**
     * How many channels are open or being accepted.
     *
     * @return 0 to the most that may be
     */
    @CheckReturnValue
    public int channelCount() {
        return count.get();
    }

    /**
     * Refuses further peers, gives the open channels time to end by themselves, and closes those
     * that have not.
     *
     * @param within how long the channels have
     * @return whether all ended by themselves
     * @throws InterruptedException when the thread is interrupted while it waits; then the channels
     *     stay open
     */
    public boolean stop(Duration within) throws InterruptedException {
        pollers.all().forEach(Poller::checkMayWait);
        stopping = true;
        CompletableFuture<Void> all =
                CompletableFuture.allOf(
                        channels.stream()
                                .map(MessageChannel::closed)
                                .toArray(CompletableFuture<?>[]::new));
        boolean inTime = pollers.next().awaitDone(all, within);
        close();
        return inTime;
    }

    /**
     * Refuses further peers, and closes the channels that are open, all at once: see {@link
     * MessageChannel#close}. A handler or callback may call it, too: then it does not wait.
     *
     * @throws MessagingException IO_TIMEOUT as {@link MessageChannel#close}
     */
    @Override
    public void close() {
        stopping = true;
        listener.close();
        List<MessageChannel> all = List.copyOf(channels);
        all.forEach(MessageChannel::beginClose);
        all.forEach(MessageChannel::close);
    }

    @Override
    public String toString() {
        return "MessageServer on %s, %,d of %s"
                .formatted(listener, channelCount(), Text.count(most, "channel"));
    }
}
