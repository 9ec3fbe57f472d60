package dev.verbena.tools;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * The data that goes back and forth, as {@code rping} makes it: a text that names the round, then
 * letters and what stands between them in ASCII, beginning one further in each round, then a zero.
 */
final class PingData {
    private static final String TEXT = "rdma-ping-%d: ";

    private static final int FIRST = 'A';
    private static final int LAST = 'z';
    private static final int KINDS = LAST - FIRST + 1;

    private PingData() {}

    /** Writes the data of a round, counted from 0, into the whole of the memory. */
    static void fill(MemorySegment memory, int round) {
        byte[] text = text(round);
        for (long i = 0; i < memory.byteSize(); i++) {
            memory.set(JAVA_BYTE, i, at(i, memory.byteSize(), text, round));
        }
    }

    /** Where memory differs from the data of a round, or -1 when it does not. */
    static long mismatch(MemorySegment memory, int round) {
        byte[] text = text(round);
        for (long i = 0; i < memory.byteSize(); i++) {
            if (memory.get(JAVA_BYTE, i) != at(i, memory.byteSize(), text, round)) {
                return i;
            }
        }
        return -1;
    }

    private static byte[] text(int round) {
        return String.format(Locale.ROOT, TEXT, round).getBytes(StandardCharsets.US_ASCII);
    }

    private static byte at(long index, long size, byte[] text, int round) {
        if (index == size - 1) {
            return 0;
        }
        return index < text.length
                ? text[(int) index]
                : (byte) (FIRST + (round % KINDS + index - text.length) % KINDS);
    }
}
