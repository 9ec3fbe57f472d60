package dev.verbena.internal.events;

import jdk.jfr.Description;
import jdk.jfr.Label;
import jdk.jfr.Name;

/** A token of this side was invalidated. */
@Name("dev.verbena.WindowInvalidated")
@Label("Window Invalidated")
@Description(
        "A token of this side was invalidated: an invalidate of this side was accepted, or a message that did so was polled")
public final class WindowInvalidatedEvent extends WindowEvent {
    private static final WindowInvalidatedEvent SETTINGS = new WindowInvalidatedEvent();

    @Label("By Peer")
    @Description("By a message of the peer, not by a request of this side")
    boolean byPeer;

    private WindowInvalidatedEvent() {}

    /** Whether a recording wants it. Allocates nothing. */
    public static boolean wanted() {
        return SETTINGS.isEnabled();
    }

    /** Records it. */
    public static void record(String device, int queuePair, int token, boolean byPeer) {
        WindowInvalidatedEvent event = new WindowInvalidatedEvent();
        event.device = device;
        event.queuePair = queuePair;
        event.token = token;
        event.byPeer = byPeer;
        event.commit();
    }
}
