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
 * @param lacking what this machine lacks for it, or empty
 */
record Comparison(
        Row row,
        String parameter,
        String unit,
        Values c,
        Values java,
        DoubleSummaryStatistics pairs,
        String lacking) {

    /** What became of a goal. */
    enum Verdict {
        /** There is none. */
        SHOWN,
        /** It cannot be measured here, and the machine's owner knows why. */
        LACKING,
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
    static Comparison of(Row row, String parameter, Collection<Measurement> all, String lacking) {
        String ofC = row.isOfPeers() ? Peer.NONE : parameter; // one value for all of them
        Values c = Values.of(all, row.key(), ofC, Side.C);
        Values java = Values.of(all, row.key(), parameter, Side.JAVA);
        DoubleSummaryStatistics pairs =
                IntStream.of(java.forks())
                        .mapToObj(
                                fork -> {
                                    var one = all.stream().filter(m -> m.fork() == fork).toList();
                                    Values left = Values.of(one, row.key(), ofC, Side.C);
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
        return new Comparison(row, parameter, unit, c, java, pairs, lacking);
    }

    boolean isMeasured() {
        return !java.isEmpty() && (row.isJavaOnly(parameter) || !c.isEmpty());
    }

    /** Java's median divided by C's; only where both were measured. */
    double ratio() {
        return java.median() / c.median();
    }

    Verdict verdict() {
        if (!isMeasured()) {
            return lacking.isEmpty() ? Verdict.NOT_MEASURED : Verdict.LACKING;
        }
        return switch (row.goal(parameter)) {
            case Row.Ratio goal -> reached(goal.isReachedBy(ratio()));
            case Row.Bound goal -> reached(goal.isReachedBy(java.median()));
            case Row.Nothing _ -> reached(java.most() < Row.NO_BYTES);
            case Row.Shown _ -> Verdict.SHOWN;
        };
    }

    /** The verdict, as it stands in the table. */
    String verdictWords() {
        return verdict() == Verdict.LACKING ? "lacks " + lacking : verdict().toString();
    }

    private static Verdict reached(boolean so) {
        return so ? Verdict.REACHED : Verdict.MISSED;
    }

    /**
     * How bad it is, measured by the goal: the larger, the worse, and what is not measured worst.
     */
    double badness() {
        if (!isMeasured()) {
            return lacking.isEmpty() ? Double.POSITIVE_INFINITY : 0;
        }
        return switch (row.goal(parameter)) {
            case Row.Ratio goal -> goal.badness(ratio());
            case Row.Bound goal -> goal.badness(java.median());
            case Row.Nothing _ -> java.median();
            case Row.Shown _ -> row.isJavaOnly(parameter) ? java.median() : ratio();
        };
    }

    /** The ratio, and in brackets from where to where those of the pairs go. */
    String ratioWords() {
        if (row.isJavaOnly(parameter) || !isMeasured()) {
            return "-";
        }
        return pairs.getCount() < 2
                ? "%.2f".formatted(ratio())
                : "%.2f (%.2f..%.2f)".formatted(ratio(), pairs.getMin(), pairs.getMax());
    }
}
