package dev.verbena.tools;

import dev.verbena.MemoryRegion;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * A client's memory, as it tells the server in a message of 16 bytes, in network byte order.
 *
 * @param address where it is
 * @param token what opens it
 * @param bytes how much there is
 */
record RemoteMemory(long address, int token, long bytes) {
    static final int MESSAGE_BYTES = 16;

    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    static RemoteMemory of(MemoryRegion region) {
        return new RemoteMemory(
                region.memory().address(), region.remoteToken(), region.memory().byteSize());
    }

    static RemoteMemory readFrom(MemorySegment message) {
        return new RemoteMemory(
                message.get(LONG, 0),
                message.get(INT, Long.BYTES),
                Integer.toUnsignedLong(message.get(INT, Long.BYTES + Integer.BYTES)));
    }

    void writeTo(MemorySegment message) {
        message.set(LONG, 0, address);
        message.set(INT, Long.BYTES, token);
        message.set(INT, Long.BYTES + Integer.BYTES, (int) bytes);
    }
}
