package dev.verbena.tools;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;

/**
 * The data that goes back and forth, as {@code rping} makes it: a text that names the round, then
 * letters and what stands between them in ASCII, beginning one further in each round, then a zero.
 */
final class PingData {
    static final String TEXT = "rdma-ping-%d: ";

    private static final int FIRST = 'A';
    private static final int KINDS = 'z' - 'A' + 1;

    private PingData() {}

    /** Writes the data of a round, counted from 0, into the whole of the memory. */
    static void fill(MemorySegment memory, int round) {
        long size = memory.byteSize();
        byte[] text = text(round);
        for (long i = 0; i < size; i++) {
            memory.set(ValueLayout.JAVA_BYTE, i, at(i, size, text, round));
        }
    }

    /** Where memory differs from the data of a round, or -1 when it does not. */
    static long mismatch(MemorySegment memory, int round) {
        long size = memory.byteSize();
        byte[] text = text(round);
        for (long i = 0; i < size; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, i) != at(i, size, text, round)) {
                return i;
            }
        }
        return -1;
    }

    private static byte[] text(int round) {
        return TEXT.formatted(round).getBytes(StandardCharsets.US_ASCII);
    }

    private static byte at(long index, long size, byte[] text, int round) {
        if (index == size - 1) {
            return 0;
        }
        return index < text.length
                ? text[(int) index]
                : (byte) (FIRST + (round + index - text.length) % KINDS);
    }
}
