package dev.verbena.tools;

import picocli.CommandLine.Command;

/**
 * Measures latency and bandwidth of RDMA between two machines, from Java, as perftest's programs do
 * from C: the same loops, the same columns. {@link Verbena#run} adds a subcommand for each {@link
 * PerfOperation}.
 */
@Command(
        name = "perf",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description = {
            "Measures RDMA between two machines: first a server on one, then a client on the other. The"
                    + " peer is always a perf of Verbena; options have perftest's names, too.",
        },
        footer = {
            "",
            "For example:",
            "  verbena perf server --bind 192.0.2.1",
            "  verbena perf send lat 192.0.2.1 --size 64,4096",
            "  verbena perf write bw 192.0.2.1 --size all --json",
        },
        subcommands = PerfServer.class)
final class Perf {}
