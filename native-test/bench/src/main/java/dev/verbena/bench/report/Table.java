package dev.verbena.bench.report;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The figures as text.
 *
 * @param comparisons a line for each
 */
record Table(List<Comparison> comparisons) {
    private static final List<String> HEAD = List.of("row", "at", "C", "Java", "unit", "Java / C");

    private static final List<String> HEAD_OF_PEERS =
            List.of("row", "program", "C", "value", "unit", "value / C");

    /** 2 if something was not measured, otherwise 0. */
    int exitCode() {
        return comparisons.stream().anyMatch(Comparison::isMissing) ? 2 : 0;
    }

    @Override
    public String toString() {
        List<List<String>> lines = new ArrayList<>(List.of(HEAD));
        List<List<String>> peers = new ArrayList<>(List.of(HEAD_OF_PEERS));
        for (Comparison one : comparisons) {
            (one.row().isOfPeers() ? peers : lines).add(line(one));
        }
        String text =
                """
                Verbena and C: medians over forks, in brackets the lowest and the highest fork. The ratio is that of
                the medians; in brackets the lowest and the highest ratio of a fork of C and the fork of Java after it.
                """
                        + variation()
                        + "\n"
                        + aligned(lines);
        if (peers.size() > 1) {
            text +=
                    """

                    Other ways to make the same calls: each program ran in turn with C; the time is the thread's on a
                    processor. Tuned C fills in its requests once. Raw FFM and bare JNI check nothing and keep no records.

                    """
                            + aligned(peers);
        }
        return text;
    }

    /** How noisy the run was. */
    private String variation() {
        return comparisons.stream()
                .filter(one -> one.variationOfC() > 1)
                .max(Comparator.comparingDouble(Comparison::variationOfC))
                .map(
                        one ->
                                "C itself varied by a factor of up to %.1f between the forks of this run\n(%s: %s to %s %s).\n"
                                        .formatted(
                                                one.variationOfC(),
                                                one.row().title(),
                                                Values.words(one.c().least()),
                                                Values.words(one.c().most()),
                                                one.unit()))
                .orElse("");
    }

    private static List<String> line(Comparison one) {
        return List.of(
                one.row().title(),
                one.row().words(one.parameter()),
                one.c().toString(),
                one.java().toString(),
                one.unit(),
                one.ratioWords());
    }

    private static String aligned(List<List<String>> lines) {
        int[] widths =
                IntStream.range(0, HEAD.size())
                        .map(i -> lines.stream().mapToInt(l -> l.get(i).length()).max().orElse(0))
                        .toArray();
        return lines.stream()
                .map(
                        line ->
                                IntStream.range(0, widths.length)
                                        .mapToObj(i -> "%-" + (widths[i] + 2) + "s")
                                        .collect(Collectors.joining())
                                        .formatted(line.toArray())
                                        .stripTrailing())
                .collect(Collectors.joining("\n", "", "\n"));
    }
}
