package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;

/**
 * What a quick run checks: that a median, or its ratio to another program's, is within a limit.
 *
 * @param row the row
 * @param who which program, or parameter
 * @param to whose median it is divided by: c, another program, or - for nobody's
 * @param least the least that is right
 * @param most the most
 */
record Limit(String row, String who, String to, double least, double most) {
    /** The name of a file of such lines: limits.tsv. */
    static final String FILE = "limits.tsv";

    private static final String NOBODY = "-";

    /** All limits of a file. */
    static List<Limit> in(Path file) throws IOException {
        return Files.readAllLines(file).stream()
                .filter(line -> !line.startsWith("#"))
                .map(Limit::parse)
                .toList();
    }

    private static Limit parse(String line) {
        String[] fields = line.split("\t", -1);
        double bound = Double.parseDouble(fields[3].substring(1));
        return fields[3].startsWith(">")
                ? new Limit(fields[0], fields[1], fields[2], bound, Double.MAX_VALUE)
                : new Limit(fields[0], fields[1], fields[2], -Double.MAX_VALUE, bound);
    }

    /** What to say of it. */
    Verdict verdict(Collection<Measurement> all) {
        Values mine = Values.of(all, row, who, Side.JAVA);
        Values theirs = Values.of(all, row, to, to.equals(Peer.NONE) ? Side.C : Side.JAVA);
        boolean alone = to.equals(NOBODY);
        String name = row + (who.isEmpty() ? "" : " " + who) + (alone ? "" : " to " + to);
        if (mine.isEmpty() || (!alone && theirs.isEmpty())) {
            return new Verdict(name + ": not measured", false);
        }
        double value = mine.median() / (alone ? 1 : theirs.median());
        boolean kept = least <= value && value <= most;
        boolean noisy = !alone && theirs.variation() > Page.MOST_VARIATION;
        return new Verdict(
                "%s: %s, %s %s%s"
                        .formatted(
                                name,
                                Values.words(value),
                                most == Double.MAX_VALUE ? "at least" : "at most",
                                Values.words(most == Double.MAX_VALUE ? least : most),
                                kept ? "" : noisy ? " (but " + to + " varies)" : " IS BROKEN"),
                !kept && !noisy);
    }

    /**
     * Of one limit.
     *
     * @param words a line for a person
     * @param broken whether the run fails for it
     */
    record Verdict(String words, boolean broken) {}
}
