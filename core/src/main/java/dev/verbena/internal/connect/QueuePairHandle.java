package dev.verbena.internal.connect;

import dev.verbena.ConnectionData;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.verbs.ConnectionParameters;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.StateChange;

/**
 * The operations of a connection on this side's queue pair, from the call that names the queue pair
 * until it is released. Used by one connector at a time. Its subclass in the API's package knows
 * the queue pair.
 *
 * <p>Remembers whether the queue pair was changed: one that was not may be connected again, one
 * that was has to be flushed.
 */
public abstract class QueuePairHandle {
    /** How calls of the queue pair begin in messages. */
    static final String CALL = "ibv_modify_qp";

    /**
     * The properties that do not change while a connection uses the queue pair.
     *
     * @param number by which the peer finds it
     * @param sharedReceives whether its receives come from a shared queue
     * @param invalidatable whether it has remote keys (NDK: tokens) that a send of the peer's may
     *     invalidate
     * @param inboundReads how many reads and atomics it lets in
     * @param outboundReads how many reads and atomics it wants to have outstanding
     * @param retries how often it sends an unacknowledged packet again, 0 to 7; a request asks the
     *     same of the peer
     * @param trafficClass the traffic class that a request asks for, 0 to 255, or -1 to leave it to
     *     the connection manager
     */
    public record Traits(
            int number,
            boolean sharedReceives,
            boolean invalidatable,
            int inboundReads,
            int outboundReads,
            int retries,
            int trafficClass) {}

    private boolean changed; // under the lock of the connection

    /** The properties that do not change. */
    public abstract Traits traits();

    /** The connection has ended; for the Flight Recorder. */
    public abstract void ended(CloseReason reason);

    /**
     * Whether it can still be connected.
     *
     * @return false when it was closed or flushed meanwhile
     */
    public abstract boolean usable();

    /** Whether it has failed before this side flushed it. */
    public abstract boolean failed();

    /**
     * Moves it to its next state ({@code ibv_modify_qp}), after adapting the attributes.
     *
     * @param change the attributes as the connection manager filled them in
     */
    public abstract int change(StateChange change);

    /**
     * Lets posts through.
     *
     * @param peerInvalidatable whether sends may invalidate tokens of the peer's
     * @param onFailure called when a request has failed, and with it the connection, by the thread
     *     that polled its completion
     * @return false when one had failed before this: the peer may send as soon as it is ready to
     *     receive
     */
    public abstract boolean open(boolean peerInvalidatable, Runnable onFailure);

    /**
     * Has the first data of the peer reported, which may come before the connection is established.
     *
     * @param arrived called by the adapter's event thread; it must not wait
     */
    public abstract void onData(Runnable arrived);

    /** Refuses posts from now on; outstanding requests go on. */
    public abstract void refusePosts();

    /** Refuses posts, and has the device signal what {@link #drained} waits for. */
    public abstract void drain();

    /** Whether all requests of the send queue have ended. */
    public abstract boolean drained();

    /** Moves it to the error state, which cancels everything that is posted. */
    public abstract void flush();

    /**
     * Gives it back; a second call does nothing.
     *
     * @param fresh whether it may be connected again
     */
    public abstract void release(boolean fresh);

    // ---- for the connection

    /** The parameters of rdma_connect. */
    ConnectionParameters requestParameters(PrivateData data) {
        Traits traits = traits();
        return parameters(data, traits, traits.inboundReads(), traits.outboundReads());
    }

    /** The parameters of rdma_accept: no more reads than the peer asked for or lets in. */
    ConnectionParameters replyParameters(PrivateData data, ConnectionData peer) {
        Traits traits = traits();
        return parameters(
                data,
                traits,
                Math.min(traits.inboundReads(), peer.inboundReads()),
                Math.min(traits.outboundReads(), peer.outboundReads()));
    }

    private static ConnectionParameters parameters(
            PrivateData data, Traits traits, int inboundReads, int outboundReads) {
        return new ConnectionParameters(
                traits.number(),
                traits.sharedReceives(),
                inboundReads,
                outboundReads,
                traits.retries(),
                // A shared queue that is empty for a moment must not break connections.
                StateChange.rnrRetries(traits.sharedReceives()),
                data.bytes(traits));
    }

    /** Moves it to INIT, RTR and RTS, with what the connection manager says of each. */
    void moveToReadyToSend(Identifier identifier) {
        if (!usable()) {
            throw new VerbenaException(
                    Status.CONNECTION_INVALID, "The queue pair was closed or flushed meanwhile");
        }
        move(identifier, StateChange.INITIALIZED, "INIT");
        move(identifier, StateChange.READY_TO_RECEIVE, "RTR");
        move(identifier, StateChange.READY_TO_SEND, "RTS");
    }

    private void move(Identifier identifier, int to, String state) {
        try (StateChange change = new StateChange(to)) {
            identifier.fillIn(change, state);
            changed = true;
            Errno.check(
                    change(change),
                    CALL + "(" + state + ")",
                    "The device refuses what the connection manager says of the path, or a path option");
        }
    }

    /** Flushes it, unless nothing could be posted by this connection. */
    void flushIfChanged() {
        if (changed) {
            flush();
        }
    }

    /** Whether it may be connected again. */
    boolean isFresh() {
        return !changed;
    }
}
