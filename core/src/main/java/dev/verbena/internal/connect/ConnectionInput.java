package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionEvent;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Iterator;

/** A trigger with what belongs to it: what {@link ConnectionStateMachine} is given. */
sealed interface ConnectionInput {
    /** The row of {@link ConnectionTable}. */
    ConnectionTrigger trigger();

    /**
     * A call that connects.
     *
     * @param sources the local addresses to try, in this order; null among them leaves it to the
     *     route
     * @param sharedAddress whether others connect from the same address and port
     * @param timeout how long it may take
     */
    record Connect(
            QueuePairEnd queuePair,
            Iterator<@Nullable InetSocketAddress> sources,
            boolean sharedAddress,
            InetSocketAddress peer,
            PrivateData data,
            Duration timeout)
            implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.CONNECT;
        }
    }

    /**
     * A call that completes what the peer has accepted.
     *
     * @param assumeInvalidatable whether the peer's tokens may be invalidated although it did not
     *     say so
     */
    record Complete(boolean assumeInvalidatable) implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.COMPLETE_CONNECT;
        }
    }

    /**
     * A call that accepts.
     *
     * @param assumeInvalidatable whether the peer's tokens may be invalidated although it did not
     *     say so
     * @param timeout how long it may take
     */
    record Accept(
            QueuePairEnd queuePair, PrivateData data, boolean assumeInvalidatable, Duration timeout)
            implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.ACCEPT;
        }
    }

    /** A call that rejects. */
    record Reject(PrivateData data) implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.REJECT;
        }
    }

    /**
     * A call that disconnects.
     *
     * @param timeout how long it may take
     */
    record Disconnect(Duration timeout) implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.DISCONNECT;
        }
    }

    /**
     * A call that closes.
     *
     * @param whenClosed run once, when everything is released
     */
    record Close(Runnable whenClosed) implements ConnectionInput {
        @Override
        public ConnectionTrigger trigger() {
            return ConnectionTrigger.CLOSE;
        }
    }

    /** An event of rdma_cm. */
    record Event(ConnectionTrigger trigger, ConnectionEvent event) implements ConnectionInput {}

    /**
     * Something that fails a step or a request.
     *
     * @param reason what the caller gets
     */
    record Failing(ConnectionTrigger trigger, Failure reason) implements ConnectionInput {}

    /** A trigger with nothing to it. */
    record Signal(ConnectionTrigger trigger) implements ConnectionInput {}
}
