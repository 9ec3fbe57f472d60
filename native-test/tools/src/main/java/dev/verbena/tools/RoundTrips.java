package dev.verbena.tools;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

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

    private long[] sorted() {
        long[] sorted = Arrays.copyOf(nanos, count);
        Arrays.sort(sorted);
        return sorted;
    }

    /** In microseconds. */
    Map<String, Object> json() {
        long[] sorted = sorted();
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("min", share(sorted, 0));
        all.put("median", share(sorted, 0.5));
        all.put("p99", share(sorted, 0.99));
        all.put("max", share(sorted, 1));
        return all;
    }

    @Override
    public String toString() {
        long[] sorted = sorted();
        return String.format(
                Locale.ROOT,
                "Round trips in us: min %,.1f, median %,.1f, 99%% %,.1f, max %,.1f",
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
