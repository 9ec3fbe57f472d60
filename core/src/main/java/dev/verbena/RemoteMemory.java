package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Memory of the peer: its address, its remote key (NDK: token) and its length. Reads and writes are
 * checked against the length before they are posted; the peer's device would end the connection
 * instead.
 *
 * <p>One side obtains it from a {@link MemoryRegion} or a {@link MemoryWindow} and sends it in a
 * message; the other side reads it from the message and uses it in its requests:
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="lend"}
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="fill"}
 *
 * <p>A peer that was told that it may invalidate tokens must get those of windows only: to
 * invalidate the token of a region ends the connection (see {@link MemoryRegion#remoteToken}).
 *
 * <p>In a message it takes 20 bytes, in network byte order:
 *
 * <table>
 *   <caption>The layout</caption>
 *   <tr><th>bytes</th><th>field</th></tr>
 *   <tr><td>0 to 7</td><td>the address</td></tr>
 *   <tr><td>8 to 15</td><td>the number of bytes</td></tr>
 *   <tr><td>16 to 19</td><td>the remote key</td></tr>
 * </table>
 *
 * <p>Protocols with their own layout send the three parts and create it from them.
 *
 * @param address its address in the memory of the peer
 * @param token the remote key (NDK: token): 32 opaque bits; as a Java int it may be negative
 * @param bytes its length
 */
@CheckReturnValue
public record RemoteMemory(long address, int token, long bytes) {
    /** How many bytes it takes in a message. */
    public static final int MESSAGE_BYTES = 20;

    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final int LENGTH_AT = 8;
    private static final int TOKEN_AT = 16;

    /**
     * Checks the length.
     *
     * @throws IllegalArgumentException for a negative length
     */
    public RemoteMemory {
        if (bytes < 0) {
            throw new IllegalArgumentException(
                    "Remote memory cannot have %d bytes".formatted(bytes));
        }
    }

    /**
     * Reads the layout that {@link #writeTo} writes.
     *
     * @param message a message from the peer
     * @param offset the offset in the message
     * @return the peer's memory
     * @throws IndexOutOfBoundsException if the message is too short
     * @throws IllegalArgumentException if the length in the message is negative
     */
    public static RemoteMemory readFrom(MemorySegment message, long offset) {
        Arguments.notNull(message, "message");
        Objects.checkFromIndexSize(offset, MESSAGE_BYTES, message.byteSize());
        return new RemoteMemory(
                message.get(LONG, offset),
                message.get(INT, offset + TOKEN_AT),
                message.get(LONG, offset + LENGTH_AT));
    }

    /**
     * Writes this description into a message for the peer.
     *
     * @param message the message
     * @param offset the offset in the message
     * @throws IndexOutOfBoundsException if the message is too short
     */
    public void writeTo(MemorySegment message, long offset) {
        write(address, token, bytes, message, offset);
    }

    /** Writes a description without making one. */
    static void write(long address, int token, long bytes, MemorySegment message, long offset) {
        Objects.checkFromIndexSize(offset, MESSAGE_BYTES, message.byteSize());
        message.set(LONG, offset, address);
        message.set(LONG, offset + LENGTH_AT, bytes);
        message.set(INT, offset + TOKEN_AT, token);
    }

    /**
     * A part of this memory.
     *
     * @param offset the first byte, counted from the start of this memory
     * @param length how many bytes
     * @return that part, with the same remote key
     * @throws IndexOutOfBoundsException for bytes outside of this memory
     */
    public RemoteMemory slice(long offset, long length) {
        Objects.checkFromIndexSize(offset, length, bytes);
        return new RemoteMemory(address + offset, token, length);
    }

    boolean holds(long offset, long length) {
        return offset >= 0 && offset <= bytes - length;
    }

    /** The text has half of the remote key only: it grants access, and texts are logged. */
    @Override
    public String toString() {
        return "%d bytes at 0x%x of the peer, token %s".formatted(bytes, address, Text.key(token));
    }
}
