package dev.verbena.tools;

import picocli.CommandLine.Command;

/**
 * Tries out RDMA between two machines: their devices, the network between them, and connections. It
 * speaks the protocol of rdma-core's {@code rping}, so the peer may be either.
 *
 * <p>One round is what {@code rping} does: the client sends the address of its data, the server
 * reads the data and answers; the client sends the address of a second buffer, the server writes
 * the data there and answers. Both sides check the data.
 */
@Command(
        name = "ping",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        description = {
            "Tries out RDMA between two machines: first a server on one, then a client on the other."
                    + " Either may be rdma-core's rping instead.",
        },
        footer = {
            "",
            "For example:",
            "  verbena ping server --bind 192.0.2.1  with  verbena ping client 192.0.2.1",
            "  rping -s -a 192.0.2.1                 with  verbena ping client 192.0.2.1",
            "  verbena ping server --bind 192.0.2.1  with  rping -c -a 192.0.2.1 -V -C 100",
        },
        subcommands = {PingServer.class, PingClient.class})
final class Ping {}
