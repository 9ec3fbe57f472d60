package dev.verbena;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;

/**
 * A global identifier: the 128-bit address of a port. On RoCE v2 it is the IP address of the
 * network interface.
 *
 * @param high the first eight bytes as a big-endian number
 * @param low the last eight bytes as a big-endian number
 */
public record Gid(long high, long low) {
    private static final long MAPPED_IPV4 = 0xFFFFL;

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

    /** As in {@code ::ffff:192.0.2.1} or {@code fe80:0:0:0:0:0:0:1}. */
    @Override
    public String toString() {
        byte[] bytes = ByteBuffer.allocate(16).putLong(high).putLong(low).array();
        try {
            return isIpv4()
                    ? "::ffff:" + InetAddress.getByAddress(bytes).getHostAddress()
                    : Inet6Address.getByAddress(null, bytes, -1).getHostAddress();
        } catch (UnknownHostException e) {
            throw new AssertionError("16 bytes are an address", e);
        }
    }
}
