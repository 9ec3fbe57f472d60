package dev.verbena.tools;

import dev.verbena.VerbenaException;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.TypeConversionException;
import picocli.CommandLine.UnmatchedArgumentException;

import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.UnknownHostException;

/**
 * The launcher of all tools: {@code java -jar verbena-tools.jar
 * devices|doctor|connections|demo|ping|perf}.
 *
 * <p>Results go to standard output; progress, and one sentence about whatever failed, go to
 * standard error.
 */
@Command(
        name = "verbena",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description =
                "Lists RDMA devices and connections, checks devices, tries them out and measures them.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {
            "",
            "\"verbena COMMAND --help\" lists a command's options.",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:success; all data was correct",
            "1:failure; a sentence on standard error says what failed and what to do",
            "2:the command line is wrong; standard error says where",
        },
        subcommands = {
            Devices.class,
            Doctor.class,
            Connections.class,
            Demo.class,
            Ping.class,
            Perf.class,
            CommandLine.HelpCommand.class
        })
public final class Verbena {
    private Verbena() {}

    /**
     * Runs a command and ends this process with its exit code.
     *
     * @param arguments the command line; {@code --help} lists what it may be
     */
    public static void main(String[] arguments) {
        if (arguments.length > 0 && arguments[0].equals("perf")) {
            PerfStop.watch();
        }
        int code =
                run(
                        new PrintWriter(System.out, true),
                        new PrintWriter(System.err, true),
                        arguments);
        PerfStop.over();
        System.exit(code);
    }

    /**
     * Runs a command.
     *
     * @param out gets the results
     * @param err gets progress, and a sentence about what failed
     * @param arguments the command line; {@code --help} lists what it may be
     * @return 0 when all succeeded and all data was correct, 1 when something failed, 2 when the
     *     command line is wrong
     */
    public static int run(PrintWriter out, PrintWriter err, String... arguments) {
        int code = commandLine(out, err).execute(arguments);
        if (code == 0 && out.checkError()) {
            err.println("The output could not be written");
            return CommandLine.ExitCode.SOFTWARE;
        }
        return code;
    }

    /** All commands, which print there. */
    static CommandLine commandLine(PrintWriter out, PrintWriter err) {
        CommandLine line = new CommandLine(new Verbena());
        CommandLine perf = line.getSubcommands().get("perf");
        for (PerfOperation operation : PerfOperation.values()) {
            perf.addSubcommand(operation.toString(), PerfClient.commandFor(operation));
        }
        return line.setOut(out)
                .setErr(err)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .registerConverter(InetAddress.class, Verbena::address)
                .setParameterExceptionHandler(Verbena::misused)
                .setExecutionExceptionHandler(Verbena::failed);
    }

    private static InetAddress address(String name) {
        try {
            return InetAddress.getByName(name);
        } catch (UnknownHostException e) {
            throw new TypeConversionException(
                    "no host has that name; use an IP address, or a name that DNS or /etc/hosts knows");
        }
    }

    private static int misused(ParameterException exception, String[] arguments) {
        CommandLine command = exception.getCommandLine();
        command.getErr().println(exception.getMessage());
        UnmatchedArgumentException.printSuggestions(exception, command.getErr());
        command.getErr()
                .printf(
                        "\"%s --help\" lists the options%n",
                        command.getCommandSpec().qualifiedName());
        return command.getCommandSpec().exitCodeOnInvalidInput();
    }

    private static int failed(Exception exception, CommandLine command, ParseResult arguments)
            throws Exception {
        if (exception instanceof VerbenaException || exception instanceof ToolFailure) {
            command.getErr().println(PerfStop.asked() ? "Stopped" : exception.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        throw exception; // a bug of these tools: picocli prints the stack trace
    }
}
