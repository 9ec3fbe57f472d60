package dev.verbena.bench.report;

import dev.verbena.bench.report.Comparison.Verdict;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The verdicts, and all values behind them. */
final class Table {
    private static final List<String> HEAD =
            List.of("row", "at", "C", "Java", "unit", "Java / C", "goal", "verdict");

    private static final List<String> HEAD_OF_PEERS =
            List.of("row", "in Java's place", "C", "its", "unit", "its / C", "goal", "verdict");

    private static final Comparator<Comparison> BY_VERDICT =
            Comparator.comparing(Comparison::verdict);

    private final List<List<Comparison>> rows;

    /**
     * @param rows for each row the comparisons with its parameters, of which there is at least one
     */
    Table(List<List<Comparison>> rows) {
        this.rows = rows;
    }

    /** Of a row as a whole: its worst. */
    static Verdict verdict(List<Comparison> row) {
        return row.stream().max(BY_VERDICT).orElseThrow().verdict();
    }

    /** Of parameters with a goal, if there are any. */
    private static Comparison worst(List<Comparison> row) {
        List<Comparison> judged =
                row.stream().filter(one -> one.verdict() != Verdict.SHOWN).toList();
        return (judged.isEmpty() ? row : judged)
                .stream().max(Comparator.comparingDouble(Comparison::badness)).orElseThrow();
    }

    /**
     * 2 if something was not measured, whatever else there is; otherwise 1 if a goal was missed, or
     * 0.
     */
    int exitCode() {
        List<Verdict> all = rows.stream().map(Table::verdict).toList();
        return all.contains(Verdict.NOT_MEASURED) ? 2 : all.contains(Verdict.MISSED) ? 1 : 0;
    }

    @Override
    public String toString() {
        List<List<String>> verdicts = new ArrayList<>(List.of(HEAD));
        List<List<String>> values = new ArrayList<>(List.of(HEAD));
        List<List<String>> peers = new ArrayList<>(List.of(HEAD_OF_PEERS));
        for (List<Comparison> row : rows) {
            if (row.getFirst().row().isOfPeers()) {
                row.forEach(one -> peers.add(line(one, one)));
                continue;
            }
            verdicts.add(line(worst(row), row.stream().max(BY_VERDICT).orElseThrow()));
            if (row.size() > 1) {
                row.forEach(one -> values.add(line(one, one)));
            }
        }
        String text =
                """
                Verbena and C: medians over forks, in brackets the lowest and the highest fork. The ratio is that of
                the medians; in brackets the lowest and the highest of single forks, C and Java one after the other.
                Where a row has several parameters, this is its worst:

                """
                        + aligned(verdicts);
        if (peers.size() > 1) {
            text +=
                    """

                    Others in Java's place, and this library beside them, by turns in one run and by time on a processor.
                    Tuned C fills a request in once; raw FFM and bare JNI check nothing and keep nothing:

                    """
                            + aligned(peers);
        }
        return values.size() == 1 ? text : text + "\nAll parameters:\n\n" + aligned(values);
    }

    private static List<String> line(Comparison one, Comparison judged) {
        return List.of(
                one.row().title(),
                one.row().words(one.parameter()),
                one.c().toString(),
                one.java().toString(),
                one.unit(),
                one.ratioWords(),
                one.row().goal(one.parameter()).toString(),
                judged.verdictWords());
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
