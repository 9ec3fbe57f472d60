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

    static final int MOST_NOTES = 2;

    /** How much longer a frame may be than its message. */
    static final int MOST_EXTRA_BYTES = HEADER_BYTES + MOST_NOTES * NOTE_BYTES;

    static final byte MESSAGE = 1;
    static final byte CREDIT = 2;
    static final byte KEEP_ALIVE = 3;

    /** Announces a large message, which has the length of the header. */
    static final byte LARGE = 4;

    /** Offers memory to the oldest large message that has none. */
    static final byte OFFER = 5;

    /** The bytes of a large message are in the memory that was offered. */
    static final byte WRITTEN = 6;

    /** The sender closes the channel in good order: this is its last frame. */
    static final byte CLOSE = 7;

    /** The address and the token of an offer. */
    static final int OFFER_BYTES = 16;

    private static final int ALIGNMENT = 64;
    private static final int VERSION = 1;
    private static final int VERSION_SHIFT = Byte.SIZE;
    private static final int NOTES_SHIFT = 2 * Byte.SIZE;
    private static final long VERSION_MASK = 0xFF << VERSION_SHIFT;
    private static final ValueLayout.OfLong LONG =
            JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    /** How far apart receives are that take frames with messages of so many bytes. */
    static int stride(int messageBytes) {
        return Math.toIntExact(
                (long) MOST_EXTRA_BYTES + messageBytes + ALIGNMENT - 1 & -(long) ALIGNMENT);
    }

    static void write(
            MemorySegment at, long offset, byte kind, Credits credits, int length, int notes) {
        int low = kind | VERSION << VERSION_SHIFT | notes << NOTES_SHIFT;
        at.set(LONG, offset, word(low, credits.returnedMessages()));
        at.set(LONG, offset + Long.BYTES, word(length, credits.returnedControls()));
    }

    static void writeNote(MemorySegment at, long offset, int index, byte kind, int token) {
        at.set(LONG, offset + (long) index * NOTE_BYTES, word(kind, token));
    }

    /** Writes what an offer carries, without its header. */
    static void writeOffer(MemorySegment memory, long at, long address, int token) {
        memory.set(LONG, at, address);
        memory.set(LONG, at + Long.BYTES, Integer.toUnsignedLong(token));
    }

    static long offerAddress(MemorySegment at) {
        return at.get(LONG, HEADER_BYTES);
    }

    static int offerToken(MemorySegment at) {
        return (int) at.get(LONG, HEADER_BYTES + Long.BYTES);
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

    /** Whether frames of a kind use the receives that are reserved for control frames. */
    static boolean isControl(byte kind) {
        return kind == CREDIT || kind == KEEP_ALIVE || kind == OFFER || kind == CLOSE;
    }

    static int length(long second) {
        return (int) second;
    }

    static int notes(long first) {
        return (int) (first >>> NOTES_SHIFT) & 0xFF;
    }

    /** A note of a received frame: its kind in the lower half, the token in the upper. */
    static long note(MemorySegment at, long first, long second, int index) {
        return at.get(LONG, HEADER_BYTES + carried(first, second) + (long) index * NOTE_BYTES);
    }

    /** How many bytes there are between the header and the notes. */
    private static long carried(long first, long second) {
        return kind(first) == LARGE ? 0 : length(second);
    }

    /** Takes the report that a received frame carries; false when it cannot be true. */
    static boolean grant(long first, long second, Credits credits) {
        return credits.grant((int) (first >>> Integer.SIZE), (int) (second >>> Integer.SIZE));
    }

    /** Whether a received frame is one of this version, and as long as its header says. */
    static boolean isValid(long first, long second, long received) {
        int notes = notes(first);
        int length = length(second);
        boolean fits =
                switch (kind(first)) {
                    case MESSAGE -> length >= 0;
                    case LARGE -> length > 0;
                    case OFFER -> length == OFFER_BYTES && notes == 0;
                    case CREDIT, KEEP_ALIVE, WRITTEN, CLOSE -> length == 0;
                    default -> false;
                };
        return fits
                && (first & VERSION_MASK) == VERSION << VERSION_SHIFT
                && notes <= MOST_NOTES
                && received == HEADER_BYTES + carried(first, second) + (long) notes * NOTE_BYTES;
    }
}
