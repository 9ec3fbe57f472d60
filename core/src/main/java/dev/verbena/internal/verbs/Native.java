package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** Reads and writes native memory by address, for structs that C code allocated or reads. */
final class Native {
    /** The layout of each half of a GID, at any alignment. */
    static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    /** The layout of immediate data, at any alignment. */
    static final ValueLayout.OfInt BIG_ENDIAN_INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private Native() {}

    // The data path writes requests and reads completions by address: through a segment of an
    // arena, each field access checks liveness and bounds. The few classes that use these methods
    // are responsible for valid addresses. The layouts are unaligned, because aligned ones check
    // the address on each access; on the processors that rdma-core supports, both compile to the
    // same instruction. Masking addresses to 56 bits (user space has fewer on every platform) lets
    // the JIT prove that they are within EVERYWHERE and drop the bounds check: three instructions
    // of four.
    private static final long ADDRESS_BITS = (1L << 56) - 1;

    static void putLong(long struct, long offset, long value) {
        EVERYWHERE.set(ValueLayout.JAVA_LONG_UNALIGNED, (struct & ADDRESS_BITS) + offset, value);
    }

    static void putInt(long struct, long offset, int value) {
        EVERYWHERE.set(ValueLayout.JAVA_INT_UNALIGNED, (struct & ADDRESS_BITS) + offset, value);
    }

    static void putShort(long struct, long offset, int value) {
        EVERYWHERE.set(
                ValueLayout.JAVA_SHORT_UNALIGNED, (struct & ADDRESS_BITS) + offset, (short) value);
    }

    static void putByte(long struct, long offset, int value) {
        EVERYWHERE.set(ValueLayout.JAVA_BYTE, (struct & ADDRESS_BITS) + offset, (byte) value);
    }

    static long getLong(long struct, long offset) {
        return EVERYWHERE.get(ValueLayout.JAVA_LONG_UNALIGNED, (struct & ADDRESS_BITS) + offset);
    }

    static int getInt(long struct, long offset) {
        return EVERYWHERE.get(ValueLayout.JAVA_INT_UNALIGNED, (struct & ADDRESS_BITS) + offset);
    }

    /** An unsigned number of 16 bits. */
    static int getShort(long struct, long offset) {
        return Short.toUnsignedInt(
                EVERYWHERE.get(ValueLayout.JAVA_SHORT_UNALIGNED, (struct & ADDRESS_BITS) + offset));
    }

    /** An unsigned number of 8 bits. */
    static int getByte(long struct, long offset) {
        return Byte.toUnsignedInt(
                EVERYWHERE.get(ValueLayout.JAVA_BYTE, (struct & ADDRESS_BITS) + offset));
    }

    /** A number of 64 bits in network order. */
    static long getBigEndian(long struct, long offset) {
        return EVERYWHERE.get(BIG_ENDIAN_LONG, (struct & ADDRESS_BITS) + offset);
    }

    static void putBigEndian(long struct, long offset, long value) {
        EVERYWHERE.set(BIG_ENDIAN_LONG, (struct & ADDRESS_BITS) + offset, value);
    }

    /** A copy of some bytes. */
    static byte[] getBytes(long address, int count) {
        byte[] bytes = new byte[count];
        MemorySegment.copy(EVERYWHERE, ValueLayout.JAVA_BYTE, address, bytes, 0, count);
        return bytes;
    }

    /** A string that ends with a zero byte. */
    static String getString(long struct, long offset) {
        return EVERYWHERE.getString((struct & ADDRESS_BITS) + offset);
    }

    /**
     * A struct at an address that the library returned, with bounds. A slice of EVERYWHERE, not
     * {@code ofAddress(address).reinterpret(size)}: that is a caller-sensitive method, which walks
     * the stack in code that C2 has not compiled.
     */
    static MemorySegment at(long address, long size) {
        return EVERYWHERE.asSlice(address, size);
    }

    /** All of memory. The caller is responsible for valid addresses. */
    @SuppressWarnings("restricted") // as above
    static final MemorySegment EVERYWHERE = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
}
