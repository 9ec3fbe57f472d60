package dev.verbena.examples.nvme;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Numbers and texts as NVMe has them in memory: little-endian, at any offset. */
final class Wire {
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Wire() {}

    static int get8(MemorySegment at, long offset) {
        return Byte.toUnsignedInt(at.get(ValueLayout.JAVA_BYTE, offset));
    }

    static int get16(MemorySegment at, long offset) {
        return Short.toUnsignedInt(at.get(SHORT, offset));
    }

    static int get24(MemorySegment at, long offset) {
        return get16(at, offset) | get8(at, offset + 2) << 16;
    }

    static int get32(MemorySegment at, long offset) {
        return at.get(INT, offset);
    }

    static long get64(MemorySegment at, long offset) {
        return at.get(LONG, offset);
    }

    static void put8(MemorySegment at, long offset, int value) {
        at.set(ValueLayout.JAVA_BYTE, offset, (byte) value);
    }

    static void put16(MemorySegment at, long offset, int value) {
        at.set(SHORT, offset, (short) value);
    }

    static void put24(MemorySegment at, long offset, int value) {
        put16(at, offset, value);
        put8(at, offset + 2, value >> 16);
    }

    static void put32(MemorySegment at, long offset, int value) {
        at.set(INT, offset, value);
    }

    static void put64(MemorySegment at, long offset, long value) {
        at.set(LONG, offset, value);
    }

    /** A text that ends at the first zero, or with its field. */
    static String text(MemorySegment at, long offset, int length) {
        byte[] bytes = at.asSlice(offset, length).toArray(ValueLayout.JAVA_BYTE);
        int end = 0;
        while (end < length && bytes[end] != 0) {
            end++;
        }
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }

    /** A text in a field whose rest is filled up. */
    static void putText(MemorySegment at, long offset, int length, String text, char filler) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < length; i++) {
            put8(at, offset + i, i < bytes.length ? bytes[i] : filler);
        }
    }
}
