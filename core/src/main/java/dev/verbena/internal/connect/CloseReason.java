package dev.verbena.internal.connect;

/** How an established connection has ended. */
public enum CloseReason {
    /** This side disconnected or closed. */
    LOCAL,
    /** The peer disconnected, or its process ended. */
    PEER,
    /** A request failed, and with it the connection. */
    REQUEST_FAILED,
    /** The device is gone. */
    DEVICE_REMOVED,
    /** The adapter's event thread ended: nothing is known of the connection any more. */
    EVENT_THREAD_ENDED
}
