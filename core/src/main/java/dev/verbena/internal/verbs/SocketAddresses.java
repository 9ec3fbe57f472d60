package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.verbena.bindings.Verbs;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteOrder;

/** Converts between Java's addresses and {@code struct sockaddr_in} and {@code sockaddr_in6}. */
final class SocketAddresses {
    private static final ValueLayout.OfShort PORT =
            JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final long FAMILY = Structs.SockaddrIn.SIN_FAMILY; // in both
    private static final long PORT_AT = Structs.SockaddrIn.SIN_PORT; // in both
    private static final long ADDRESS_4 = Structs.SockaddrIn.SIN_ADDR;
    private static final long ADDRESS_6 = Structs.SockaddrIn6.SIN6_ADDR;
    private static final long SCOPE = Structs.SockaddrIn6.SIN6_SCOPE_ID;
    private static final int BYTES_4 = 4;
    private static final int BYTES_6 = 16;

    private SocketAddresses() {}

    /** Encodes an address as the {@code sockaddr} of its family. */
    static long encode(InetSocketAddress address, Scratch scratch) {
        boolean six = address.getAddress() instanceof Inet6Address;
        long bytesOf = six ? Structs.SockaddrIn6.SIZE : Structs.SockaddrIn.SIZE;
        MemorySegment encoded = Native.at(scratch.allocate(bytesOf), bytesOf);
        encoded.set(JAVA_SHORT, FAMILY, (short) (six ? Verbs.AF_INET6 : Verbs.AF_INET));
        encoded.set(PORT, PORT_AT, (short) address.getPort());
        byte[] bytes = address.getAddress().getAddress();
        MemorySegment.copy(bytes, 0, encoded, JAVA_BYTE, six ? ADDRESS_6 : ADDRESS_4, bytes.length);
        if (address.getAddress() instanceof Inet6Address scoped) {
            encoded.set(JAVA_INT, SCOPE, scoped.getScopeId());
        }
        return encoded.address();
    }

    /** Decodes a {@code sockaddr_storage}; null for any family other than IPv4 and IPv6. */
    static @Nullable InetSocketAddress decode(MemorySegment storage) {
        int family = storage.get(JAVA_SHORT, FAMILY);
        int port = Short.toUnsignedInt(storage.get(PORT, PORT_AT));
        try {
            if (family == Verbs.AF_INET) {
                return new InetSocketAddress(
                        InetAddress.getByAddress(bytes(storage, ADDRESS_4, BYTES_4)), port);
            }
            if (family == Verbs.AF_INET6) {
                int scope = storage.get(JAVA_INT, SCOPE);
                byte[] bytes = bytes(storage, ADDRESS_6, BYTES_6);
                // InetAddress.getByAddress would turn an IPv4-mapped IPv6 address into an IPv4 one.
                return new InetSocketAddress(
                        Inet6Address.getByAddress(null, bytes, scope == 0 ? -1 : scope), port);
            }
            return null;
        } catch (UnknownHostException e) {
            throw new AssertionError("4 or 16 bytes are an address", e);
        }
    }

    private static byte[] bytes(MemorySegment storage, long offset, int length) {
        return storage.asSlice(offset, length).toArray(JAVA_BYTE);
    }
}
