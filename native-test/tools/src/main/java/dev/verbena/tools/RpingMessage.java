package dev.verbena.tools;

import dev.verbena.RemoteMemory;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * How rping names its memory in a message: 16 bytes in network byte order, 8 of address, 4 of token
 * and 4 of length.
 */
final class RpingMessage {
    static final int BYTES = 16;

    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private RpingMessage() {}

    static RemoteMemory read(MemorySegment message) {
        return new RemoteMemory(
                message.get(LONG, 0),
                message.get(INT, Long.BYTES),
                Integer.toUnsignedLong(message.get(INT, Long.BYTES + Integer.BYTES)));
    }

    static void write(RemoteMemory memory, MemorySegment message) {
        message.set(LONG, 0, memory.address());
        message.set(INT, Long.BYTES, memory.token());
        message.set(INT, Long.BYTES + Integer.BYTES, (int) memory.bytes());
    }
}
