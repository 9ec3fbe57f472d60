package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.util.Arrays;
import java.util.Collection;
import java.util.Locale;

/**
 * What the forks of one side gave for one thing.
 *
 * @param forks the numbers of the forks
 * @param sorted their values, the least first
 */
record Values(int[] forks, double[] sorted) {
    /** Those of one row and parameter. */
    static Values of(Collection<Measurement> all, String row, String parameter, Side side) {
        Measurement[] chosen =
                all.stream()
                        .filter(m -> m.row().equals(row) && m.parameter().equals(parameter))
                        .filter(m -> m.side() == side)
                        .toArray(Measurement[]::new);
        return new Values(
                Arrays.stream(chosen).mapToInt(Measurement::fork).distinct().toArray(),
                Arrays.stream(chosen).mapToDouble(Measurement::value).sorted().toArray());
    }

    /** In another unit. */
    Values dividedBy(double by) {
        return new Values(forks, Arrays.stream(sorted).map(value -> value / by).toArray());
    }

    boolean isEmpty() {
        return sorted.length == 0;
    }

    double least() {
        return sorted[0];
    }

    double most() {
        return sorted[sorted.length - 1];
    }

    /** By how much the forks differ: the highest divided by the lowest. */
    double variation() {
        return isEmpty() || least() == 0 ? 1 : most() / least();
    }

    double median() {
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    /** The median, and in brackets from where to where the forks go; a dash if there are none. */
    @Override
    public String toString() {
        if (isEmpty()) {
            return "-";
        }
        return sorted.length == 1
                ? words(median())
                : "%s (%s..%s)".formatted(words(median()), words(least()), words(most()));
    }

    /** A number with as many digits as say something. */
    static String words(double value) {
        double size = Math.abs(value);
        String format =
                size >= 100 ? "%,.0f" : size >= 10 ? "%.1f" : size >= 0.01 ? "%.2f" : "%.1g";
        return value == 0 ? "0" : String.format(Locale.ROOT, format, value);
    }
}
