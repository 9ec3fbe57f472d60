package dev.verbena.tools;

import java.util.Arrays;

/** How long rounds took. */
final class RoundTrips {
    private long[] nanos = new long[1024];
    private int count;

    void add(long nano) {
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, (int) Math.min(2L * count, Integer.MAX_VALUE - 8));
        }
        nanos[count++] = nano;
    }

    @Override
    public String toString() {
        long[] sorted = Arrays.copyOf(nanos, count);
        Arrays.sort(sorted);
        return "Round trips in us: min %,.1f, median %,.1f, 99%% %,.1f, max %,.1f"
                .formatted(
                        share(sorted, 0),
                        share(sorted, 0.5),
                        share(sorted, 0.99),
                        share(sorted, 1));
    }

    /** The time that this share of the rounds took at most, in microseconds. */
    private static double share(long[] sorted, double share) {
        int index = (int) Math.ceil(share * sorted.length) - 1;
        return sorted[Math.max(index, 0)] / 1e3;
    }
}
