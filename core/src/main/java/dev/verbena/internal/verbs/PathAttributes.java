package dev.verbena.internal.verbs;

/**
 * The path to the peer's queue pair, for the transition to ready-to-receive.
 *
 * @param gidIndex the index of the local GID in the port's table
 * @param ethernet true if the peer is addressed by GID (RoCE), false if by LID (InfiniBand)
 * @param peerGidHigh the first eight bytes of the peer's GID, big-endian
 * @param peerGidLow the last eight bytes of the peer's GID, big-endian
 * @param inboundReads how many reads and atomics the peer may have outstanding towards this side
 */
public record PathAttributes(
        int port,
        int gidIndex,
        boolean ethernet,
        int mtu,
        int peerNumber,
        int peerSequence,
        int peerLid,
        long peerGidHigh,
        long peerGidLow,
        int inboundReads) {}
