package dev.verbena.internal.connect;

import dev.verbena.Status;
import dev.verbena.internal.verbs.ConnectionEvent;

/** How an established connection has ended. */
public enum CloseReason {
    /** This side disconnected or closed. */
    LOCAL(Status.SUCCESS),
    /** The peer disconnected, or its process ended. */
    PEER(Status.CONNECTION_INVALID),
    /** The connection manager gave it up: the network has failed, or the peer's machine. */
    LOST(Status.CONNECTION_ABORTED),
    /** A request failed, and with it the connection. */
    REQUEST_FAILED(Status.CONNECTION_ABORTED),
    /** The device is gone. */
    DEVICE_REMOVED(Status.DEVICE_REMOVED),
    /** The adapter's event thread ended: nothing is known of the connection any more. */
    EVENT_THREAD_ENDED(Status.INTERNAL_ERROR);

    private final Status status;

    CloseReason(Status status) {
        this.status = status;
    }

    /** Which one an event means. After LOST, what the peer sent last may not have arrived. */
    static CloseReason of(ConnectionEvent event) {
        boolean closed =
                event.kind() == ConnectionEvent.Kind.DISCONNECTED
                        ? event.status() == 0
                        : event.rejectedByProgram();
        return closed ? PEER : LOST;
    }

    /** The status that the program's callback receives. */
    public Status status() {
        return status;
    }
}
