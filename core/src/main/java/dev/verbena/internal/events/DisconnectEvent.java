package dev.verbena.internal.events;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Enabled;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;

import org.jspecify.annotations.Nullable;

/** A connection has ended. */
@Name("dev.verbena.Disconnect")
@Label("Disconnect")
@Category({"Verbena", "Connections"})
@Description("A connection has ended")
@Enabled(false)
@StackTrace(false)
public final class DisconnectEvent extends Event {
    @Label("Device")
    String device = "";

    @Label("Queue Pair")
    @Description("The number of this side's queue pair (qp_num)")
    int queuePair;

    @Label("Peer")
    String peer = "";

    @Label("Reason")
    @Description("LOCAL, PEER, REQUEST_FAILED, DEVICE_REMOVED, or EVENT_THREAD_ENDED")
    String reason = "";

    private DisconnectEvent() {}

    /**
     * Records it.
     *
     * @param peer the peer's address, if it is known
     */
    public static void record(String device, int queuePair, @Nullable Object peer, String reason) {
        DisconnectEvent event = new DisconnectEvent();
        if (event.shouldCommit()) {
            event.device = device;
            event.queuePair = queuePair;
            event.peer = peer == null ? "" : peer.toString();
            event.reason = reason;
            event.commit();
        }
    }
}
