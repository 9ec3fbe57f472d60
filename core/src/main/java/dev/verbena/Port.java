package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.Objects;

/**
 * A port of an adapter: a snapshot from {@link Adapter#ports}.
 *
 * <p>Immutable. Ports with the same numbers and GIDs are equal.
 */
@CheckReturnValue
public final class Port {
    /** The link layer. */
    public enum LinkLayer {
        /** RoCE, or iWARP. */
        ETHERNET,
        /** InfiniBand. */
        INFINIBAND
    }

    /** The protocol that packets with a GID use. */
    public enum GidType {
        /** InfiniBand. */
        INFINIBAND,
        /** RoCE v1: an Ethernet protocol of its own, not routed. */
        ROCE_V1,
        /** RoCE v2: UDP port 4791. */
        ROCE_V2
    }

    /**
     * An entry of the GID table. A record, because the kernel's table has exactly these columns
     * (and the network interface, which is not needed here).
     *
     * @param index its index in the table
     * @param gid the GID
     * @param type the protocol of its packets
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
     * The number of the port.
     *
     * @return 1 or more, as in {@link Adapter#useGid}
     */
    public int number() {
        return number;
    }

    /**
     * Whether its link is up.
     *
     * @return true in IBV_PORT_ACTIVE
     */
    public boolean active() {
        return active;
    }

    /**
     * The link layer.
     *
     * @return Ethernet (RoCE, iWARP) or InfiniBand
     */
    public LinkLayer linkLayer() {
        return linkLayer;
    }

    /**
     * The active MTU: the largest payload of a packet.
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
     * The local identifier (LID).
     *
     * @return 16 bits; 0 on Ethernet
     */
    public int lid() {
        return lid;
    }

    /**
     * The GIDs in use.
     *
     * @return an immutable list, in table order
     */
    public List<GidEntry> gids() {
        return gids;
    }

    /**
     * The GID that is used unless {@link Adapter#useGid} chooses another: RoCE v2 before v1, then
     * IPv4 before IPv6 before link-local.
     *
     * @return an entry of {@link #gids}
     * @throws VerbenaException if the port has none, for example because its network interface is
     *     down
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
