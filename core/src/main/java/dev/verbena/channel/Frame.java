package dev.verbena.channel;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * A frame: a header, the message, and notes on remote keys. See the package's description, which
 * documents each byte.
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

    private static final byte VERSION = 1;
    private static final long KIND = 0;
    private static final long VERSION_AT = 1;
    private static final long NOTES = 2;
    private static final long MESSAGES = 4;
    private static final long LENGTH = 8;
    private static final long CONTROLS = 12;
    private static final long TOKEN = 4; // in a note
    private static final ValueLayout.OfInt INT =
            JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    static void write(
            MemorySegment at, long offset, byte kind, Credits credits, int length, int notes) {
        at.set(JAVA_BYTE, offset + KIND, kind);
        at.set(JAVA_BYTE, offset + VERSION_AT, VERSION);
        at.set(JAVA_BYTE, offset + NOTES, (byte) notes);
        at.set(INT, offset + MESSAGES, credits.returnedMessages());
        at.set(INT, offset + LENGTH, length);
        at.set(INT, offset + CONTROLS, credits.returnedControls());
    }

    /** Writes a note; the offset is that of the first one. */
    static void writeNote(MemorySegment at, long offset, int index, byte kind, int token) {
        long note = offset + (long) index * NOTE_BYTES;
        at.set(INT, note, kind); // and three zeros
        at.set(INT, note + TOKEN, token);
    }

    static byte kind(MemorySegment at) {
        return at.get(JAVA_BYTE, KIND);
    }

    /** Takes the report that a received frame carries; false when it cannot be true. */
    static boolean grant(MemorySegment at, Credits credits) {
        return credits.grant(at.get(INT, MESSAGES), at.get(INT, CONTROLS));
    }

    static int length(MemorySegment at) {
        return at.get(INT, LENGTH);
    }

    static int notes(MemorySegment at) {
        return at.get(JAVA_BYTE, NOTES);
    }

    static int noteKind(MemorySegment at, int index) {
        return at.get(INT, note(at, index));
    }

    static int noteToken(MemorySegment at, int index) {
        return at.get(INT, note(at, index) + TOKEN);
    }

    private static long note(MemorySegment at, int index) {
        return (long) HEADER_BYTES + length(at) + (long) index * NOTE_BYTES;
    }

    /** Whether a received frame is one of this version, and as long as its header says. */
    static boolean isValid(MemorySegment at, long received) {
        return received >= HEADER_BYTES
                && at.get(JAVA_BYTE, VERSION_AT) == VERSION
                && kind(at) >= MESSAGE
                && kind(at) <= KEEP_ALIVE
                && notes(at) >= 0
                && notes(at) <= MOST_NOTES
                && length(at) >= 0
                && (kind(at) == MESSAGE || length(at) == 0)
                && received == note(at, notes(at));
    }
}
