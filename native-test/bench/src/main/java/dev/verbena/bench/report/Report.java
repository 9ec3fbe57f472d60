package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.DoubleUnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Reads the outputs of the benchmarks in a folder, prints the table, and writes it with the plots
 * and all values. See native-test/README.md.
 */
public final class Report {
    private final List<Measurement> measurements;
    private final Set<List<String>> asked;
    private final Map<List<String>, String> lacking;
    private final Map<String, String> machine;

    /**
     * @param measurements what was measured
     * @param asked what was to be: pairs of row and parameter
     * @param lacking what the machine lacks for some of these
     * @param machine on what, by what it is called in machine.txt
     */
    Report(
            List<Measurement> measurements,
            Set<List<String>> asked,
            Map<List<String>, String> lacking,
            Map<String, String> machine) {
        this.measurements = measurements;
        this.asked = asked;
        this.lacking = lacking;
        this.machine = machine;
    }

    /**
     * Ends with exit code 0, 2 if something that was to be measured was not, or 3 if no report can
     * be made.
     *
     * @param arguments the folder with the programs' outputs, asked.tsv and machine.txt; the folder
     *     for the report
     */
    public static void main(String[] arguments) {
        if (arguments.length != 2) {
            System.err.println("Usage: Report FOLDER_WITH_OUTPUTS FOLDER_FOR_REPORT");
            System.exit(3);
        }
        try {
            Path outputs = Path.of(arguments[0]);
            Report report =
                    new Report(
                            Outputs.in(outputs, System.err::println),
                            asked(outputs),
                            lacking(outputs),
                            machine(outputs));
            Table table = report.table();
            System.out.print(table);
            report.write(Files.createDirectories(Path.of(arguments[1])));
            System.exit(table.exitCode());
        } catch (IOException e) {
            boolean missing = e instanceof NoSuchFileException;
            System.err.println("No report: " + (missing ? "there is no " : "") + e.getMessage());
            System.exit(3);
        }
    }

