package dev.verbena.tools;

import dev.verbena.Adapter;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/**
 * Lists the connections and listeners of all processes of this machine. A library knows only those
 * of its own process ({@link Adapter#connections}), so this asks the kernel, by the command {@code
 * rdma} of iproute2.
 */
@Command(
        name = "connections",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description =
                "Lists the connections and listeners of all processes of this machine, as the kernel"
                        + " knows them. Needs the command rdma of iproute2.")
final class Connections implements Callable<Integer> {
    private static final Path PROC = Path.of("/proc");
    private static final String ROW = "%-12s %-14s %-28s %-28s %-10s %-8s %s%n";

    @Spec private CommandSpec spec;

    @Option(
            names = "--device",
            paramLabel = "NAME",
            description = "Only those of this RDMA device (default: all devices).")
    private String device;

    @Option(
            names = "--pid",
            paramLabel = "PID",
            description = "Only those of this process (default: all processes).")
    private Long pid;

    @Option(
            names = "--rdma",
            paramLabel = "PATH",
            defaultValue = "rdma",
            description = "The command rdma (default: ${DEFAULT-VALUE}, searched in PATH).")
    private String rdma;

    @Option(names = "--json", description = "One JSON object instead of text.")
    private boolean json;

    @Override
    public Integer call() {
        if (pid != null && ProcessHandle.of(pid).isEmpty()) {
            throw new ToolFailure("No process has the ID %d", pid);
        }
        List<KernelConnection> all =
                lines().stream()
                        .map(line -> KernelConnection.of(line, PROC))
                        .filter(one -> device == null || one.device().equals(device))
                        .filter(one -> pid == null || pid.equals(one.pid()))
                        .toList();
        if (all.isEmpty()) {
            requireDevice();
        }
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(
                    Json.of(
                            Map.of(
                                    "connections",
                                    all.stream().map(KernelConnection::json).toList())));
        } else {
            out.printf(
                    ROW, "DEVICE/PORT", "STATE", "LOCAL", "PEER", "QUEUE PAIR", "PID", "PROGRAM");
            all.forEach(one -> out.printf(ROW, one.columns()));
        }
        return 0;
    }

    private void requireDevice() {
        List<String> names = Adapter.names();
        if (names.isEmpty()) {
            throw new ToolFailure("%s", Adapter.whyNone());
        }
        if (device != null && !names.contains(device)) {
            throw new ToolFailure(
                    "There is no RDMA device %s here, but %s", device, String.join(", ", names));
        }
    }

    /** What {@code rdma} prints: one line for each identifier. */
    private List<String> lines() {
        try {
            Process process =
                    new ProcessBuilder(rdma, "resource", "show", "cm_id")
                            .redirectErrorStream(true)
                            .start();
            List<String> lines =
                    process.inputReader().lines().filter(line -> !line.isBlank()).toList();
            int code = process.waitFor();
            if (code != 0) {
                throw new ToolFailure(
                        "\"%s resource show cm_id\" failed with exit code %d: %s. The kernel's module"
                                + " ib_core has to be loaded (\"verbena doctor\" checks more)",
                        rdma, code, lines.isEmpty() ? "it printed nothing" : lines.getLast());
            }
            return lines;
        } catch (IOException e) {
            throw new ToolFailure(
                    "The kernel's list of connections is read by the command \"%s\", which cannot be"
                            + " run: install iproute2 (on Alpine: iproute2-rdma), or pass --rdma PATH (%s)",
                    rdma, e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ToolFailure("Interrupted");
        }
    }
}
