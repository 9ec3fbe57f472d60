package dev.verbena.bench;

import java.util.Arrays;
import java.util.Locale;

/** How the programs of this package report: as those in {@code c} do. */
final class Results {
    private Results() {}

    /** Prints one result. */
    static void print(String measure, String parameter, double value, String unit) {
        System.out.printf(
                Locale.ROOT, "RESULT\t%s\t%s\t%.2f\t%s%n", measure, parameter, value, unit);
    }

    /** The median of times in ns, in us. */
    static double medianMicros(long[] times) {
        long[] sorted = times.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        double median =
                sorted.length % 2 == 1
                        ? sorted[middle]
                        : (sorted[middle - 1] + sorted[middle]) / 2.0;
        return median / 1_000;
    }

    /** The mean of times in ns, in us. */
    static double meanMicros(long[] times) {
        return Arrays.stream(times).average().orElseThrow() / 1_000;
    }

    /** Element by element. */
    static long[] sums(long[] a, long[] b) {
        long[] sums = new long[a.length];
        Arrays.setAll(sums, i -> a[i] + b[i]);
        return sums;
    }
}
