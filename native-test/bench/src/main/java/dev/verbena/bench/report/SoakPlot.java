package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.DoubleStream;

/**
 * The plot of a soak: a panel for each column of its table, in percent of the first value, by the
 * minutes of the first column.
 */
public final class SoakPlot {
    private static final int MOST_POINTS = 120;
    private static final int TICKS = 5;

    private SoakPlot() {}

    /**
     * {@code CSV SVG}: reads the one, whose first line has the names of columns; writes the other.
     */
    public static void main(String[] arguments) throws IOException {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        Files.writeString(Path.of(arguments[1]), plot(lines));
    }

    static String plot(List<String> lines) {
        String[] names = lines.getFirst().split(",");
        List<double[]> rows =
                lines.stream()
                        .skip(1)
                        .map(line -> List.of(line.split(",")))
                        .map(cells -> cells.stream().mapToDouble(Double::parseDouble).toArray())
                        .toList();
        if (rows.size() < 2) {
            throw new IllegalArgumentException(
                    "A soak of %d rows has no curve".formatted(rows.size()));
        }
        List<Plot.Panel> panels = new ArrayList<>();
        for (int column = 1; column < names.length; column++) {
            double first = rows.getFirst()[column];
            if (first > 0) {
                panels.add(panel(names[column], rows, column, first));
            }
        }
        String subtitle =
                String.format(
                        Locale.ROOT,
                        "%,d samples in %.0f minutes, in percent of the first",
                        rows.size(),
                        rows.getLast()[0]);
        return new Plot("Soak", subtitle, false, "", panels).toString();
    }

    private static Plot.Panel panel(String name, List<double[]> rows, int column, double first) {
        int step = Math.max(1, rows.size() / MOST_POINTS);
        List<Plot.Point> points = new ArrayList<>();
        for (int row = 0; row < rows.size(); row += step) {
            double percent = 100 * rows.get(row)[column] / first;
            points.add(
                    new Plot.Point(
                            Side.JAVA,
                            rows.get(row)[0],
                            new Values(new int[] {1}, new double[] {percent})));
        }
        double last = rows.getLast()[0];
        List<Double> ticks =
                DoubleStream.iterate(
                                0, tick -> tick <= last, tick -> tick + Math.max(1, last) / TICKS)
                        .boxed()
                        .toList();
        return new Plot.Panel(
                String.format(Locale.ROOT, "%s: at first %,.0f", name, first),
                "minutes",
                "%",
                value -> value,
                ticks,
                points);
    }
}
