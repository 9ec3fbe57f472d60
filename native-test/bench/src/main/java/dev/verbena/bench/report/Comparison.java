package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.util.Collection;
import java.util.DoubleSummaryStatistics;
import java.util.Locale;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * Java and C in one row, with one parameter.
 *
 * @param row the row
 * @param parameter the parameter
 * @param unit the values' unit, empty if there are none
 * @param c what C's forks gave
 * @param java what Java's forks gave
 * @param pairs Java's value divided by C's, fork by fork: what ran at about the same time
 */
record Comparison(
        Row row,
        String parameter,
        String unit,
        Values c,
        Values java,
        DoubleSummaryStatistics pairs) {

    /** What became of a goal. */
    enum Verdict {
        /** There is none. */
        SHOWN,
        /** It is. */
        REACHED,
        /** It is not. */
        MISSED,
        /** A side gave no value. */
        NOT_MEASURED;

        /** As it stands in the table. */
        @Override
        public String toString() {
            return this == SHOWN ? "-" : name().toLowerCase(Locale.ROOT).replace('_', ' ');
        }
    }

    /** Compares what is there. */
    static Comparison of(Row row, String parameter, Collection<Measurement> all) {
        Values c = Values.of(all, row.key(), parameter, Side.C);
        Values java = Values.of(all, row.key(), parameter, Side.JAVA);
        DoubleSummaryStatistics pairs =
                IntStream.of(java.forks())
                        .mapToObj(
                                fork -> {
                                    var one = all.stream().filter(m -> m.fork() == fork).toList();
                                    Values left = Values.of(one, row.key(), parameter, Side.C);
                                    Values right = Values.of(one, row.key(), parameter, Side.JAVA);
                                    return left.isEmpty() ? null : right.median() / left.median();
                                })
                        .filter(Objects::nonNull)
                        .mapToDouble(Double::doubleValue)
                        .summaryStatistics();
        String unit =
                all.stream()
                        .filter(m -> m.row().equals(row.key()) && m.parameter().equals(parameter))
                        .map(Measurement::unit)
                        .findFirst()
                        .orElse("");
        return new Comparison(row, parameter, unit, c, java, pairs);
    }

    boolean isMeasured() {
        return !java.isEmpty() && (row.isJavaOnly() || !c.isEmpty());
    }

    /** Java's median divided by C's; only where both were measured. */
    double ratio() {
        return java.median() / c.median();
    }

    Verdict verdict() {
        if (!isMeasured()) {
            return Verdict.NOT_MEASURED;
        }
        return switch (row.goal(parameter)) {
            case Row.Ratio goal -> reached(goal.isReachedBy(ratio()));
            case Row.Nothing _ -> reached(java.most() < Row.NO_BYTES);
            case Row.Shown _ -> Verdict.SHOWN;
        };
    }

    private static Verdict reached(boolean so) {
        return so ? Verdict.REACHED : Verdict.MISSED;
    }

    /**
     * How bad it is, measured by the goal: the larger, the worse, and what is not measured worst.
     */
    double badness() {
        if (!isMeasured()) {
            return Double.POSITIVE_INFINITY;
        }
        if (row.isJavaOnly()) {
            return java.median();
        }
        return row.goal(parameter) instanceof Row.Ratio goal ? goal.badness(ratio()) : ratio();
    }

    /** The ratio, and in brackets from where to where those of the pairs go. */
    String ratioWords() {
        if (row.isJavaOnly() || !isMeasured()) {
            return "-";
        }
        return pairs.getCount() < 2
                ? "%.2f".formatted(ratio())
                : "%.2f (%.2f..%.2f)".formatted(ratio(), pairs.getMin(), pairs.getMax());
    }
}
