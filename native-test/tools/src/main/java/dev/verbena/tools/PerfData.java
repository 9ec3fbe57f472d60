package dev.verbena.tools;

import java.lang.foreign.MemorySegment;

/** What is in the messages, so that wrong bytes do not go unnoticed. */
final class PerfData {
    private static final int STEP = 31;
    private static final int PAGE_BITS = 8;

    private PerfData() {}

    /**
     * The bytes of a message: no two neighbouring pages, and no two seeds of one session, have the
     * same, and none is a message of zeros.
     */
    static byte[] of(int size, int seed) {
        byte[] data = new byte[size];
        for (int i = 0; i < size; i++) {
            data[i] = (byte) (seed + i * STEP + (i >> PAGE_BITS));
        }
        return data;
    }

    /**
     * Looks at a message that came.
     *
     * @param memory where
     * @param at where its first byte is there
     * @param from the first of its bytes to look at
     * @param to behind the last of them
     * @param expected what it ought to be, as {@link #of} made it
     * @return which of its bytes is the first that is wrong, or -1
     */
    static long mismatch(MemorySegment memory, long at, int from, int to, byte[] expected) {
        long wrong =
                MemorySegment.mismatch(
                        MemorySegment.ofArray(expected), from, to, memory, at + from, at + to);
        return wrong < 0 ? -1 : from + wrong;
    }

    /**
     * What one side's messages of a round are made from; never zero, for what waits for a message
     * is zero.
     */
    static int seed(int round, boolean server) {
        return 1 + (2 * round + (server ? 1 : 0)) % 255;
    }
}
