package dev.verbena.channel;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** The header of a frame: see the package's description, which documents each byte. */
final class Frame {
    static final int HEADER_BYTES = 16;

    static final byte MESSAGE = 1;
    static final byte CREDIT = 2;
    static final byte KEEP_ALIVE = 3;

    private static final byte VERSION = 1;
    private static final long KIND = 0;
    private static final long VERSION_AT = 1;
    private static final long MESSAGES = 4;
    private static final long LENGTH = 8;
    private static final long CONTROLS = 12;
    private static final ValueLayout.OfInt INT =
            JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    static void write(MemorySegment at, long offset, byte kind, Credits credits, int length) {
        at.set(JAVA_BYTE, offset + KIND, kind);
        at.set(JAVA_BYTE, offset + VERSION_AT, VERSION);
        at.set(INT, offset + MESSAGES, credits.returnedMessages());
        at.set(INT, offset + LENGTH, length);
        at.set(INT, offset + CONTROLS, credits.returnedControls());
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

    /** Whether a received frame is one of this version, and as long as its header says. */
    static boolean isValid(MemorySegment at, long received) {
        return received >= HEADER_BYTES
                && at.get(JAVA_BYTE, VERSION_AT) == VERSION
                && kind(at) >= MESSAGE
                && kind(at) <= KEEP_ALIVE
                && Integer.toUnsignedLong(length(at)) == received - HEADER_BYTES
                && (kind(at) == MESSAGE || received == HEADER_BYTES);
    }
}
