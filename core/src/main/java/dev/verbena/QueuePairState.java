package dev.verbena;

/** How far a queue pair has come, as far as is known here without asking the device. */
public enum QueuePairState {
    /** It was not connected yet. Receives may be posted. */
    INITIALIZED,
    /** {@link QueuePair#connect} is running, or a {@link Connector} is making a connection. */
    CONNECTING,
    /** Initiator requests may be posted. */
    CONNECTED,
    /**
     * The connection is over, or is being ended: the peer has disconnected, {@link
     * Connector#disconnect} still waits for requests that are outstanding, or the provider refused
     * a post after others had been accepted. Initiator requests are refused, what is outstanding is
     * not cancelled, and receives stay posted until {@link QueuePair#flush}, {@link
     * Connector#disconnect} or a close.
     */
    DISCONNECTED,
    /**
     * A request failed, and with it the connection: its completion was polled, or a poll found the
     * queue pair in the device's error state. Initiator requests are refused, and receives end in
     * CANCELLED.
     */
    FAILED,
    /**
     * {@link QueuePair#flush} or {@link Connector#disconnect} cancelled what was outstanding.
     * Initiator requests are refused, and receives end in CANCELLED.
     */
    FLUSHED,
    /** It was closed. */
    CLOSED
}
