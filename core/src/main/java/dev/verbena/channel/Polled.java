package dev.verbena.channel;

import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.CompletableFuture;

/** What a {@link Poller} polls for: the attachment of a queue pair. */
abstract class Polled {
    /** A completion of its queue pair's. By the polling thread. */
    abstract void completed(Completions from, int index);

    /** Looks at deadlines. By the polling thread. */
    abstract void tick(int now);

    /** Whether its queue pair reports to that queue. */
    abstract boolean reportsTo(PollerQueue queue);

    /** Whether messages take their receives from there. */
    boolean takesFrom(RawReceives receives) {
        return false;
    }

    /** Ends it, if it has not ended before. From any thread; does not wait. */
    abstract void fail(Status status, String why, @Nullable Throwable cause);

    /**
     * Disconnects the peer, which waits for what is outstanding, then does the rest of a close: at
     * once if the connector is closed, by the program or by an end for another reason, which was
     * noted before.
     */
    static void disconnect(Connector by, ConnectionOptions options, Runnable then) {
        CompletableFuture<Void> ended;
        try {
            ended = by.disconnectAsync(options);
        } catch (IllegalStateException closed) {
            then.run();
            return;
        }
        var _ = ended.whenComplete((nothing, thrown) -> then.run());
    }
}
