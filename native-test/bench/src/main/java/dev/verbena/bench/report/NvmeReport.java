package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The report of {@code native-test/beside-nvmet}, which compares this project's NVMe target with
 * the kernel's. Its parameters are jobs, such as {@code randread:4096:32}.
 */
public final class NvmeReport {
    private static final String KERNEL = "nvmet (Linux)";

    private final List<Measurement> all;
    private final String machine;

    NvmeReport(List<Measurement> all, String machine) {
        this.all = all;
        this.machine = machine;
    }

    /** What fio does: in which order, how many bytes at a time, how many commands at a time. */
    private record Job(String order, int bytes, int depth) {
        static Job of(String text) {
            String[] words = text.split(":");
            return new Job(words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]));
        }

        @Override
        public String toString() {
            return "%s:%d:%d".formatted(order, bytes, depth);
        }
    }

    /**
     * Reads measurements, and writes the report.
     *
     * @param arguments the file with the measurements, one that says on what they were made, and
     *     the folder for the report
     * @throws IOException when one of them cannot be read or written
     */
    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[2]);
        List<Measurement> all =
                Files.readAllLines(Path.of(arguments[0])).stream()
                        .filter(line -> !line.equals(Measurement.HEAD))
                        .filter(line -> line.matches("(.+\t){5}.+")) // not one without a value
                        .map(Measurement::parse)
                        .toList();
        String machine = Files.readString(Path.of(arguments[1]));
        NvmeReport report = new NvmeReport(all, machine);
        Files.createDirectories(folder);
        Files.writeString(folder.resolve("table.txt"), report.table());
        Files.writeString(folder.resolve("machine.txt"), machine);
        Files.writeString(
                folder.resolve("raw.tsv"),
                Stream.concat(Stream.of(Measurement.HEAD), all.stream().map(Measurement::toString))
                        .collect(Collectors.joining("\n", "", "\n")));
        write(folder.resolve("iops.svg"), report.commands());
        write(folder.resolve("bandwidth.svg"), report.bandwidth());
        write(folder.resolve("instructions.svg"), report.instructions());
        System.out.print(report.table());
    }

    private static void write(Path file, Plot plot) throws IOException {
        if (plot.panels().isEmpty()) {
            Files.deleteIfExists(file);
        } else {
            Files.writeString(file, plot.toString());
        }
    }

    // ---- plots

    Plot commands() {
        return plot(
                "Commands of 4 KiB a second",
                false,
                byDepth("Reads", "randread", "iops", "commands a second"),
                byDepth("Writes", "randwrite", "iops", "commands a second"));
    }

    Plot bandwidth() {
        return plot(
                "Bandwidth, 8 commands outstanding",
                false,
                byBytes("Reads", "read", "bandwidth", "MB/s"),
                byBytes("Writes", "write", "bandwidth", "MB/s"));
    }

    Plot instructions() {
        return plot(
                "Instructions for each command: of the whole machine, host and target",
                false,
                byDepth("Reads of 4 KiB", "randread", "instructions", "thousand instructions"),
                byDepth("Writes of 4 KiB", "randwrite", "instructions", "thousand instructions"));
    }

    private Plot plot(String title, boolean logarithmic, Plot.Panel... panels) {
        return new Plot(
                title,
                machine.lines()
                        .filter(line -> line.startsWith("devices: "))
                        .map(line -> line.substring("devices: ".length()))
                        .findFirst()
                        .orElse(""),
                logarithmic,
                KERNEL,
                Arrays.stream(panels).filter(panel -> !panel.points().isEmpty()).toList());
    }

    private Plot.Panel byDepth(String title, String order, String row, String unit) {
        List<Job> jobs =
                jobs(row).filter(job -> job.order.equals(order) && job.bytes == 4096).toList();
        return panel(title, "commands outstanding", unit, jobs, row, Job::depth);
    }

    private Plot.Panel byBytes(String title, String order, String row, String unit) {
        List<Job> jobs =
                jobs(row).filter(job -> job.order.equals(order) && job.depth == 8).toList();
        return panel(title, "KiB for each command", unit, jobs, row, job -> job.bytes / 1024.0);
    }

    private Plot.Panel panel(
            String title,
            String xTitle,
            String yTitle,
            List<Job> jobs,
            String row,
            ToDoubleFunction<Job> x) {
        List<Job> ordered = jobs.stream().sorted(Comparator.comparingDouble(x)).toList();
        double unit = row.equals("instructions") ? 1e3 : row.equals("bandwidth") ? 1e6 : 1;
        List<Plot.Point> points =
                Arrays.stream(Side.values())
                        .flatMap(
                                side ->
                                        ordered.stream()
                                                .map(
                                                        job ->
                                                                new Plot.Point(
                                                                        side,
                                                                        x.applyAsDouble(job),
                                                                        values(row, job, side)
                                                                                .dividedBy(unit))))
                        .toList();
        List<Double> ticks = ordered.stream().map(x::applyAsDouble).toList();
        return new Plot.Panel(title, xTitle, yTitle, Math::log, ticks, points);
    }

    /** Those that both sides have done. */
    private Stream<Job> jobs(String row) {
        return all.stream()
                .filter(one -> one.row().equals(row))
                .map(one -> Job.of(one.parameter()))
                .distinct()
                .filter(
                        job ->
                                Arrays.stream(Side.values())
                                        .noneMatch(side -> values(row, job, side).isEmpty()));
    }

    private Values values(String row, Job job, Side side) {
        return Values.of(all, row, job.toString(), side);
    }

    // ---- the table

    String table() {
        StringBuilder text =
                new StringBuilder(
                        """
                        Verbena's NVMe target and the kernel's: medians over rounds; in brackets the lowest and the highest round.
                        Instructions are counted per command on the whole machine: host, fio and target, kernel and processes.
                        Instructions in processes are those of fio and the target, outside the kernel.

                        """);
        for (String row :
                List.of("iops", "bandwidth", "instructions", "instructions-in-processes")) {
            List<Job> jobs = jobs(row).toList();
            if (jobs.isEmpty()) {
                continue;
            }
            String unit = row.equals("bandwidth") ? "MB/s" : row.equals("iops") ? "1/s" : "";
            text.append(line(row, KERNEL, "Verbena", unit, "Verbena / nvmet"));
            double scale = row.equals("bandwidth") ? 1e6 : 1;
            for (Job job : jobs) {
                Values kernel = values(row, job, Side.C).dividedBy(scale);
                Values java = values(row, job, Side.JAVA).dividedBy(scale);
                text.append(
                        line(
                                "  " + job,
                                kernel.toString(),
                                java.toString(),
                                "",
                                Values.words(java.median() / kernel.median())));
            }
            text.append('\n');
        }
        if (all.stream().anyMatch(one -> one.row().equals("lossy"))) {
            text.append("Over a cable that loses packets, the time of all commands in s\n");
            for (Side side : Side.values()) {
                all.stream()
                        .filter(one -> one.row().equals("lossy") && one.side() == side)
                        .map(Measurement::parameter)
                        .distinct()
                        .forEach(how -> text.append(lossy(side, how)));
            }
        }
        return text.toString();
    }

    private String lossy(Side side, String how) {
        return "  %-26s %s%n"
                .formatted(
                        (side == Side.C ? KERNEL : "Verbena") + ", " + how,
                        Values.of(all, "lossy", how, side).dividedBy(1e3));
    }

    private static String line(String what, String kernel, String java, String unit, String ratio) {
        return "%-28s %28s %28s %5s %16s%n".formatted(what, kernel, java, unit, ratio);
    }
}
