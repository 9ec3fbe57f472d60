package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import java.net.Inet4Address;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;

/**
 * A global identifier: the 128-bit address of a port. On RoCE v2 it is the IP address of the
 * network interface. A record, because a GID will always have exactly 128 bits.
 *
 * @param high the first eight bytes as a big-endian number
 * @param low the last eight bytes as a big-endian number
 */
@CheckReturnValue
public record Gid(long high, long low) {
    private static final long MAPPED_IPV4 = 0xFFFFL;
    private static final int BYTES = 16;

    /**
     * Whether it is an IPv4-mapped IPv6 address ({@code ::ffff:a.b.c.d}).
     *
     * @return true for RoCE v2 over IPv4
     */
    public boolean isIpv4() {
        return high == 0 && low >>> 32 == MAPPED_IPV4;
    }

    /**
     * Whether it is a link-local address ({@code fe80::/64}), which is not routable.
     *
     * @return true for {@code fe80::…}
     */
    public boolean isLinkLocal() {
        return high == 0xFE80_0000_0000_0000L;
    }

    /**
     * Parses the output of {@link #toString}, and the formats of {@code ibv_devinfo -v} and {@code
     * /sys}.
     *
     * @param text an IPv6 address, optionally with dotted IPv4 notation at the end; or an IPv4
     *     address, which is mapped to {@code ::ffff:a.b.c.d}
     * @return the GID
     * @throws IllegalArgumentException for anything else
     */
    public static Gid parse(String text) {
        Arguments.notNull(text, "text");
        try {
            if (text.indexOf(':') < 0) {
                return of(Inet4Address.ofLiteral(text));
            }
            // For an IPv4-mapped address, Java returns an Inet4Address.
            return of(Inet6Address.ofLiteral(text));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("\"%s\" is not a GID".formatted(text), e);
        }
    }

    /**
     * The RoCE v2 GID of an IP address.
     *
     * @param address an IPv6 address, or an IPv4 address, which is mapped to {@code ::ffff:a.b.c.d}
     * @return the GID
     */
    public static Gid of(InetAddress address) {
        byte[] bytes = Arguments.notNull(address, "address").getAddress();
        if (bytes.length == Integer.BYTES) {
            return new Gid(
                    0,
                    MAPPED_IPV4 << Integer.SIZE
                            | Integer.toUnsignedLong(ByteBuffer.wrap(bytes).getInt()));
        }
        return of(bytes);
    }

    /**
     * Reads the 16 bytes of a GID in network byte order, as in {@code union ibv_gid}.
     *
     * @param bytes 16 bytes
     * @return the GID
     */
    public static Gid of(byte[] bytes) {
        if (Arguments.notNull(bytes, "bytes").length != BYTES) {
            throw new IllegalArgumentException("A GID has 16 bytes, these are " + bytes.length);
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Gid(buffer.getLong(), buffer.getLong());
    }

    /**
     * The 16 bytes in network byte order, as in {@code union ibv_gid}.
     *
     * @return a new array
     */
    public byte[] bytes() {
        return ByteBuffer.allocate(BYTES).putLong(high).putLong(low).array();
    }

    /**
     * The IP address of a RoCE v2 GID.
     *
     * @return an IPv4 address if {@link #isIpv4}, otherwise an IPv6 address without a scope
     */
    public InetAddress toInetAddress() {
        try {
            return InetAddress.getByAddress(bytes());
        } catch (UnknownHostException e) {
            throw new AssertionError("16 bytes are an address", e);
        }
    }

    /** For example {@code ::ffff:192.0.2.1} or {@code fe80:0:0:0:0:0:0:1}. */
    @Override
    public String toString() {
        return (isIpv4() ? "::ffff:" : "") + toInetAddress().getHostAddress();
    }
}
