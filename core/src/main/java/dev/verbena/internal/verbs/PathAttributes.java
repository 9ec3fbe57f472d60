package dev.verbena.internal.verbs;

/**
 * How to reach the other queue pair, for the step to ready-to-receive.
 *
 * @param port the local port
 * @param gidIndex the local GID
 * @param ethernet whether a GID is needed (RoCE) or the LID does (InfiniBand)
 * @param mtu {@code enum ibv_mtu}
 * @param peerNumber the other queue pair's number
 * @param peerSequence the sequence number its first packet will have
 * @param peerLid its LID
 * @param peerGidHigh its GID's first eight bytes, big-endian
 * @param peerGidLow its GID's last eight bytes, big-endian
 * @param inboundReads how many reads it may have under way towards here
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
