package dev.verbena.messaging;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * A frame: a header, the message, and notes on remote keys. See the package's description, which
 * documents each byte. The header is read and written as two longs, a note as one: each access of
 * memory has checks of its own.
 */
final class Frame {
    static final int HEADER_BYTES = 16;
    static final int NOTE_BYTES = 8;

    /** How many notes a frame has at most. */
    static final int MOST_NOTES = 2;

    /** How much longer a frame may be than its message. */
    static final int MOST_EXTRA_BYTES = HEADER_BYTES + MOST_NOTES * NOTE_BYTES;

    static final byte MESSAGE = 1;
    static final byte CREDIT = 2;
    static final byte KEEP_ALIVE = 3;

    private static final int VERSION = 1;
    private static final int VERSION_SHIFT = Byte.SIZE;
    private static final int NOTES_SHIFT = 2 * Byte.SIZE;
    private static final long KIND_MASK = 0xFF;
    private static final long VERSION_MASK = 0xFF << VERSION_SHIFT;
    private static final ValueLayout.OfLong LONG =
            JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    static void write(
            MemorySegment at, long offset, byte kind, Credits credits, int length, int notes) {
        int low = kind | VERSION << VERSION_SHIFT | notes << NOTES_SHIFT;
        at.set(LONG, offset, word(low, credits.returnedMessages()));
        at.set(LONG, offset + Long.BYTES, word(length, credits.returnedControls()));
    }

    /** Writes a note; the offset is that of the first one. */
    static void writeNote(MemorySegment at, long offset, int index, byte kind, int token) {
        at.set(LONG, offset + (long) index * NOTE_BYTES, word(kind, token));
    }

    private static long word(int low, int high) {
        return Integer.toUnsignedLong(low) | (long) high << Integer.SIZE;
    }

    /** The first half of a received header: kind, version, notes, and messages released. */
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

    /** How many notes a received frame has. */
    static int notes(long first) {
        return (int) (first >>> NOTES_SHIFT) & 0xFF;
    }

    /** A note of a received frame: its kind in the lower half, the token in the upper. */
    static long note(MemorySegment at, long second, int index) {
        return at.get(LONG, (long) HEADER_BYTES + length(second) + (long) index * NOTE_BYTES);
    }

    /** Takes the report that a received frame carries; false when it cannot be true. */
    static boolean grant(long first, long second, Credits credits) {
        return credits.grant((int) (first >>> Integer.SIZE), (int) (second >>> Integer.SIZE));
    }

    /** Whether a received frame is one of this version, and as long as its header says. */
    static boolean isValid(long first, long second, long received) {
        long kind = first & KIND_MASK;
        int notes = notes(first);
        return (first & VERSION_MASK) == VERSION << VERSION_SHIFT
                && kind >= MESSAGE
                && kind <= KEEP_ALIVE
                && notes <= MOST_NOTES
                && length(second) >= 0
                && (kind == MESSAGE || length(second) == 0)
                && received == (long) HEADER_BYTES + length(second) + (long) notes * NOTE_BYTES;
    }
}
