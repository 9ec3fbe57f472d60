package dev.verbena.tools;

import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** What perf's two sides have in common on the command line. */
final class PerfOptions {
    @Option(
            names = {"-p", "--port"},
            defaultValue = "7175",
            paramLabel = "PORT",
            description = "The port that the server listens on (default: ${DEFAULT-VALUE}).")
    int port;

    @Option(
            names = {"-d", "--ib-dev", "--device"},
            paramLabel = "NAME",
            description = "The RDMA device (default: the one that has the local address).")
    String device;

    @Option(
            names = {"-R", "--rdma_cm"},
            description = "Accepted for users of perftest: connections are always made by rdma_cm.")
    boolean connectionManager;

    @Option(
            names = {"-F", "--CPU-freq"},
            description =
                    "Accepted for users of perftest, without effect: the clock does not depend on the"
                            + " processor's frequency.")
    boolean anyFrequency;

    @Option(
            names = "--timeout",
            defaultValue = "10",
            paramLabel = "SECONDS",
            description =
                    "How long the other side may take for each step (default: ${DEFAULT-VALUE}). A"
                            + " server waits for clients without limit, and otherwise uses its"
                            + " client's timeout.")
    int seconds;

    /** Refuses numbers that are out of range. */
    void check(CommandSpec spec, int firstPort) {
        PingOptions.within(spec, "--port", port, firstPort, 65535);
        PingOptions.within(spec, "--timeout", seconds, 1, 86400);
    }
}
