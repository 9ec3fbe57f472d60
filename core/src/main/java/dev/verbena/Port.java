package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.verbs.PortAttributes;
import dev.verbena.internal.verbs.VerbsContext;

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

    /** The speed of each lane of a link, by its name at the InfiniBand Trade Association. */
    public enum Speed {
        /** None, or one that this library does not know. */
        UNKNOWN(0, 0),
        /** 2.5 Gbit/s. */
        SDR(1, 2_500),
        /** 5 Gbit/s. */
        DDR(2, 5_000),
        /** 10 Gbit/s. */
        QDR(4, 10_000),
        /** 10 Gbit/s, with the encoding of FDR. */
        FDR10(8, 10_000),
        /** 14 Gbit/s. */
        FDR(16, 14_000),
        /** 25 Gbit/s. */
        EDR(32, 25_000),
        /** 50 Gbit/s. */
        HDR(64, 50_000),
        /** 100 Gbit/s. */
        NDR(128, 100_000),
        /** 200 Gbit/s. */
        XDR(256, 200_000);

        private static final long MEGA = 1_000_000;

        private final int code; // of verbs
        private final long megabits;

        Speed(int code, long megabits) {
            this.code = code;
            this.megabits = megabits;
        }

        static Speed of(int code) {
            for (Speed speed : values()) {
                if (speed.code == code) {
                    return speed;
                }
            }
            return UNKNOWN;
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
     * An entry of the GID table. A record, because the kernel's table has exactly these columns
     * (and the network interface, which is not needed here).
     *
     * @param index its index in the table
     * @param gid the GID
     * @param type the protocol of its packets
     */
    public record GidEntry(int index, Gid gid, GidType type) {
        /** Whether it is equal to another; without equals, for which the JVM loads 100 classes. */
        boolean says(GidEntry other) {
            return index == other.index
                    && gid.high() == other.gid.high()
                    && gid.low() == other.gid.low()
                    && type == other.type;
        }

        @Override
        public String toString() {
            return "%s (index %d, %s)".formatted(gid, index, type);
        }
    }

    private final int number;
    private final boolean active;
    private final LinkLayer linkLayer;
    private final int maxMtuBytes;
    private final int mtuBytes;
    private final long maxMessageBytes;
    private final int lid;
    private final Speed speed;
    private final int width;
    private final List<GidEntry> gids;

    Port(int number, PortAttributes attributes, List<GidEntry> gids) {
        this.number = number;
        this.active = attributes.active();
        this.linkLayer = attributes.ethernet() ? LinkLayer.ETHERNET : LinkLayer.INFINIBAND;
        this.maxMtuBytes = VerbsContext.mtuBytes(attributes.maxMtu());
        this.mtuBytes = VerbsContext.mtuBytes(attributes.activeMtu());
        this.maxMessageBytes = attributes.maxMessage();
        this.lid = attributes.lid();
        this.speed = Speed.of(attributes.activeSpeed());
        this.width = lanes(attributes.activeWidth());
        this.gids = List.copyOf(gids);
    }

    /** IBV_WIDTH_…, which verbs.h has no names for. */
    private static int lanes(int code) {
        return switch (code) {
            case 1 -> 1;
            case 2 -> 4;
            case 4 -> 8;
            case 8 -> 12;
            case 16 -> 2;
            default -> 0;
        };
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
     * The largest MTU that the port supports ({@code max_mtu}). On Ethernet, the active one also
     * depends on the MTU of the network interface.
     *
     * @return in bytes
     */
    public int maxMtuBytes() {
        return maxMtuBytes;
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
     * The speed of each lane ({@code active_speed}). On Ethernet, it is the nearest InfiniBand
     * speed: for example, 10 Gbit/s is {@link Speed#QDR QDR} with one lane, and 100 Gbit/s {@link
     * Speed#EDR EDR} with four.
     *
     * @return {@link Speed#UNKNOWN} if the device does not report it, or if it is a newer one
     */
    public Speed speed() {
        return speed;
    }

    /**
     * How many lanes the link has ({@code active_width}).
     *
     * @return 1, 2, 4, 8 or 12; 0 if the device does not report it, or if it is a newer one
     */
    public int width() {
        return width;
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
                && maxMtuBytes == that.maxMtuBytes
                && mtuBytes == that.mtuBytes
                && maxMessageBytes == that.maxMessageBytes
                && lid == that.lid
                && speed == that.speed
                && width == that.width
                && gids.equals(that.gids);
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                number,
                active,
                linkLayer,
                maxMtuBytes,
                mtuBytes,
                maxMessageBytes,
                lid,
                speed,
                width,
                gids);
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
