package dev.verbena.messaging;

import dev.verbena.Connector;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Log;

import org.jspecify.annotations.Nullable;

/**
 * Accepts a peer's request as a channel. Runs on the polling thread, as the queues of a poller may
 * be confined to it, and never waits there.
 */
final class AcceptAttempt {
    /** What becomes of it. By the polling thread, except for {@link #failed}, by any. */
    interface Listener {
        /** A channel was made, whose end says how it went on; throws to refuse the peer. */
        void made(MessageChannel channel);

        /** The channel stands. */
        void opened(MessageChannel channel);

        void failed(Throwable thrown);
    }

    private final Poller poller;
    private final Connector connector;
    private final MessagingOptions options;
    private final @Nullable MessageHandler handler;
    private final Listener listener;

    /** The poller counts the channel from now on. */
    AcceptAttempt(
            Poller poller,
            Connector connector,
            MessagingOptions options,
            @Nullable MessageHandler handler,
            Listener listener) {
        this.poller = poller;
        this.connector = connector;
        this.options = options;
        this.handler = handler;
        this.listener = listener;
        poller.connections().accepting.incrementAndGet();
    }

    /** From any thread. If it throws, the request is not answered. */
    void start() {
        try {
            poller.execute(this::accept);
        } catch (Throwable t) {
            poller.connections().accepting.decrementAndGet();
            throw t;
        }
    }

    private void accept() {
        MessageChannel channel = null;
        try {
            Handshake peer;
            MessageChannel made;
            try {
                if (poller.isClosing()) {
                    throw new MessagingException(
                            Status.CONNECTION_REFUSED, "the server's poller was closed");
                }
                peer = Handshake.read(connector.connectionData().privateData());
                made = new MessageChannel(poller, options, handler);
            } finally {
                poller.connections()
                        .accepting
                        .decrementAndGet(); // from now on, the channel itself counts
            }
            channel = made;
            listener.made(made);
            made.agree(peer); // before the peer may send
            made.open(connector);
            var _ =
                    connector
                            .acceptAsync(made.pair, options.connection(poller.adapter()))
                            .whenComplete((nothing, thrown) -> accepted(made, thrown));
        } catch (Throwable t) {
            if (channel != null) {
                channel.abandon();
            }
            refuse(t);
            listener.failed(t);
        }
    }

    /** The peer, or this side's log, learns why: memory and the like are not the peer's concern. */
    private void refuse(Throwable thrown) {
        if (thrown instanceof MessagingException e) {
            new Refusal(e.status(), String.valueOf(e.getMessage())).reject(connector);
            return;
        }
        Log.error(
                "No channel could be created for %s, which was refused".formatted(connector),
                thrown);
        String status =
                thrown instanceof VerbenaException e ? " (%s)".formatted(e.status().name()) : "";
        Refusal.forNow("the server cannot create a channel" + status + "; its log says why")
                .reject(connector);
    }

    private void accepted(MessageChannel channel, @Nullable Throwable thrown) {
        Throwable why = thrown;
        try {
            if (why == null) {
                poller.execute(() -> opened(channel));
            } else {
                channel.abandon();
            }
        } catch (Throwable t) {
            channel.fail(Status.INTERNAL_ERROR, "it could not be opened", t);
            why = t;
        }
        if (why != null) {
            listener.failed(why);
        }
    }

    private void opened(MessageChannel channel) {
        try {
            channel.established(); // what waits is posted: by the polling thread
            listener.opened(channel);
        } catch (Throwable t) {
            channel.fail(Status.INTERNAL_ERROR, "it could not be opened", t);
            listener.failed(t);
        }
    }
}
