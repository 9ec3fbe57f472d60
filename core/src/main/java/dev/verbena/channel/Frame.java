package dev.verbena.channel;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * The header of a frame: see the package's description, which documents each byte. It is read and
 * written as two longs: each access of memory has checks of its own.
 */
final class Frame {
    static final int HEADER_BYTES = 16;

    static final byte MESSAGE = 1;
    static final byte CREDIT = 2;
    static final byte KEEP_ALIVE = 3;

    private static final int VERSION = 1;
    private static final int VERSION_SHIFT = Byte.SIZE;
    private static final long KIND_MASK = 0xFF;
    private static final long VERSION_MASK = 0xFF << VERSION_SHIFT;
    private static final ValueLayout.OfLong LONG =
            JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    static void write(MemorySegment at, long offset, byte kind, Credits credits, int length) {
        at.set(LONG, offset, word(kind | VERSION << VERSION_SHIFT, credits.returnedMessages()));
        at.set(LONG, offset + Long.BYTES, word(length, credits.returnedControls()));
    }

    private static long word(int low, int high) {
        return Integer.toUnsignedLong(low) | (long) high << Integer.SIZE;
    }

    /** The first half of a received header: kind, version, and messages released. */
    static long first(MemorySegment at) {
        return at.get(LONG, 0);
    }

    /** The second half: length, and control frames taken. */
    static long second(MemorySegment at) {
        return at.get(LONG, Long.BYTES);
    }

    static byte kind(long first) {
        return (byte) first;
    }

    static int length(long second) {
        return (int) second;
    }

    /** Takes the report that a received frame carries; false when it cannot be true. */
    static boolean grant(long first, long second, Credits credits) {
        return credits.grant((int) (first >>> Integer.SIZE), (int) (second >>> Integer.SIZE));
    }

    /** Whether a received frame is one of this version, and as long as its header says. */
    static boolean isValid(long first, long second, long received) {
        long kind = first & KIND_MASK;
        return received >= HEADER_BYTES
                && (first & VERSION_MASK) == VERSION << VERSION_SHIFT
                && kind >= MESSAGE
                && kind <= KEEP_ALIVE
                && Integer.toUnsignedLong(length(second)) == received - HEADER_BYTES
                && (kind == MESSAGE || received == HEADER_BYTES);
    }
}
