package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.sockaddr_in;
import dev.verbena.bindings.sockaddr_in6;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
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
    private static final long FAMILY = 0;
    private static final long PORT_AT = sockaddr_in.sin_port$offset(); // in both
    private static final long ADDRESS_4 = sockaddr_in.sin_addr$offset();
    private static final long ADDRESS_6 = sockaddr_in6.sin6_addr$offset();
    private static final long SCOPE = sockaddr_in6.sin6_scope_id$offset();
    private static final int BYTES_4 = 4;
    private static final int BYTES_6 = 16;

    private SocketAddresses() {}

    /** Encodes an address as the {@code sockaddr} of its family. */
    static MemorySegment encode(InetSocketAddress address, SegmentAllocator where) {
        boolean six = address.getAddress() instanceof Inet6Address;
        MemorySegment encoded =
                six ? sockaddr_in6.allocate(where) : sockaddr_in.allocate(where); // zeros
        encoded.set(JAVA_SHORT, FAMILY, (short) (six ? Verbs.AF_INET6 : Verbs.AF_INET));
        encoded.set(PORT, PORT_AT, (short) address.getPort());
        byte[] bytes = address.getAddress().getAddress();
        MemorySegment.copy(bytes, 0, encoded, JAVA_BYTE, six ? ADDRESS_6 : ADDRESS_4, bytes.length);
        if (address.getAddress() instanceof Inet6Address scoped) {
            encoded.set(JAVA_INT, SCOPE, scoped.getScopeId());
        }
        return encoded;
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
