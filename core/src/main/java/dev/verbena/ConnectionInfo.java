package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;

/**
 * A connection as it was when {@link Adapter#connections} was called (NDK:
 * NDIS_NDK_CONNECTION_ENTRY).
 *
 * @param local this side's address; null until the route to the peer is known
 * @param remote the peer's address; null if it has no IP address
 * @param state how far the connection is
 * @param inbound whether the peer asked for it
 * @param queuePairNumber the number of this side's queue pair (verbs: {@code qp_num}); 0 for a
 *     request that was not accepted yet
 */
@CheckReturnValue
public record ConnectionInfo(
        @Nullable InetSocketAddress local,
        @Nullable InetSocketAddress remote,
        State state,
        boolean inbound,
        int queuePairNumber) {
    /** How far a connection is. */
    public enum State {
        /** A peer's request, to be accepted or rejected by this side. */
        REQUESTED,
        /** This side connects or accepts; the connection is not established yet. */
        CONNECTING,
        /** Both sides may post. */
        ESTABLISHED,
        /** This side disconnects or closes, and the peer has not confirmed. */
        DISCONNECTING,
        /** The peer disconnected or a request failed; this side has to disconnect or close. */
        DISCONNECTED
    }
}
