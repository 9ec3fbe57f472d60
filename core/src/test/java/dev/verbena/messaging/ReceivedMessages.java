package dev.verbena.messaging;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** Tests whose receiver notes the bytes of each message, and may keep the messages. */
abstract class ReceivedMessages {
    final List<byte[]> got = new ArrayList<>();
    final List<Message> kept = new ArrayList<>();
    boolean keeps;

    final OneThread open(MessagingOptions options) {
        return new OneThread(
                options,
                (channel, message) -> {
                    got.add(message.data().toArray(ValueLayout.JAVA_BYTE));
                    if (keeps) {
                        kept.add(message.retain());
                    }
                });
    }

    /** Other bytes for each length. */
    static byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) (i * 31 + i / 251 + length);
        }
        return bytes;
    }

    static MemorySegment message(int length) {
        return MemorySegment.ofArray(bytes(length));
    }
}
