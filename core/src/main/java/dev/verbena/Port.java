package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.Objects;

/**
 * A port of an adapter, as it was when asked for.
 *
 * <p>Immutable. Ports with the same numbers and GIDs are equal.
 */
@CheckReturnValue
public final class Port {
    /** What carries the packets. */
    public enum LinkLayer {
        /** RoCE, or iWARP. */
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
     * An entry of the GID table. A record: the kernel's table has these three columns (and the
     * network interface, which is the kernel's business).
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

    private final int number;
    private final boolean active;
    private final LinkLayer linkLayer;
    private final int mtuBytes;
    private final long maxMessageBytes;
    private final int lid;
    private final List<GidEntry> gids;

    Port(
            int number,
            boolean active,
            LinkLayer linkLayer,
            int mtuBytes,
            long maxMessageBytes,
            int lid,
            List<GidEntry> gids) {
        this.number = number;
        this.active = active;
        this.linkLayer = linkLayer;
        this.mtuBytes = mtuBytes;
        this.maxMessageBytes = maxMessageBytes;
        this.lid = lid;
        this.gids = List.copyOf(gids);
    }

    /**
     * Its number on its adapter.
     *
     * @return 1 or more
     */
    public int number() {
        return number;
    }

    /**
     * Whether its link is up.
     *
     * @return false for one that can carry nothing at the moment
     */
    public boolean active() {
        return active;
    }

    /**
     * What carries its packets.
     *
     * @return Ethernet (RoCE, iWARP) or InfiniBand
     */
    public LinkLayer linkLayer() {
        return linkLayer;
    }

    /**
     * The largest payload of a packet.
     *
     * @return in bytes
     */
    public int mtuBytes() {
        return mtuBytes;
    }

    /**
     * The longest message.
     *
     * @return in bytes
     */
    public long maxMessageBytes() {
        return maxMessageBytes;
    }

    /**
     * The local identifier.
     *
     * @return 16 bits; 0 on Ethernet
     */
    public int lid() {
        return lid;
    }

    /**
     * The GIDs in use.
     *
     * @return in table order; may not be changed
     */
    public List<GidEntry> gids() {
        return gids;
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

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Port that
                && number == that.number
                && active == that.active
                && linkLayer == that.linkLayer
                && mtuBytes == that.mtuBytes
                && maxMessageBytes == that.maxMessageBytes
                && lid == that.lid
                && gids.equals(that.gids);
    }

    @Override
    public int hashCode() {
        return Objects.hash(number, active, linkLayer, mtuBytes, maxMessageBytes, lid, gids);
    }

    @Override
    public String toString() {
        return "Port %d (%s, %s, MTU %d%s, GIDs %s)"
                .formatted(
                        number,
                        active ? "active" : "down",
                        linkLayer,
                        mtuBytes,
                        lid == 0 ? "" : ", LID " + lid,
                        gids);
    }
}
