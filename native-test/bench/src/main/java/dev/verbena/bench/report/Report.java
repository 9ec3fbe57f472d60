package dev.verbena.bench.report;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Reads the outputs of the benchmarks in a folder, prints a table for the regression check, and
 * writes the {@linkplain Page pages} for readers and all values. See native-test/README.md.
 */
public final class Report {
    private static final int REJECTED = 4;
    private static final int LIMIT_BROKEN = 5;

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
     * Ends with exit code 0, 2 if something that was to be measured was not, 3 if no report can be
     * made, 4 if C itself varied too much for the pages to be published, or 5 if a limit is broken.
     *
     * @param arguments the folder with the programs' outputs, asked.tsv and machine.txt (or an
     *     earlier report, to write its pages again); the folder for the report; and for a quick run
     *     the file with its {@linkplain Limit limits}
     */
    public static void main(String[] arguments) {
        if (arguments.length < 2 || arguments.length > 3) {
            System.err.println("Usage: Report FOLDER_WITH_OUTPUTS FOLDER_FOR_REPORT [LIMITS]");
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
            Optional<String> rejection = Page.rejection(report.measurements);
            rejection.ifPresent(why -> System.out.println("\nThis run is rejected: " + why + "."));
            int code = table.exitCode() == 0 && rejection.isPresent() ? REJECTED : table.exitCode();
            if (arguments.length == 3) {
                boolean broken = report.checks(Limit.in(Path.of(arguments[2])));
                code = code == 0 && broken ? LIMIT_BROKEN : code;
            }
            System.exit(code);
        } catch (IOException e) {
            boolean missing = e instanceof NoSuchFileException;
            System.err.println("No report: " + (missing ? "there is no " : "") + e.getMessage());
            System.exit(3);
        }
    }

    private static Set<List<String>> asked(Path outputs) throws IOException {
        return lines(outputs)
                .map(fields -> fields.subList(0, 2))
                .collect(Collectors.toCollection(LinkedHashSet::new));
    }

    private static Stream<List<String>> lines(Path outputs) throws IOException {
        Path file = outputs.resolve("asked.tsv");
        return Files.exists(file)
                ? Files.readAllLines(file).stream().map(line -> Arrays.asList(line.split("\t", 3)))
                : Stream.of();
    }

    /** Where a line has a third field, it is what is lacking. */
    private static Map<List<String>, String> lacking(Path outputs) throws IOException {
        return lines(outputs)
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

    /** Prints what there is to say of limits of rows that were asked for; whether one is broken. */
    private boolean checks(List<Limit> limits) {
        List<Limit.Verdict> verdicts =
                limits.stream()
                        .filter(
                                limit ->
                                        asked.stream()
                                                .anyMatch(one -> limit.row().equals(one.get(0))))
                        .map(limit -> limit.verdict(measurements))
                        .toList();
        System.out.println("\nLimits:");
        verdicts.forEach(verdict -> System.out.println("  " + verdict.words()));
        return verdicts.stream().anyMatch(Limit.Verdict::broken);
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
        Files.writeString(
                folder.resolve("machine.txt"),
                machine.entrySet().stream()
                        .map(entry -> entry.getKey() + ": " + entry.getValue() + "\n")
                        .collect(Collectors.joining()));
        Files.writeString(
                folder.resolve(Measurement.FILE),
                Stream.concat(
                                Stream.of(Measurement.HEAD),
                                measurements.stream().map(Measurement::toString))
                        .collect(Collectors.joining("\n", "", "\n")));
        for (Page page : Page.ALL) {
            if (page.isMeasured(measurements)) {
                Files.writeString(
                        folder.resolve(page.file(".md")), page.text(measurements, machine));
                Files.writeString(
                        folder.resolve(page.file(".svg")), page.plot(measurements, machine));
            }
        }
    }
}
