package dev.verbena.internal.connect;

import org.jspecify.annotations.Nullable;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * A header in front of the caller's private data, in the spirit of RFC 8797: whether a side's
 * remote keys (NDK: tokens) can be invalidated by a send, how many reads it lets in and wants, and
 * how long the private data are, which the transport pads with zeros.
 *
 * <pre>
 * byte  0..3   56 62 6E 61 ("Vbna")
 *       4      version, 1
 *       5      flags: 1 = has tokens that a send may invalidate, 2 = receives come from a shared queue
 *       6      length of this header, 12; later versions may add to it
 *       7      length of the caller's private data, which follow the header
 *       8..9   reads and atomics it lets in at once, big-endian
 *       10..11 reads and atomics it wants to have outstanding, big-endian
 * </pre>
 *
 * @param invalidatable whether it has tokens that a send may invalidate
 * @param inboundReads how many reads and atomics it lets in at once
 * @param outboundReads how many reads and atomics it wants to have outstanding
 * @param data the caller's private data
 */
public record Announcement(
        boolean invalidatable,
        boolean sharedReceives,
        int inboundReads,
        int outboundReads,
        byte[] data) {
    public static final int BYTES = 12;

    private static final int MAGIC = 0x56626E61;
    private static final byte VERSION = 1;
    private static final int INVALIDATABLE = 1;
    private static final int SHARED_RECEIVES = 2;

    public byte[] bytes() {
        int flags = (invalidatable ? INVALIDATABLE : 0) | (sharedReceives ? SHARED_RECEIVES : 0);
        return ByteBuffer.allocate(BYTES + data.length)
                .putInt(MAGIC)
                .put(VERSION)
                .put((byte) flags)
                .put((byte) BYTES)
                .put((byte) data.length)
                .putShort((short) inboundReads)
                .putShort((short) outboundReads)
                .put(data)
                .array();
    }

    /**
     * Decodes what came from the peer.
     *
     * @return null when these bytes do not begin with such a header
     */
    public static @Nullable Announcement read(byte[] received) {
        if (received.length < BYTES) {
            return null;
        }
        ByteBuffer buffer = ByteBuffer.wrap(received);
        int magic = buffer.getInt();
        int version = buffer.get();
        int flags = buffer.get();
        int header = Byte.toUnsignedInt(buffer.get());
        int length = Byte.toUnsignedInt(buffer.get());
        if (magic != MAGIC
                || version < VERSION
                || header < BYTES
                || header + length > received.length) {
            return null;
        }
        return new Announcement(
                (flags & INVALIDATABLE) != 0,
                (flags & SHARED_RECEIVES) != 0,
                Short.toUnsignedInt(buffer.getShort()),
                Short.toUnsignedInt(buffer.getShort()),
                Arrays.copyOfRange(received, header, header + length));
    }
}
