package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * Memory of the peer: its address, the token (verbs: remote key) that opens it, and how many bytes
 * there are. What is to be written or read is compared with that number before it is posted; the
 * peer's device would end the connection.
 *
 * <p>One side makes it, of a {@link MemoryRegion} or of a {@link MemoryWindow}, and sends it in a
 * message; the other reads it there and names it in its requests:
 *
 * {@snippet :
 * window.remoteMemory().writeTo(letter, 0); // here
 * RemoteMemory target = RemoteMemory.readFrom(letter, 0); // there
 * queuePair.write(1, bytes, target, 0, OpFlags.NONE).orThrow();
 * }
 *
 * <p>In a message it has 20 bytes, in network byte order:
 *
 * <table>
 *   <caption>The bytes</caption>
 *   <tr><th>bytes</th><th>what</th></tr>
 *   <tr><td>0 to 7</td><td>the address</td></tr>
 *   <tr><td>8 to 15</td><td>the number of bytes</td></tr>
 *   <tr><td>16 to 19</td><td>the token</td></tr>
 * </table>
 *
 * <p>Protocols of others have layouts of their own: {@link #of(long, int, long)}.
 */
@CheckReturnValue
public final class RemoteMemory {
    /** How many bytes it has in a message. */
    public static final int MESSAGE_BYTES = 20;

    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final int LENGTH_AT = 8;
    private static final int TOKEN_AT = 16;

    private final long address;
    private final int token;
    private final long bytes;

    private RemoteMemory(long address, int token, long bytes) {
        this.address = address;
        this.token = token;
        this.bytes = bytes;
    }

    /**
     * Memory that a protocol described in its own way.
     *
     * @param address where it is at the peer
     * @param token the peer's token for it
     * @param bytes how many there are
     * @return that memory
     * @throws IllegalArgumentException for a negative number of bytes
     */
    public static RemoteMemory of(long address, int token, long bytes) {
        if (bytes < 0) {
            throw new IllegalArgumentException("Memory has 0 bytes or more, not " + bytes);
        }
        return new RemoteMemory(address, token, bytes);
    }

    /**
     * Reads what {@link #writeTo} wrote.
     *
     * @param message a message of the peer
     * @param offset where in the message
     * @return the peer's memory
     * @throws IndexOutOfBoundsException when the message ends before it
     * @throws IllegalArgumentException when these bytes cannot be one: the length is negative
     */
    public static RemoteMemory readFrom(MemorySegment message, long offset) {
        Objects.checkFromIndexSize(offset, MESSAGE_BYTES, message.byteSize());
        return of(
                message.get(LONG, offset),
                message.get(INT, offset + TOKEN_AT),
                message.get(LONG, offset + LENGTH_AT));
    }

    /**
     * Writes it into a message for the peer.
     *
     * @param message where to
     * @param offset where in the message
     * @throws IndexOutOfBoundsException when the message has no room for it there
     */
    public void writeTo(MemorySegment message, long offset) {
        Objects.checkFromIndexSize(offset, MESSAGE_BYTES, message.byteSize());
        message.set(LONG, offset, address);
        message.set(LONG, offset + LENGTH_AT, bytes);
        message.set(INT, offset + TOKEN_AT, token);
    }

    /**
     * A part of it.
     *
     * @param offset the first byte, counted from its start
     * @param length how many bytes
     * @return that part, opened by the same token
     * @throws IndexOutOfBoundsException for bytes outside of it
     */
    public RemoteMemory slice(long offset, long length) {
        Objects.checkFromIndexSize(offset, length, bytes);
        return new RemoteMemory(address + offset, token, length);
    }

    /**
     * Where it is.
     *
     * @return its address at the peer
     */
    public long address() {
        return address;
    }

    /**
     * What opens it.
     *
     * @return the peer's token
     */
    public int token() {
        return token;
    }

    /**
     * How much there is.
     *
     * @return how many bytes
     */
    public long bytes() {
        return bytes;
    }

    boolean holds(long offset, long length) {
        return offset >= 0 && offset <= bytes - length;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof RemoteMemory that
                && address == that.address
                && token == that.token
                && bytes == that.bytes;
    }

    @Override
    public int hashCode() {
        return Objects.hash(address, token, bytes);
    }

    @Override
    public String toString() {
        return "%d bytes at 0x%x of the peer, token 0x%08x".formatted(bytes, address, token);
    }
}
