package dev.verbena;

import java.util.List;

/**
 * A port of an adapter, as it was when asked for.
 *
 * @param number from 1
 * @param active whether its link is up
 * @param linkLayer Ethernet (RoCE) or InfiniBand
 * @param mtuBytes the largest packet's payload
 * @param maxMessageBytes the longest message
 * @param lid the local identifier; 0 on Ethernet
 * @param gids the GIDs in use, in table order
 */
public record Port(
        int number,
        boolean active,
        LinkLayer linkLayer,
        int mtuBytes,
        long maxMessageBytes,
        int lid,
        List<GidEntry> gids) {
    /** What carries the packets. */
    public enum LinkLayer {
        /** RoCE. */
        ETHERNET,
        /** InfiniBand. */
        INFINIBAND
    }

    /** What a GID's packets look like on the wire. */
    public enum GidType {
        /** InfiniBand. */
        INFINIBAND,
        /** RoCE v1: an Ethernet protocol of its own, not routed. */
        ROCE_V1,
        /** RoCE v2: UDP port 4791. */
        ROCE_V2
    }

    /**
     * An entry of the GID table.
     *
     * @param index its place in the table
     * @param gid the address
     * @param type what its packets look like
     */
    public record GidEntry(int index, Gid gid, GidType type) {
        @Override
        public String toString() {
            return "%s (index %d, %s)".formatted(gid, index, type);
        }
    }

    /** Copies the list. */
    public Port {
        gids = List.copyOf(gids);
    }

    /**
     * The GID to use unless told otherwise: RoCE v2 before v1, a routable IPv4 address before IPv6,
     * link-local last.
     *
     * @return an entry of {@link #gids}
     * @throws VerbenaException when the port has none, as when its network interface is down
     */
    public GidEntry preferredGid() {
        GidEntry best = null;
        for (GidEntry entry : gids) {
            if (best == null || rank(entry) > rank(best)) {
                best = entry;
            }
        }
        if (best == null) {
            throw new VerbenaException(
                    Status.INVALID_ADDRESS,
                    "Port "
                            + number
                            + " has no GID: its network interface is down or has no address (ip"
                            + " link, ip address)");
        }
        return best;
    }

    private static int rank(GidEntry entry) {
        int address = entry.gid().isIpv4() ? 2 : entry.gid().isLinkLocal() ? 0 : 1;
        return address + (entry.type() == GidType.ROCE_V1 ? 0 : 10);
    }
}
