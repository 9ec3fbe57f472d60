package dev.verbena.internal.connect;

import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.ConnectionEvent;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Iterator;

/** A trigger with what belongs to it: what {@link ConnectionStateMachine} is given. */
public sealed interface ConnectionInput
        permits ConnectionInput.Call,
                ConnectionInput.Event,
                ConnectionInput.Failing,
                ConnectionTrigger {
    /** The row of {@link ConnectionTable}. */
    ConnectionTrigger trigger();

    /** A call of this side, for {@link ConnectionStateMachine#call}. */
    sealed interface Call extends ConnectionInput {}

    /**
     * Asks a peer for a connection. The step ends when the peer has accepted.
     *
     * @param queuePair this side's queue pair; released when the step fails
     * @param sources the local addresses to try, one or more, in this order; null leaves the choice
     *     to the route. The event thread takes the next one when the last one did not work
     * @param sharedAddress whether others connect from the same address and port
     */
    record Connect(
            QueuePairHandle queuePair,
            Iterator<@Nullable InetSocketAddress> sources,
            boolean sharedAddress,
            InetSocketAddress peer,
            PrivateData data,
            Duration timeout)
            implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.CONNECT;
        }
    }

    /**
     * Establishes a connection that the peer has accepted.
     *
     * @param assumeInvalidatable whether the peer's tokens may be invalidated although it did not
     *     say so
     */
    record Complete(boolean assumeInvalidatable) implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.COMPLETE_CONNECT;
        }
    }

    /**
     * Accepts a request. The step ends when the peer has completed the connection.
     *
     * @param queuePair this side's queue pair; released when the step fails
     * @param assumeInvalidatable as in {@link Complete}
     */
    record Accept(
            QueuePairHandle queuePair,
            PrivateData data,
            boolean assumeInvalidatable,
            Duration timeout)
            implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.ACCEPT;
        }
    }

    /** Rejects a request, or a peer that has accepted. */
    record Reject(PrivateData data) implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.REJECT;
        }
    }

    /**
     * Ends the connection: waits for outstanding requests, for half of the timeout at most, cancels
     * the rest, and calls rdma_disconnect. The step ends when the peer has confirmed.
     */
    record Disconnect(Duration timeout) implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.DISCONNECT;
        }
    }

    /**
     * Ends everything. A request or an acceptance is refused; a connection is disconnected.
     *
     * @param whenClosed run once, when everything is released
     */
    record Close(Runnable whenClosed) implements Call {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.CLOSE;
        }
    }

    /** An event of rdma_cm. */
    record Event(ConnectionTrigger trigger, ConnectionEvent event) implements ConnectionInput {}

    /** Something that fails a step or a request; the caller gets the reason. */
    record Failing(ConnectionTrigger trigger, VerbenaException reason) implements ConnectionInput {}
}
