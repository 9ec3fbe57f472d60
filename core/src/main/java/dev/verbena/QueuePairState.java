package dev.verbena;

/** The state of a queue pair, as this library knows it without querying the device. */
public enum QueuePairState {
    /** Not connected yet. Receives may be posted. */
    INITIALIZED,
    /**
     * {@link QueuePair#connect} is running, or a {@link Connector} is establishing a connection.
     */
    CONNECTING,
    /** Requests may be posted to the send queue (NDK: initiator queue). */
    CONNECTED,
    /**
     * The connection ended or is being ended: the peer has disconnected, {@link
     * Connector#disconnect} is still waiting for outstanding requests, or the provider refused a
     * post after it had accepted others. Send queue requests are refused, outstanding requests are
     * not cancelled, and receives stay posted until {@link QueuePair#flush}, {@link
     * Connector#disconnect} or a close.
     */
    DISCONNECTED,
    /**
     * A request failed, which ends the connection: its completion was polled, or a poll found the
     * queue pair in the device's error state. Send queue requests are refused, and receives end in
     * CANCELLED.
     */
    FAILED,
    /**
     * {@link QueuePair#flush} or {@link Connector#disconnect} cancelled all outstanding requests.
     * Send queue requests are refused, and receives end in CANCELLED.
     */
    FLUSHED,
    /** Closed. */
    CLOSED
}
