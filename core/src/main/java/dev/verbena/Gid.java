package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import java.net.Inet4Address;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;

/**
 * A global identifier: the 128-bit address of a port. On RoCE v2 it is the IP address of the
 * network interface. A record: 128 bits stay 128 bits.
 *
 * @param high the first eight bytes as a big-endian number
 * @param low the last eight bytes as a big-endian number
 */
@CheckReturnValue
public record Gid(long high, long low) {
    private static final long MAPPED_IPV4 = 0xFFFFL;
    private static final int BYTES = 16;

    /**
     * Whether it is an IPv4 address in IPv6 clothes ({@code ::ffff:a.b.c.d}).
     *
     * @return true for RoCE v2 over IPv4
     */
    public boolean isIpv4() {
        return high == 0 && low >>> 32 == MAPPED_IPV4;
    }

    /**
     * Whether it is a link-local address ({@code fe80::/64}), which says nothing about routes.
     *
     * @return true for {@code fe80::…}
     */
    public boolean isLinkLocal() {
        return high == 0xFE80_0000_0000_0000L;
    }

    /**
     * Reads what {@link #toString} says, and what {@code ibv_devinfo -v} and {@code /sys} print.
     *
     * @param text an IPv6 address, with an IPv4 one in its end or not; or an IPv4 address, whose
     *     GID is the mapped one
     * @return the GID
     * @throws IllegalArgumentException for anything else
     */
    public static Gid parse(String text) {
        try {
            if (text.indexOf(':') < 0) {
                return of(Inet4Address.ofLiteral(text));
            }
            // Of a mapped address, Java makes an IPv4 one.
            return of(Inet6Address.ofLiteral(text));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("\"%s\" is no GID".formatted(text), e);
        }
    }

    /**
     * The GID that a RoCE v2 port has for an IP address.
     *
     * @param address IPv6, or IPv4, which is mapped
     * @return the GID
     */
    public static Gid of(InetAddress address) {
        byte[] bytes = address.getAddress();
        if (bytes.length == Integer.BYTES) {
            return new Gid(
                    0,
                    MAPPED_IPV4 << Integer.SIZE
                            | Integer.toUnsignedLong(ByteBuffer.wrap(bytes).getInt()));
        }
        return of(bytes);
    }

    /**
     * Reads the 16 bytes of a GID, as they travel and as verbs has them.
     *
     * @param bytes 16 bytes
     * @return the GID
     */
    public static Gid of(byte[] bytes) {
        if (bytes.length != BYTES) {
            throw new IllegalArgumentException("A GID has 16 bytes, these are " + bytes.length);
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Gid(buffer.getLong(), buffer.getLong());
    }

    /**
     * The 16 bytes, as they travel and as verbs has them.
     *
     * @return a new array
     */
    public byte[] bytes() {
        return ByteBuffer.allocate(BYTES).putLong(high).putLong(low).array();
    }

    /**
     * The IP address of a RoCE v2 GID.
     *
     * @return an IPv4 address when {@link #isIpv4}, otherwise an IPv6 address without a scope
     */
    public InetAddress toInetAddress() {
        try {
            return InetAddress.getByAddress(bytes());
        } catch (UnknownHostException e) {
            throw new AssertionError("16 bytes are an address", e);
        }
    }

    /** As in {@code ::ffff:192.0.2.1} or {@code fe80:0:0:0:0:0:0:1}. */
    @Override
    public String toString() {
        return (isIpv4() ? "::ffff:" : "") + toInetAddress().getHostAddress();
    }
}
