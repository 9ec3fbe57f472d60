package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.CompletableFuture;

/** A queue pair was connected, or could not be. */
@Name("dev.verbena.Connect")
@Label("Connect")
@Category({"Verbena", "Connections"})
@Description("A queue pair was connected, or could not be")
@Enabled(false)
public final class ConnectEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Queue Pair")
    @Description("The number of this side's queue pair (qp_num)")
    int queuePair;

    @Label("Side")
    @Description("connect, accept, or by address")
    String side = "";

    @Label("Peer")
    String peer = "";

    @Label("Failure")
    @Description("Why there is no connection; empty if there is one")
    String failure = "";

    private ConnectEvent() {}

    /**
     * Begins to measure.
     *
     * @param peer the peer's address, if it is known
     */
    public static ConnectEvent start(
            String side, String device, int queuePair, @Nullable Object peer) {
        ConnectEvent event = new ConnectEvent();
        event.begin();
        event.side = side;
        event.device = device;
        event.queuePair = queuePair;
        event.peer = peer == null ? "" : peer.toString();
        return event;
    }

    /** Ends it when a future does. */
    public void endWith(CompletableFuture<Void> step) {
        var _ = step.whenComplete((_, failure) -> end(failure));
    }

    /**
     * Ends it.
     *
     * @param thrown why there is no connection, or null
     */
    public void end(@Nullable Throwable thrown) {
        if (shouldCommit()) {
            failure = thrown == null ? "" : String.valueOf(thrown.getMessage());
            commit();
        }
    }
}
