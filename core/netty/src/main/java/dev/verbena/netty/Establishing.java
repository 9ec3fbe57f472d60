package dev.verbena.netty;

import dev.verbena.AdapterInfo;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Port;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;

import io.netty.channel.ChannelPromise;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ConnectionPendingException;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * How an {@link RdmaChannel} gets its connection: it connects, or it accepts a peer. Used by its
 * event loop.
 */
final class Establishing {
    private static final Duration NO_TIMEOUT = Duration.ofDays(365);

    /** Longer than it takes to send a reply of the connection manager twice. */
    static final Duration MOST_OF_ACCEPT = Duration.ofSeconds(10);

    private final RdmaChannel channel;
    private final RdmaChannelConfig config;
    private final @Nullable Connector request; // that it accepts
    private @Nullable CompletableFuture<MessageChannel> attempt;
    private @Nullable ChannelPromise promise; // of a connect
    private boolean stands;
    private final AtomicBoolean counted = new AtomicBoolean(); // as one that is to be accepted

    Establishing(RdmaChannel channel, RdmaChannelConfig config, @Nullable Connector request) {
        this.channel = channel;
        this.config = config;
        this.request = request;
        if (request != null) {
            server().accepts();
            counted.set(true);
            try {
                var _ = request.closed().whenComplete((nothing, why) -> acceptedOrNot());
            } catch (Throwable t) { // no memory: the server refuses the peer
                acceptedOrNot();
                throw t;
            }
        }
    }

    private RdmaServerChannel server() {
        return (RdmaServerChannel) Objects.requireNonNull(channel.parent());
    }

    /** Accepted, refused, or gone: others may be accepted. */
    private void acceptedOrNot() {
        if (counted.getAndSet(false)) {
            server().accepted();
        }
    }

    /** Whether it has begun, and the connection is not established yet. */
    boolean pends() {
        return attempt != null;
    }

    boolean accepts() {
        return request != null;
    }

    /**
     * Connects.
     *
     * @throws ConnectionPendingException if it does so already
     */
    void connect(InetSocketAddress peer, @Nullable InetSocketAddress from, ChannelPromise of) {
        if (promise != null) {
            throw new ConnectionPendingException();
        }
        CompletableFuture<MessageChannel> made =
                MessageChannel.connectAsync(
                        channel.handler().poller(),
                        reachable(peer),
                        options(from),
                        (messages, message) -> channel.received(message));
        promise = of;
        attempt = made;
        of.addListener(
                future -> {
                    if (future.isCancelled()) {
                        close();
                    }
                });
        var _ = made.whenComplete((messages, why) -> connected(peer, from, messages, why));
    }

    /** For the JDK's sockets, too, the wildcard address is this machine. */
    private InetSocketAddress reachable(InetSocketAddress peer) {
        if (peer.getAddress().isAnyLocalAddress()) {
            for (Port port : channel.handler().adapter().ports()) {
                if (port.active()) {
                    return new InetSocketAddress(
                            port.preferredGid().gid().toInetAddress(), peer.getPort());
                }
            }
        }
        return peer;
    }

    private void connected(
            InetSocketAddress peer,
            @Nullable InetSocketAddress from,
            @Nullable MessageChannel messages,
            @Nullable Throwable thrown) {
        attempt = null;
        ChannelPromise waits = promise;
        promise = null;
        if (waits == null) { // it was closed meanwhile, which has cancelled the attempt
            return;
        }
        Throwable why = messages == null ? thrown : failureToStand(messages);
        if (why != null) {
            var _ = waits.tryFailure(channel.rdmaUnsafe().whyNot(why, peer, from));
            close();
            return;
        }
        boolean told = waits.trySuccess();
        channel.pipeline().fireChannelActive(); // also if a listener has closed it
        channel.begins();
        if (!told) { // cancelled meanwhile
            close();
        }
    }

    /** Accepts the peer. The channel is registered when the connection is established. */
    void accept(ChannelPromise registered) {
        CompletableFuture<MessageChannel> made =
                MessageServer.acceptAsync(
                        channel.handler().poller(),
                        Objects.requireNonNull(request),
                        options(null),
                        (messages, message) -> channel.received(message));
        attempt = made;
        var _ =
                made.whenComplete(
                        (messages, why) -> {
                            try {
                                accepted(messages, why, registered);
                            } finally {
                                acceptedOrNot(); // last: it may throw
                            }
                        });
    }

    private void accepted(
            @Nullable MessageChannel messages,
            @Nullable Throwable thrown,
            ChannelPromise registered) {
        attempt = null;
        Throwable why = messages == null ? thrown : failureToStand(messages);
        if (why != null) {
            channel.notRegistered(registered, Exceptions.ofAccept(why));
        } else {
            registered.setSuccess(); // which makes it active
            channel.begins();
        }
    }

    /** The connection is established. Returns why the channel cannot use it, or null. */
    private @Nullable Throwable failureToStand(MessageChannel messages) {
        stands = true;
        try {
            channel.stands(messages);
            return null;
        } catch (Throwable t) { // out of memory
            return t;
        }
    }

    private void close() {
        channel.unsafe().close(channel.voidPromise());
    }

    /** The channel is closed. */
    void end() {
        ChannelPromise waits = promise;
        promise = null;
        if (waits != null) {
            var _ = waits.tryFailure(new ClosedChannelException());
        }
        if (attempt != null) {
            var _ = attempt.cancel(false);
        } else if (!stands && request != null) {
            request.close(); // refuses the peer
        }
    }

    static Duration deadline(int millis, boolean accepts) {
        Duration most = accepts ? MOST_OF_ACCEPT : NO_TIMEOUT;
        return millis == 0 || millis > most.toMillis() ? most : Duration.ofMillis(millis);
    }

    private MessagingOptions options(@Nullable InetSocketAddress from) {
        RdmaIoHandler handler = channel.handler();
        MessagingOptions messaging = handler.options().messaging();
        Duration deadline = deadline(config.getConnectTimeoutMillis(), accepts());
        ConnectionOptions connection = messaging.connection().withDeadline(deadline);
        if (from != null) {
            connection = connection.withLocalAddress(from);
        }
        if (config.getTrafficClass() != RdmaChannelConfig.NO_TRAFFIC_CLASS) {
            connection =
                    connection.withPath(
                            connection.path().withTrafficClass(config.getTrafficClass()));
        }
        AdapterInfo info = handler.adapter().info();
        if (!info.invalidatableWindows() || !info.sendsWithInvalidate()) {
            messaging =
                    messaging.withMaxMessage(
                            messaging.eagerLimit()); // all messages come to receives there
        }
        return messaging.withConnection(connection);
    }
}
