package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.util.Collection;
import java.util.DoubleSummaryStatistics;
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

    /** Whether a value is missing, and not because of something that this machine lacks. */
    boolean isMissing() {
        return !isMeasured() && lacking.isEmpty();
    }

    /** By how much C's own forks differ: the highest divided by the lowest. */
    double variationOfC() {
        return c.variation();
    }

    /** The ratio, and in brackets the lowest and the highest of the pairs; or why there is none. */
    String ratioWords() {
        if (!isMeasured()) {
            return isMissing() ? "not measured" : "lacks " + lacking;
        }
        if (row.isJavaOnly(parameter)) {
            return "-";
        }
        return pairs.getCount() < 2
                ? "%.2f".formatted(ratio())
                : "%.2f (%.2f..%.2f)".formatted(ratio(), pairs.getMin(), pairs.getMax());
    }
}