    private static Set<List<String>> asked(Path outputs) throws IOException {
        return Files.readAllLines(outputs.resolve("asked.tsv")).stream()
                .map(line -> Arrays.asList(line.split("\t", 3)).subList(0, 2))
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    /** Where a line has a third field, it is what is lacking. */
    private static Map<List<String>, String> lacking(Path outputs) throws IOException {
        return Files.readAllLines(outputs.resolve("asked.tsv")).stream()
                .map(line -> Arrays.asList(line.split("\t", 3)))
                .filter(fields -> fields.size() == 3)
                .collect(Collectors.toMap(fields -> fields.subList(0, 2), List::getLast));
    }

    private static Map<String, String> machine(Path outputs) throws IOException {
        Map<String, String> machine = new LinkedHashMap<>();
        for (String line : Files.readAllLines(outputs.resolve("machine.txt"))) {
            String[] parts = line.split(": +", 2);
            machine.put(parts[0], parts.length == 2 ? parts[1] : "");
        }
        return machine;
    }

    /** All rows that were asked for or measured, in the order of {@link Row}. */
    Table table() {
        return new Table(
                Arrays.stream(Row.values())
                        .flatMap(row -> parameters(row).map(p -> comparison(row, p)))
                        .toList());
    }

    private Comparison comparison(Row row, String parameter) {
        String lacks = lacking.getOrDefault(List.of(row.key(), parameter), "");
        return Comparison.of(row, parameter, measurements, lacks);
    }

    private Stream<String> parameters(Row row) {
        Stream<String> wanted =
                asked.stream().filter(pair -> pair.getFirst().equals(row.key())).map(List::getLast);
        return Stream.concat(wanted, parameters(row.key()))
                .filter(parameter -> !row.isOfPeers() || !parameter.equals(Peer.NONE))
                .distinct();
    }

    private Stream<String> parameters(String row) {
        return measurements.stream()
                .filter(m -> m.row().equals(row))
                .map(Measurement::parameter)
                .distinct();
    }

    private void write(Path folder) throws IOException {
        Files.writeString(folder.resolve("table.txt"), table().toString());
        Files.writeString(
                folder.resolve("machine.txt"),
                machine.entrySet().stream()
                        .map(entry -> entry.getKey() + ": " + entry.getValue() + "\n")
                        .collect(Collectors.joining()));
        Files.writeString(
                folder.resolve("raw.tsv"),
                Stream.concat(
                                Stream.of(Measurement.HEAD),
                                measurements.stream().map(Measurement::toString))
                        .collect(Collectors.joining("\n", "", "\n")));
        write(folder.resolve("latency.svg"), latency());
        write(folder.resolve("load.svg"), load());
        write(folder.resolve("peers.svg"), peers());
    }

    private static void write(Path file, Bars bars) throws IOException {
        if (bars.panels().isEmpty()) {
            Files.deleteIfExists(file);
        } else {
            Files.writeString(file, bars.toString());
        }
    }

    /** What a request costs in C, in this library and in other programs. */
    Bars peers() {
        return new Bars(
                "Cost of a request, in several programs",
                machine.getOrDefault("processor", "")
                        + ", a provider that only copies; time on a processor",
                Stream.of(Row.PEERS_ONE, Row.PEERS_CHAIN, Row.PEERS_QUEUE_PAIRS)
                        .map(this::peers)
                        .filter(panel -> !panel.bars().isEmpty())
                        .toList());
    }

    private Bars.Panel peers(Row row) {
        Stream<Bars.Bar> c =
                Stream.of(new Bars.Bar("C", Values.of(measurements, row.key(), Peer.NONE, Side.C)));
        Stream<Bars.Bar> others =
                Arrays.stream(Peer.values())
                        .map(
                                peer ->
                                        new Bars.Bar(
                                                peer.words(),
                                                Values.of(
                                                        measurements,
                                                        row.key(),
                                                        peer.key(),
                                                        Side.JAVA)));
        return new Bars.Panel(
                row.title(),
                "nanoseconds for each request",
                Stream.concat(c, others).filter(bar -> !bar.values().isEmpty()).toList());
    }

    /** A plot of which nothing was measured is left out, and so is one of an earlier run. */
    private static void write(Path file, Plot plot) throws IOException {
        if (plot.panels().isEmpty()) {
            Files.deleteIfExists(file);
        } else {
            Files.writeString(file, plot.toString());
        }
    }

    /** Latencies of 64 bytes, by percentile. */
    Plot latency() {
        return new Plot(
                "Latency of 64 bytes, by percentile",
                machine.getOrDefault("devices", ""),
                true,
                Stream.of(
                                latency("Send, as ib_send_lat", Row.SEND_LATENCY),
                                latency("Write, as ib_write_lat", Row.WRITE_LATENCY))
                        .filter(panel -> !panel.points().isEmpty())
                        .toList());
    }

    private Plot.Panel latency(String title, Row row) {
        return panel(
                title,
                "percentile (the tail is stretched)",
                "microseconds (half a round trip)",
                percent -> -Math.log10(1 - percent / 100),
                List.of(0.0, 50.0, 90.0, 99.0, 99.9),
                row.key() + Outputs.PERCENTILES);
    }

    /** What a request costs, by the number of queue pairs and of outstanding requests. */
    Plot load() {
        return new Plot(
                "Cost of a request: its post, and its share of the polls",
                machine.getOrDefault("processor", "") + ", a provider that only copies",
                false,
                Stream.of(
                                load(
                                        "One request on each queue pair",
                                        "queue pairs on one completion queue",
                                        List.of(1.0, 4.0, 16.0, 64.0, 256.0, 1024.0),
                                        Row.LOAD_QUEUE_PAIRS),
                                load(
                                        "Many requests on one queue pair",
                                        "outstanding requests",
                                        List.of(1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0),
                                        Row.LOAD_DEPTH))
                        .filter(panel -> !panel.points().isEmpty())
                        .toList());
    }

    private Plot.Panel load(String title, String xTitle, List<Double> ticks, Row row) {
        return panel(title, xTitle, "nanoseconds for each request", Math::log, ticks, row.key());
    }

    private Plot.Panel panel(
            String title,
            String xTitle,
            String yTitle,
            DoubleUnaryOperator x,
            List<Double> xTicks,
            String row) {
        List<Plot.Point> points =
                Arrays.stream(Side.values())
                        .flatMap(side -> parameters(row).flatMap(p -> point(row, p, side)))
                        .sorted((a, b) -> Double.compare(a.parameter(), b.parameter()))
                        .toList();
        return new Plot.Panel(title, xTitle, yTitle, x, xTicks, comparable(points));
    }

    /**
     * Where both sides have a curve, only the points of both: a straight line over what one of them
     * left out would look like a difference.
     */
    private static List<Plot.Point> comparable(List<Plot.Point> points) {
        long sides = points.stream().map(Plot.Point::side).distinct().count();
        Map<Double, Long> counts =
                points.stream()
                        .collect(
                                Collectors.groupingBy(
                                        Plot.Point::parameter, Collectors.counting()));
        return points.stream().filter(point -> counts.get(point.parameter()) == sides).toList();
    }

    private Stream<Plot.Point> point(String row, String parameter, Side side) {
        Values values = Values.of(measurements, row, parameter, side);
        return values.isEmpty()
                ? Stream.empty()
                : Stream.of(new Plot.Point(side, Double.parseDouble(parameter), values));
    }
}
