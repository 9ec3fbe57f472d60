package dev.verbena.internal.connect;

import dev.verbena.ConnectionData;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.verbs.ConnectionParameters;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.StateChange;

/**
 * The queue pair of one connection, from the call that names it until it is released.
 *
 * <p>Remembers whether it was changed: a queue pair that was not may be connected again, one that
 * was has to be flushed.
 */
final class HeldQueuePair {
    /** How calls of the queue pair begin in messages. */
    static final String CALL = "ibv_modify_qp";

    // How often a peer sends again to a queue pair without a receive. Six times 655 ms for a queue
    // of its own: NDK expects an error. 7 is for ever: a shared queue that is empty for a moment
    // must not break connections.
    private static final int RNR_RETRIES = 6;
    private static final int ENDLESS_RNR_RETRIES = 7;

    private final QueuePairEnd end;
    private boolean changed;

    HeldQueuePair(QueuePairEnd end) {
        this.end = end;
    }

    QueuePairEnd end() {
        return end;
    }

    /** The parameters of rdma_connect. */
    ConnectionParameters requestParameters(PrivateData data) {
        return parameters(data, end.inboundReads(), end.outboundReads());
    }

    /** The parameters of rdma_accept: no more reads than the peer asked for or lets in. */
    ConnectionParameters replyParameters(PrivateData data, ConnectionData peer) {
        return parameters(
                data,
                Math.min(end.inboundReads(), peer.inboundReads()),
                Math.min(end.outboundReads(), peer.outboundReads()));
    }

    private ConnectionParameters parameters(PrivateData data, int inboundReads, int outboundReads) {
        return new ConnectionParameters(
                end.number(),
                end.sharedReceives(),
                inboundReads,
                outboundReads,
                end.retries(),
                end.sharedReceives() ? ENDLESS_RNR_RETRIES : RNR_RETRIES,
                data.bytes(end));
    }

    /** Moves it to INIT, RTR and RTS, with what the connection manager says of each. */
    void moveToReadyToSend(Identifier identifier) {
        if (!end.usable()) {
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
                    end.change(change),
                    CALL + "(" + state + ")",
                    "The device refuses what the connection manager says of the path, or a path option");
        }
    }

    /** Cancels everything that is posted, unless it could not be posted by this connection. */
    void flushIfChanged() {
        if (changed) {
            end.flush();
        }
    }

    /** The connection does not need it any more; others may have waited for that. */
    void release() {
        end.release(!changed);
    }

    /** The same, for a queue pair that cannot be connected again. */
    void releaseUsedUp() {
        end.release(false);
    }
}
