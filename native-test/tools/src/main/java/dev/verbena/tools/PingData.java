package dev.verbena.tools;

import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
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
        memory.copyFrom(of(round, (int) memory.byteSize()));
    }

    /** Where memory differs from the data of a round, or -1 when it does not. */
    static long mismatch(MemorySegment memory, int round) {
        return memory.mismatch(of(round, (int) memory.byteSize()));
    }

    private static MemorySegment of(int round, int size) {
        byte[] data = String.format(Locale.ROOT, TEXT, round).getBytes(StandardCharsets.US_ASCII);
        int letters = data.length;
        data = Arrays.copyOf(data, size);
        int letter = FIRST + round % KINDS;
        for (int i = letters; i < size; i++) {
            data[i] = (byte) letter;
            letter = letter == LAST ? FIRST : letter + 1;
        }
        if (size > 0) { // what a peer announces
            data[size - 1] = 0;
        }
        return MemorySegment.ofArray(data);
    }
}
