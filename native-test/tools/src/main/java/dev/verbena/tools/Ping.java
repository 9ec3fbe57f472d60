package dev.verbena.tools;

import dev.verbena.VerbenaException;

import picocli.CommandLine;
import picocli.CommandLine.Command;

import java.io.PrintWriter;

/**
 * Tries out RDMA between two machines: their devices, the network between them, and connections. It
 * speaks the protocol of rdma-core's {@code rping}, so the peer may be either.
 *
 * <p>One round is what {@code rping} does: the client tells where its data is, the server reads it
 * and says so; the client tells where it wants the data back, the server writes it there and says
 * so. Both sides see whether the data is what it ought to be.
 */
@Command(
        name = "ping",
        mixinStandardHelpOptions = true,
        version = "Verbena's ping speaks rping's protocol",
        description = {
            "Tries out RDMA between two machines: first a server on one, then a client on the other."
                    + " Either may be rdma-core's rping instead.",
        },
        footer = {
            "",
            "For example:",
            "  ping server --bind 192.0.2.1     with   ping client 192.0.2.1",
            "  rping -s -a 192.0.2.1            with   ping client 192.0.2.1",
            "  ping server --bind 192.0.2.1     with   rping -c -a 192.0.2.1 -V -C 100",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:all rounds ran, and all data was what it ought to be",
            "1:something failed; standard error says what, in a sentence",
            "2:the command line is wrong",
        },
        subcommands = {PingServer.class, PingClient.class})
public final class Ping {
    private Ping() {}

    /**
     * Runs Ping and ends this process with its exit code.
     *
     * @param arguments the command line; {@code --help} says what it may be
     */
    public static void main(String[] arguments) {
        System.exit(
                run(
                        new PrintWriter(System.out, true),
                        new PrintWriter(System.err, true),
                        arguments));
    }

    /**
     * Runs Ping.
     *
     * @param out where it tells what it does, and measured
     * @param err where it tells what failed
     * @param arguments the command line; {@code --help} says what it may be
     * @return 0 when all rounds ran and all data was right, 1 when something failed, 2 for a
     *     command line that is wrong
     */
    public static int run(PrintWriter out, PrintWriter err, String... arguments) {
        return new CommandLine(new Ping())
                .setOut(out)
                .setErr(err)
                .setExecutionExceptionHandler(Ping::failed)
                .execute(arguments);
    }

    private static int failed(
            Exception exception, CommandLine command, CommandLine.ParseResult arguments)
            throws Exception {
        if (exception instanceof VerbenaException || exception instanceof ToolFailure) {
            command.getErr().println(exception.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        throw exception; // a mistake of Ping's own
    }
}
