package dev.verbena.messaging;

import dev.verbena.ConnectionData;
import dev.verbena.Connector;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/**
 * Why a server refuses a channel: the private data of its rejection. See the package's description.
 *
 * @param status CONNECTION_REFUSED where a later attempt may succeed, NOT_SUPPORTED where none will
 * @param why in words, ASCII
 */
record Refusal(Status status, String why) {
    private static final int HEADER_BYTES = 8;
    private static final Pattern NOT_PRINTABLE = Pattern.compile("[^ -~]");
    private static final int MOST_BYTES = 136; // 148 that a rejection has, less Verbena's 12

    static Refusal forNow(String why) {
        return new Refusal(Status.CONNECTION_REFUSED, why);
    }

    byte[] toBytes() {
        byte[] text = why.getBytes(StandardCharsets.US_ASCII);
        int length = Math.min(text.length, MOST_BYTES - HEADER_BYTES);
        return ByteBuffer.allocate(HEADER_BYTES + length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putInt(Handshake.MAGIC)
                .putInt(status.value())
                .put(text, 0, length)
                .array();
    }

    /** Reads a rejection's private data; null when a channel server did not write them. */
    static @Nullable Refusal read(byte[] privateData) {
        ByteBuffer bytes = ByteBuffer.wrap(privateData).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.remaining() < HEADER_BYTES || bytes.getInt() != Handshake.MAGIC) {
            return null;
        }
        Status status =
                bytes.getInt() == Status.NOT_SUPPORTED.value()
                        ? Status.NOT_SUPPORTED
                        : Status.CONNECTION_REFUSED;
        byte[] text = new byte[bytes.remaining()];
        bytes.get(text);
        String why = new String(text, StandardCharsets.US_ASCII).trim();
        return new Refusal(status, NOT_PRINTABLE.matcher(why).replaceAll("?")); // it may be logged
    }

    /** What to throw when an attempt to connect has failed: with the server's words, if any. */
    static VerbenaException explain(
            VerbenaException thrown, @Nullable ConnectionData answer, InetSocketAddress server) {
        Refusal refusal =
                thrown.status() == Status.CONNECTION_REFUSED && answer != null
                        ? read(answer.privateData())
                        : null;
        return refusal == null ? thrown : explained(refusal, thrown, server);
    }

    static MessagingException explained(
            Refusal refusal, VerbenaException thrown, InetSocketAddress server) {
        return new MessagingException(
                refusal.status,
                "%s refused the channel: %s".formatted(server, refusal.why),
                thrown);
    }

    void reject(Connector connector) {
        try {
            connector.reject(toBytes());
        } catch (VerbenaException | IllegalStateException e) {
            return; // the peer has given up, or its connector is closed already
        } finally {
            connector.close();
        }
    }
}
