package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.PathOptions;

import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** Lets a server fetch data and bring it back, and measures the time. */
@Command(
        name = "client",
        mixinStandardHelpOptions = true,
        versionProvider = Versions.class,
        sortOptions = false,
        description = {
            "Lets a server read data from here and write it back, round after round; checks the data"
                    + " that comes back, and measures the time. A round has two messages each way, a"
                    + " read and a write.",
        })
final class PingClient implements Callable<Integer> {
    @Spec private CommandSpec spec;

    @Parameters(paramLabel = "ADDRESS", description = "The address of the server.")
    private InetAddress server;

    @Mixin private PingOptions options;

    @Mixin private PacketOptions packets;

    @Option(
            names = "--from",
            paramLabel = "ADDRESS",
            description = "The local address to connect from (default: the route decides).")
    private InetAddress from;

    @Option(
            names = "--count",
            defaultValue = "100",
            paramLabel = "N",
            description = "How many rounds to run (default: ${DEFAULT-VALUE}).")
    private int count;

    @Option(
            names = "--size",
            defaultValue = "64",
            converter = ToolBytes.class,
            paramLabel = "BYTES",
            description =
                    "How much data each round has, as in 64 or 4K (default: ${DEFAULT-VALUE}). An rping"
                            + " server needs the same number as its -S, and accepts up to 65535.")
    private int size;

    @Option(names = "--json", description = "One JSON object instead of text.")
    private boolean json;

    @Override
    public Integer call() {
        options.check(spec, 1);
        packets.check(spec);
        PingOptions.within(spec, "--count", count, 1, Integer.MAX_VALUE);
        PingOptions.within(spec, "--size", size, PingOptions.SMALLEST, PingOptions.LARGEST);
        try (Adapter adapter = ToolDevices.forClient(options.device, from, server);
                PingEnd end = new PingEnd(adapter, options)) {
            Connector connector = connect(end);
            PrintWriter out = spec.commandLine().getOut();
            String from = ToolDevices.describe(connector.localAddress());
            String to = ToolDevices.describe(connector.peerAddress());
            if (!json) {
                out.printf("%s of %s is connected to %s%n", from, adapter.name(), to);
            }
            RoundTrips times = rounds(end);
            if (json) {
                out.println(Json.of(json(adapter.name(), connector, times)));
            } else {
                out.printf(
                        "%s of %s%s%n%s%n",
                        Words.count(count, "round"),
                        Words.count(size, "byte"),
                        options.verify ? "; all data came back as it was sent" : "",
                        times);
            }
        }
        return 0;
    }

    private Map<String, Object> json(String device, Connector connector, RoundTrips times) {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("rounds", count);
        all.put("bytes", size);
        all.put("verified", options.verify);
        all.put("round_trip_usec", times.json());
        all.put("device", device);
        ToolDevices.put(all, "from", connector.localAddress());
        ToolDevices.put(all, "to", connector.peerAddress());
        return all;
    }

    private Connector connect(PingEnd end) {
        ConnectionOptions how = options.connection().withPath(packets.on(PathOptions.DEFAULTS));
        if (from != null) {
            how = how.withLocalAddress(new InetSocketAddress(from, 0));
        }
        return end.connect(new InetSocketAddress(server, options.port), how);
    }

    private RoundTrips rounds(PingEnd end) {
        MemoryRegion source = end.register(size, Access.REMOTE_READ);
        MemoryRegion sink = end.register(size, Access.REMOTE_WRITE);
        BufferList fetch = message(end, source);
        BufferList bring = message(end, sink);
        RoundTrips times = new RoundTrips();
        for (int round = 0; round < count; round++) {
            PingData.fill(source.memory(), round);
            long start = System.nanoTime();
            end.send(fetch);
            awaitGoAhead(end, round);
            end.send(bring);
            awaitGoAhead(end, round);
            times.add(System.nanoTime() - start);
            if (options.verify) {
                verify(source, sink, round);
            }
        }
        return times;
    }

    /** The message that says where a region is, which stays the same in all rounds. */
    private static BufferList message(PingEnd end, MemoryRegion region) {
        MemoryRegion message = end.register(RpingMessage.BYTES, Access.LOCAL_WRITE);
        RpingMessage.write(region.remoteMemory(), message.memory());
        return BufferList.of(message);
    }

    private static void awaitGoAhead(PingEnd end, int round) {
        if (end.receive() == null) {
            throw new ToolFailure("The server disconnected in round %,d", round);
        }
    }

    private static void verify(MemoryRegion source, MemoryRegion sink, int round) {
        long at = source.memory().mismatch(sink.memory());
        if (at >= 0) {
            throw new ToolFailure(
                    "The data that came back in round %,d differs from the data sent, from byte %,d on",
                    round, at);
        }
    }
}
