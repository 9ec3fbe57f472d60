package dev.verbena.tools;

import dev.verbena.ConnectionOptions;

import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

import java.time.Duration;

/** What Ping's two sides have in common on the command line. */
final class PingOptions {
    /** As rping's, to which it leaves no room for less: the text, with ten digits, and a zero. */
    static final int SMALLEST = 26;

    static final int LARGEST = 1 << 30;

    @Option(
            names = "--port",
            defaultValue = "7174",
            paramLabel = "PORT",
            description =
                    "The port that the server listens on (default: ${DEFAULT-VALUE}, like rping).")
    int port;

    @Option(
            names = "--device",
            paramLabel = "NAME",
            description = "The RDMA device (default: the one that has the local address).")
    String device;

    @Option(
            names = "--timeout",
            defaultValue = "10",
            paramLabel = "SECONDS",
            description =
                    "How long the peer may take for each step (default: ${DEFAULT-VALUE}). A server"
                            + " waits for clients without limit.")
    int seconds;

    @Option(
            names = "--no-verify",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Whether to check the data (default: yes).")
    boolean verify;

    @Option(
            names = "--spin",
            description = "Wait by polling: shorter round trips, but it keeps a processor busy.")
    boolean spin;

    /** Refuses numbers that are out of range. */
    void check(CommandSpec spec, int firstPort) {
        within(spec, "--port", port, firstPort, 65535);
        within(spec, "--timeout", seconds, 1, 86400);
    }

    static void within(CommandSpec spec, String option, int value, int least, int most) {
        if (value < least || value > most) {
            CommandLine line = spec.commandLine();
            throw new ParameterException(
                    line, "%s must be %d to %d, not %d".formatted(option, least, most, value));
        }
    }

    Duration timeout() {
        return Duration.ofSeconds(seconds);
    }

    /** A peer in C reads no announcement, and one of this library gets along without. */
    ConnectionOptions connection() {
        return ConnectionOptions.DEFAULTS.withoutAnnouncement().withDeadline(timeout());
    }
}
