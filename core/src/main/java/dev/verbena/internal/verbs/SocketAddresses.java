package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.SockaddrIn;
import dev.verbena.internal.verbs.Structs.SockaddrIn6;

import org.jspecify.annotations.Nullable;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;

/** Converts between Java's addresses and {@code struct sockaddr_in} and {@code sockaddr_in6}. */
final class SocketAddresses {
    private static final long FAMILY = SockaddrIn.SIN_FAMILY; // in both
    private static final long PORT = SockaddrIn.SIN_PORT; // in both
    private static final int BYTES_4 = 4;
    private static final int BYTES_6 = 16;

    private SocketAddresses() {}

    /** Encodes an address as the {@code sockaddr} of its family. */
    static long encode(InetSocketAddress address, Scratch scratch) {
        InetAddress host = address.getAddress();
        boolean six = host instanceof Inet6Address;
        long encoded = scratch.allocate(six ? SockaddrIn6.SIZE : SockaddrIn.SIZE);
        Native.putShort(encoded, FAMILY, six ? Verbs.AF_INET6 : Verbs.AF_INET);
        Native.putByte(encoded, PORT, address.getPort() >> Byte.SIZE); // in network order
        Native.putByte(encoded, PORT + 1, address.getPort());
        byte[] bytes = host.getAddress();
        for (int i = 0; i < bytes.length; i++) {
            Native.putByte(
                    encoded, (six ? SockaddrIn6.SIN6_ADDR : SockaddrIn.SIN_ADDR) + i, bytes[i]);
        }
        if (host instanceof Inet6Address scoped) {
            Native.putInt(encoded, SockaddrIn6.SIN6_SCOPE_ID, scoped.getScopeId());
        }
        return encoded;
    }

    /** Decodes a {@code sockaddr_storage}; null for any family other than IPv4 and IPv6. */
    static @Nullable InetSocketAddress decode(long storage) {
        int family = Native.getShort(storage, FAMILY);
        int port = Native.getByte(storage, PORT) << Byte.SIZE | Native.getByte(storage, PORT + 1);
        try {
            if (family == Verbs.AF_INET) {
                return new InetSocketAddress(
                        InetAddress.getByAddress(
                                Native.getBytes(storage + SockaddrIn.SIN_ADDR, BYTES_4)),
                        port);
            }
            if (family == Verbs.AF_INET6) {
                int scope = Native.getInt(storage, SockaddrIn6.SIN6_SCOPE_ID);
                byte[] bytes = Native.getBytes(storage + SockaddrIn6.SIN6_ADDR, BYTES_6);
                // InetAddress.getByAddress would turn an IPv4-mapped IPv6 address into an IPv4 one.
                return new InetSocketAddress(
                        Inet6Address.getByAddress(null, bytes, scope == 0 ? -1 : scope), port);
            }
            return null;
        } catch (UnknownHostException e) {
            throw new AssertionError("4 or 16 bytes are an address", e);
        }
    }
}
