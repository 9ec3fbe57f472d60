package dev.verbena.tools;

import dev.verbena.VerbenaException;

import picocli.CommandLine;
import picocli.CommandLine.Command;

import java.io.PrintWriter;

/**
 * Measures latency and bandwidth of RDMA between two machines, from Java, as perftest's programs do
 * from C: the same loops, the same columns.
 */
@Command(
        name = "perf",
        mixinStandardHelpOptions = true,
        version = "Verbena's perf measures as perftest does, and speaks only to itself",
        description = {
            "Measures RDMA between two machines: first a server on one, then a client on the other.",
        },
        footer = {
            "",
            "For example:",
            "  perf server --bind 192.0.2.1",
            "  perf send lat 192.0.2.1 --size 64,4096",
            "  perf write bw 192.0.2.1 --size all --json",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:all was measured, and all data was what it ought to be",
            "1:something failed; standard error says what, in a sentence",
            "2:the command line is wrong",
        },
        subcommands = PerfServer.class)
public final class Perf {
    private Perf() {}

    /**
     * Runs perf and ends this process with its exit code.
     *
     * @param arguments the command line; {@code --help} says what it may be
     */
    public static void main(String[] arguments) {
        PerfStop.watch();
        int code =
                run(
                        new PrintWriter(System.out, true),
                        new PrintWriter(System.err, true),
                        arguments);
        PerfStop.over();
        System.exit(code);
    }

    /**
     * Runs perf.
     *
     * @param out where it tells what it measured
     * @param err where it tells how far it is, and what failed
     * @param arguments the command line; {@code --help} says what it may be
     * @return 0 when all was measured and all data was right, 1 when something failed, 2 for a
     *     command line that is wrong
     */
    public static int run(PrintWriter out, PrintWriter err, String... arguments) {
        CommandLine line = new CommandLine(new Perf());
        for (PerfOperation operation : PerfOperation.values()) {
            line.addSubcommand(operation.toString(), PerfClient.commandFor(operation));
        }
        return line.setOut(out)
                .setErr(err)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setExecutionExceptionHandler(Perf::failed)
                .execute(arguments);
    }

    private static int failed(
            Exception exception, CommandLine command, CommandLine.ParseResult arguments)
            throws Exception {
        if (exception instanceof VerbenaException || exception instanceof ToolFailure) {
            command.getErr().println(PerfStop.asked() ? "Stopped" : exception.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        throw exception; // a mistake of perf's own
    }
}
