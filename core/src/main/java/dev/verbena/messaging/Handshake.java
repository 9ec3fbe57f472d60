package dev.verbena.messaging;

import dev.verbena.Status;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * What each side says in the private data of the connection: how long its receives are, how many
 * messages they take, and how much memory it may expose. See the package's description.
 *
 * @param maxMessage the longest message that this side receives, in bytes
 * @param receives how many messages this side has receives for
 * @param exposures how many exposures this side may have at a time
 * @param peerExposures how many the other side may have
 * @param eagerLimit the longest message that fits one of its receives, in bytes
 * @param offers whether this side offers memory for longer ones
 */
record Handshake(
        int maxMessage,
        int receives,
        int exposures,
        int peerExposures,
        int eagerLimit,
        boolean offers) {
    static final int BYTES = 20;
    static final int MAGIC = 0x48434256; // "VBCH"
    private static final byte VERSION = 1;

    byte[] toBytes() {
        return ByteBuffer.allocate(BYTES)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putInt(MAGIC)
                .put(VERSION)
                .put((byte) (offers ? 1 : 0))
                .putShort((short) receives)
                .putInt(maxMessage)
                .putShort((short) exposures)
                .putShort((short) peerExposures)
                .putInt(eagerLimit)
                .array();
    }

    /**
     * Reads the peer's.
     *
     * @throws MessagingException NOT_SUPPORTED when the peer is no channel, or of another version
     */
    static Handshake read(byte[] privateData) {
        if (privateData.length < BYTES) {
            throw foreign("%d bytes of private data".formatted(privateData.length));
        }
        ByteBuffer bytes = ByteBuffer.wrap(privateData).order(ByteOrder.LITTLE_ENDIAN);
        int magic = bytes.getInt();
        byte version = bytes.get();
        if (magic != MAGIC || version != VERSION) {
            throw foreign("magic 0x%08x, version %d".formatted(magic, version));
        }
        boolean offers = (bytes.get() & 1) != 0;
        int receives = Short.toUnsignedInt(bytes.getShort());
        int maxMessage = bytes.getInt();
        int exposures = Short.toUnsignedInt(bytes.getShort());
        int peerExposures = Short.toUnsignedInt(bytes.getShort());
        int eagerLimit = bytes.getInt();
        if (receives < 1 || maxMessage < 1 || eagerLimit < 1) {
            throw foreign(
                    "%d receives of %d bytes for messages of up to %d"
                            .formatted(receives, eagerLimit, maxMessage));
        }
        return new Handshake(maxMessage, receives, exposures, peerExposures, eagerLimit, offers);
    }

    private static MessagingException foreign(String what) {
        return new MessagingException(
                Status.NOT_SUPPORTED,
                "The peer does not use this version of channels: it sent %s, not magic 0x%08x, version %d"
                        .formatted(what, MAGIC, VERSION));
    }
}
