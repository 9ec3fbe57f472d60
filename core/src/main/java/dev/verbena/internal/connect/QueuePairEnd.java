package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.StateChange;

/** What a connection needs of the queue pair at its end; the public queue pair hands it out. */
public interface QueuePairEnd {
    /**
     * Its number, by which the peer finds it.
     *
     * @return 24 bits
     */
    int number();

    /**
     * Its address, by which asynchronous events name it.
     *
     * @return of the {@code ibv_qp}
     */
    long address();

    /**
     * Whether its receives come from a shared queue.
     *
     * @return false for a queue of its own
     */
    boolean sharedReceives();

    /**
     * Whether it has tokens that a send of the peer's may invalidate.
     *
     * @return true on devices with windows
     */
    boolean invalidatable();

    /**
     * How many reads and atomics it lets in.
     *
     * @return 0 to 255
     */
    int inboundReads();

    /**
     * How many reads and atomics it wants to have under way.
     *
     * @return 0 to 255
     */
    int outboundReads();

    /**
     * Whether it may be connected still.
     *
     * @return false when it was closed or flushed meanwhile
     */
    boolean usable();

    /**
     * Takes a step towards the connection, after changing what it wants otherwise.
     *
     * @param change as the connection manager wants it
     * @return 0, or a negative errno
     */
    int change(StateChange change);

    /**
     * Lets posts through.
     *
     * @param peerInvalidatable whether sends may invalidate tokens of the peer's
     * @param onDeath what to do when a request has failed, and with it the connection; called by
     *     who polls
     */
    void open(boolean peerInvalidatable, Runnable onDeath);

    /** Refuses posts from now on; nothing that is under way is touched. */
    void shut();

    /** Refuses posts, and sees to it that {@link #drained} can find out. */
    void drain();

    /**
     * Whether all initiator requests have ended.
     *
     * @return true when nothing is under way
     */
    boolean drained();

    /** Cancels all that is under way: the queue pair goes to the error state. */
    void flush();

    /**
     * The connection does not need it any more.
     *
     * @param fresh whether it was not touched, so that it may be connected
     */
    void release(boolean fresh);
}
