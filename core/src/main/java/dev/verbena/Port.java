package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import java.util.List;

/**
 * A port of an adapter: a snapshot from {@link Adapter#ports}.
 *
 * @param number the number of the port: 1 or more, as in {@link Adapter#useGid}
 * @param active whether its link is up: true in IBV_PORT_ACTIVE
 * @param linkLayer the link layer: Ethernet (RoCE, iWARP) or InfiniBand
 * @param maxMtuBytes the largest MTU that the port supports ({@code max_mtu}), in bytes. On
 *     Ethernet, the active one also depends on the MTU of the network interface
 * @param mtuBytes the active MTU: the largest payload of a packet, in bytes
 * @param maxMessageBytes the longest message, in bytes
 * @param lid the local identifier (LID): 16 bits; 0 on Ethernet
 * @param speed the speed of each lane ({@code active_speed}). On Ethernet, it is the nearest
 *     InfiniBand speed: for example, 10 Gbit/s is {@link Speed#QDR QDR} with one lane, and 100
 *     Gbit/s {@link Speed#EDR EDR} with four. {@link Speed#UNKNOWN} if the device does not report
 *     it, or if it is a newer one
 * @param width how many lanes the link has ({@code active_width}): 1, 2, 4, 8 or 12; 0 if the
 *     device does not report it, or if it is a newer one
 * @param gids the GIDs in use: an immutable list, in table order
 */
@CheckReturnValue
public record Port(
        int number,
        boolean active,
        LinkLayer linkLayer,
        int maxMtuBytes,
        int mtuBytes,
        long maxMessageBytes,
        int lid,
        Speed speed,
        int width,
        List<GidEntry> gids) {
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

    /** The speed of each lane of a link, by its name at the InfiniBand Trade Association. */
    public enum Speed {
        /** None, or one that this library does not know. */
        UNKNOWN(0),
        /** 2.5 Gbit/s. */
        SDR(2_500),
        /** 5 Gbit/s. */
        DDR(5_000),
        /** 10 Gbit/s. */
        QDR(10_000),
        /** 10 Gbit/s, with the encoding of FDR. */
        FDR10(10_000),
        /** 14 Gbit/s. */
        FDR(14_000),
        /** 25 Gbit/s. */
        EDR(25_000),
        /** 50 Gbit/s. */
        HDR(50_000),
        /** 100 Gbit/s. */
        NDR(100_000),
        /** 200 Gbit/s. */
        XDR(200_000);

        private static final long MEGA = 1_000_000;

        private final long megabits;

        Speed(long megabits) {
            this.megabits = megabits;
        }

        /**
         * The speed of one lane.
         *
         * @return bits per second, nominally, as {@code /sys/class/infiniband/…/rate} counts them;
         *     0 for {@link #UNKNOWN}
         */
        public long bitsPerSecond() {
            return megabits * MEGA;
        }
    }

    /**
     * An entry of the GID table. A record, because the kernel's table has exactly these columns.
     *
     * @param port the number of its port
     * @param index its index in the table of that port
     * @param gid the GID
     * @param type the protocol of its packets
     * @param networkInterface the index of its network interface; 0 if it has none
     */
    public record GidEntry(int port, int index, Gid gid, GidType type, int networkInterface) {
        @Override
        public String toString() {
            return "%s (index %d, %s)".formatted(gid, index, type);
        }
    }

    /** Copies the list of GIDs. */
    public Port {
        gids = List.copyOf(gids);
    }

    /**
     * The speed of the link: the speed of a lane times the number of lanes, as in {@code
     * /sys/class/infiniband/DEVICE/ports/PORT/rate}. It is nominal, also while the link is down;
     * Soft-RoCE invents it if its network interface has none.
     *
     * @return bits per second; 0 if it is not known
     */
    public long bitsPerSecond() {
        return speed.bitsPerSecond() * width;
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
    public String toString() {
        return "Port %d (%s, %s, %s x%d, MTU %d%s, GIDs %s)"
                .formatted(
                        number,
                        active ? "active" : "down",
                        linkLayer,
                        speed,
                        width,
                        mtuBytes,
                        lid == 0 ? "" : ", LID " + lid,
                        gids);
    }
}
