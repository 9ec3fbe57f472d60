package dev.verbena.messaging;

import dev.verbena.Connector;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * One attempt to connect a channel. Runs on the polling thread, as the queues of a poller may be
 * confined to it, and never waits there.
 */
final class ConnectAttempt {
    /** Called once, by the polling thread, with either of the two. */
    interface Listener {
        void ended(@Nullable MessageChannel channel, @Nullable Throwable thrown);
    }

    private final Poller poller;
    private final InetSocketAddress server;
    private final MessagingOptions options;
    private final @Nullable MessageHandler handler;
    private final Listener listener;
    private volatile boolean cancelled;
    private volatile @Nullable CompletableFuture<Void> answer;
    private volatile @Nullable Throwable refused;

    ConnectAttempt(
            Poller poller,
            InetSocketAddress server,
            MessagingOptions options,
            @Nullable MessageHandler handler,
            Listener listener) {
        this.poller = poller;
        this.server = server;
        this.options = options;
        this.handler = handler;
        this.listener = listener;
    }

    static CompletableFuture<MessageChannel> async(
            Poller poller,
            InetSocketAddress server,
            MessagingOptions options,
            @Nullable MessageHandler handler) {
        CompletableFuture<MessageChannel> future = new CompletableFuture<>();
        ConnectAttempt attempt =
                new ConnectAttempt(
                        poller,
                        server,
                        options,
                        handler,
                        (channel, thrown) -> {
                            if (channel == null) {
                                future.completeExceptionally(Objects.requireNonNull(thrown));
                            } else if (!future.complete(channel)) {
                                channel.beginClose(); // it was cancelled
                            }
                        });
        var _ = future.whenComplete((channel, thrown) -> attempt.cancel()); // if it is cancelled
        poller.execute(attempt::start);
        return future;
    }

    /** By the polling thread. */
    void start() {
        MessageChannel channel = null;
        try {
            MessageChannel made = new MessageChannel(poller, options, handler);
            channel = made;
            Connector by = poller.adapter().createConnector();
            made.open(by);
            CompletableFuture<Void> asked =
                    by.connectAsync(made.pair, server, options.connection(poller.adapter()));
            answer = asked;
            Tasks.Task then = new Tasks.Task(() -> answered(made, by), false); // needs no memory
            if (cancelled) { // before the answer could be seen
                asked.cancel(false);
            }
            var _ =
                    asked.whenComplete(
                            (nothing, thrown) -> {
                                refused = thrown;
                                poller.execute(then);
                            });
        } catch (Throwable t) {
            Throwable why = t;
            if (channel != null) {
                why = t instanceof IllegalStateException e ? channel.reasonBehind(e) : t;
                channel.abandon();
            }
            listener.ended(null, why);
        }
    }

    private void answered(MessageChannel channel, Connector connector) {
        Throwable thrown = refused;
        try {
            if (thrown != null) {
                throw thrown;
            }
            // Before the peer may send.
            channel.agree(Handshake.read(connector.connectionData().privateData()));
            connector.completeConnect();
            channel.established();
        } catch (Throwable t) {
            Throwable why = t instanceof IllegalStateException e ? channel.reasonBehind(e) : t;
            channel.notConnected(connector, why);
            listener.ended(
                    null,
                    why instanceof VerbenaException e
                            ? Refusal.explain(e, channel.connectionData, server)
                            : why);
            return;
        }
        listener.ended(channel, null);
    }

    /** Aborts it, if it has not ended. From any thread; the listener is called nevertheless. */
    void cancel() {
        cancelled = true;
        CompletableFuture<Void> asked = answer;
        if (asked != null) {
            asked.cancel(false);
        }
    }
}
