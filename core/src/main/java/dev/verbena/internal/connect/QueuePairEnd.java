package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.StateChange;

/**
 * What a connection needs of this side's queue pair. The public queue pair implements it, for one
 * connector at a time.
 */
public interface QueuePairEnd {
    /** Its number, by which the peer finds it. */
    int number();

    /** Its address, by which asynchronous events name it. */
    long address();

    /**
     * Whether its receives come from a shared queue.
     *
     * @return false for a queue of its own
     */
    boolean sharedReceives();

    /** Whether it has remote keys (NDK: tokens) that a send of the peer's may invalidate. */
    boolean invalidatable();

    /** How many reads and atomics it lets in. */
    int inboundReads();

    /** How many reads and atomics it wants to have outstanding. */
    int outboundReads();

    /**
     * How often it sends an unacknowledged packet again; a request asks the same of the peer.
     *
     * @return 0 to 7
     */
    int retries();

    /**
     * The traffic class that a request asks for.
     *
     * @return 0 to 255, or -1 to leave it to the connection manager
     */
    int trafficClass();

    /**
     * Whether it can still be connected.
     *
     * @return false when it was closed or flushed meanwhile
     */
    boolean usable();

    /**
     * Moves it to its next state ({@code ibv_modify_qp}), after adapting the attributes.
     *
     * @param change the attributes as the connection manager filled them in
     */
    int change(StateChange change);

    /**
     * Lets posts through.
     *
     * @param peerInvalidatable whether sends may invalidate tokens of the peer's
     * @param onFailure called when a request has failed, and with it the connection, by the thread
     *     that polled its completion
     * @return false when one had failed before this: the peer may send as soon as it is ready to
     *     receive
     */
    boolean open(boolean peerInvalidatable, Runnable onFailure);

    /** Refuses posts from now on; outstanding requests go on. */
    void shut();

    /** Refuses posts, and has the device signal what {@link #drained} waits for. */
    void drain();

    /** Whether all requests of the send queue have ended. */
    boolean drained();

    /** Moves it to the error state, which cancels everything that is posted. */
    void flush();

    /**
     * Ends the connection's use of it; a second call does nothing.
     *
     * @param fresh whether its state was not changed, so that it may be connected again
     */
    void release(boolean fresh);
}
