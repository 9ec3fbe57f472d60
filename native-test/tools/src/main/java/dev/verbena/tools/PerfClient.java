package dev.verbena.tools;

import dev.verbena.Adapter;
import dev.verbena.ConnectionData;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Port;
import dev.verbena.QueuePair;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

import java.io.PrintWriter;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** Measures one operation with a server. */
@Command(mixinStandardHelpOptions = true, versionProvider = Versions.class, sortOptions = false)
final class PerfClient implements Callable<Integer> {
    /**
     * How many small messages have the loops, and all below them, compiled before anything is
     * measured: with emulated processors, where compiling takes longest, the median of sends came
     * down to stay after 10,000, that of writes after 20,000.
     */
    private static final int COMPILING = 30_000;

    private static final int COMPILING_SIZE = 64;

    /**
     * How many posts may be outstanding in those rounds, by turns. With as many as planned, and
     * each hundredth signaled, the code that handles completions would run too seldom to be
     * compiled.
     */
    private static final int[] COMPILING_OUTSTANDING = {PerfLoops.AS_PLANNED, 1, 2};

    /** In parts, before each of which the compilers may finish what they have begun. */
    private static final int COMPILING_FIRST = 250;

    private static final int COMPILING_PART = 2000;

    private static final int COMPILING_SECONDS = 5;

    /** What a size of its own needs beyond that: memory and caches. */
    private static final int USUAL_WARM_UP = 100;

    private static final int USUAL_LATENCY_ITERATIONS = 1000;
    private static final int USUAL_ITERATIONS = 1000;
    private static final int USUAL_WRITES = 5000;
    private static final int USUAL_LATENCY_SIZE = 2;
    private static final int USUAL_SIZE = 65_536;
    private static final int USUAL_DEPTH = 128;
    private static final int MOST_ITERATIONS = 100_000_000;
    private static final int MOST_LATENCIES = 10_000_000; // each is kept
    private static final int MOST_REQUESTS = 8192;
    private static final int MOST_QUEUE_PAIRS = 4096;

    private final PerfOperation operation;

    @Spec private CommandSpec spec;

    @Parameters(
            index = "0",
            paramLabel = "lat|bw",
            description =
                    "What to measure: lat for latency, which is half the time of a message there and back (of a"
                            + " read, the whole time); bw for bandwidth and the rate of messages.")
    private PerfMeasure measure;

    @Parameters(index = "1", paramLabel = "ADDRESS", description = "The address of the server.")
    private InetAddress server;

    @Mixin private PerfOptions options;

    @Mixin private PacketOptions packets;

    @Option(
            names = {"--from", "--source_ip"},
            paramLabel = "ADDRESS",
            description = "The local address to connect from (default: the route decides).")
    private InetAddress from;

    @Option(
            names = {"-s", "--size"},
            paramLabel = "LIST",
            description =
                    "Bytes of a message: one number or several with commas, as in 64,4K,1M; or"
                            + " \"all\" for the powers of two from 2 to 8M that the devices take"
                            + " (default: 2 for lat, 4 for that of send-inv, 64K for bw).")
    private String size;

    @Option(
            names = {"-a", "--all"},
            description = "The same as --size all.")
    private boolean allSizes;

    @Option(
            names = {"-n", "--iters", "--iterations"},
            paramLabel = "N",
            description =
                    "How many messages of each size to send on each queue pair (default: 1000; 5000 of"
                            + " write bw). The peak of bw is measured up to 20000 in all.")
    private Integer iterations;

    @Option(
            names = "--warmup",
            paramLabel = "N",
            description =
                    "How many unmeasured messages of each size come before (default: first small ones until"
                            + " all code is compiled, then 100 of each size).")
    private Integer warmUp;

    @Option(
            names = {"-t", "--tx-depth", "--depth"},
            paramLabel = "N",
            description = "bw: outstanding requests on a queue pair (default: 128).")
    private Integer depth;

    @Option(
            names = {"-l", "--post_list", "--chain"},
            paramLabel = "N",
            description = "bw: requests posted in one chain, by DEFER (default: 1).")
    private Integer chain;

    @Option(
            names = {"-Q", "--cq-mod", "--signal-every"},
            paramLabel = "N",
            description =
                    "bw: each N-th request is signaled, the others are not"
                            + " (default: 100 up to 8 KiB, 1 above; with chains, one for each).")
    private Integer signalEvery;

    @Option(
            names = {"-I", "--inline_size", "--inline"},
            defaultValue = "0",
            paramLabel = "BYTES",
            description =
                    "Messages of up to this many bytes go inline (default: 0; perftest chooses by"
                            + " device, and prints it).")
    private int inline;

    @Option(
            names = {"-e", "--events"},
            description = "Sleep until there is a completion, on both sides, instead of polling.")
    private boolean events;

    @Option(
            names = {"-q", "--qp", "--qps"},
            paramLabel = "N",
            description = "bw: queue pairs, all on one completion queue (default: 1).")
    private Integer queuePairs;

    @Option(
            names = {"-D", "--duration"},
            paramLabel = "SECONDS",
            description =
                    "Measure each size for so many seconds, instead of a number of messages; there is"
                            + " then no peak of bw, and lat is an average.")
    private Integer duration;

    @Option(
            names = {"-b", "--bidirectional"},
            description =
                    "bw of send, write and read: both sides send at once, and the result is the sum; there"
                            + " is then no peak.")
    private boolean bidirectional;

    @Option(
            names = "--report_gbits",
            description =
                    "bw: the table is in Gb/s (10^9 bits) instead of MiB/s (2^20 bytes). JSON has both.")
    private boolean gigabits;

    @Option(
            names = {"-x", "--gid-index"},
            paramLabel = "INDEX",
            description =
                    "Connect from the address of this entry of the GID table (default: the route"
                            + " decides); \"verbena devices\" lists the entries.")
    private Integer gidIndex;

    @Option(
            names = {"-u", "--qp-timeout"},
            paramLabel = "N",
            description =
                    "After 4.096 us * 2^N, a packet that was not acknowledged is sent again"
                            + " (default: 14, which makes 67 ms).")
    private Integer ackTimeout;

    @Option(
            names = "--json",
            description = "One JSON object for each size instead of the table, with percentiles.")
    private boolean json;

    @Option(names = "--no-progress", description = "Print no progress.")
    private boolean quiet;

    private PerfClient(PerfOperation operation) {
        this.operation = operation;
    }

    /** The subcommand of an operation. */
    static CommandLine commandFor(PerfOperation operation) {
        CommandLine line = new CommandLine(new PerfClient(operation));
        line.getCommandSpec().usageMessage().description(operation.description());
        return line;
    }

    @Override
    public Integer call() {
        return run(() -> ToolDevices.forClient(options.device, from, server));
    }

    /** Measures; with a device that is opened once the command line is known to be right. */
    int run(Supplier<Adapter> device) {
        PerfSizes sizes = sizes();
        PerfPlan plan = plan(sizes);
        try (Adapter adapter = device.get();
                Session session = new Session(adapter, plan, sizes)) {
            session.connect();
            session.measure();
        }
        return 0;
    }

    // ---- the command line

    private PerfSizes sizes() {
        if (allSizes && size != null) {
            throw wrong("--all stands for --size all: give one of the two");
        }
        String text = allSizes ? "all" : size;
        if (text == null) {
            int usual = measure == PerfMeasure.LAT ? USUAL_LATENCY_SIZE : USUAL_SIZE;
            text = Integer.toString(Math.max(usual, least()));
        }
        try {
            PerfSizes sizes = PerfSizes.parse(text);
            if (!sizes.all() && sizes.smallest() < least()) {
                throw wrong(
                        "A message of send-inv lat carries a token: --size must be at least %d, not %d",
                        least(), sizes.smallest());
            }
            return sizes;
        } catch (IllegalArgumentException e) {
            throw wrong("--size: %s", e.getMessage());
        }
    }

    /** The smallest message that the operation can do with. */
    private int least() {
        return operation == PerfOperation.SEND_INV && measure == PerfMeasure.LAT
                ? Integer.BYTES
                : 1;
    }

    private PerfPlan plan(PerfSizes sizes) {
        options.check(spec, 1);
        packets.check(spec);
        if (measure == PerfMeasure.LAT) {
            onlyForBandwidth("--depth", depth);
            onlyForBandwidth("--chain", chain);
            onlyForBandwidth("--signal-every", signalEvery);
            onlyForBandwidth("--qps", queuePairs);
            if (events && operation == PerfOperation.WRITE) {
                throw wrong(
                        "A write causes no event at its target, so that write lat cannot wait for one:"
                                + " omit --events");
            }
        }
        if (operation == PerfOperation.CHANNEL
                && (chain != null || signalEvery != null || inline > 0)) {
            throw wrong(
                    "Channels decide themselves what goes inline and what is signaled, and post each"
                            + " message at once: channel takes no --inline, --signal-every or --chain");
        }
        if (gigabits && measure == PerfMeasure.LAT) {
            throw wrong("--report_gbits is for bw: lat has no bandwidth to report");
        }
        if (gidIndex != null && from != null) {
            throw wrong(
                    "--gid-index and --from both choose the local address: give one of the two");
        }
        if (bidirectional && measure == PerfMeasure.LAT) {
            throw wrong("--bidirectional is for bw: the messages of lat go both ways in any case");
        }
        if (bidirectional
                && (operation == PerfOperation.SEND_INV || operation == PerfOperation.CHANNEL)) {
            throw wrong(
                    "%s is measured in one direction only: --bidirectional is for send, write and read",
                    operation);
        }
        if (duration != null && iterations != null) {
            throw wrong("--duration and --iterations both end a measurement: give one of the two");
        }
        if (operation == PerfOperation.READ && inline > 0) {
            throw wrong("A read sends no data: read takes no --inline");
        }
        int depths = within("--depth", depth, USUAL_DEPTH, MOST_REQUESTS);
        int chains = within("--chain", chain, 1, depths);
        within("--signal-every", signalEvery, 1, depths - chains + 1);
        PingOptions.within(spec, "--inline", inline, 0, PerfSizes.LARGEST);
        int most = measure == PerfMeasure.LAT ? MOST_LATENCIES : MOST_ITERATIONS;
        within("--iterations", iterations, 1, most);
        if (warmUp != null) {
            PingOptions.within(spec, "--warmup", warmUp, 0, most);
        }
        return new PerfPlan(
                ThreadLocalRandom.current().nextLong(),
                0,
                operation,
                measure,
                events,
                within("--qps", queuePairs, 1, MOST_QUEUE_PAIRS),
                depths,
                chains,
                inline,
                Math.max(sizes.largest(), COMPILING_SIZE),
                options.seconds,
                bidirectional,
                within("--duration", duration, 0, PerfPlan.MOST_DURATION),
                within(
                        "--qp-timeout",
                        ackTimeout,
                        PerfPlan.USUAL_ACK_TIMEOUT,
                        PerfPlan.LARGEST_ACK_TIMEOUT));
    }

    private void onlyForBandwidth(String option, Integer value) {
        if (value != null) {
            throw wrong("%s is for bw: lat has one outstanding message", option);
        }
    }

    private int within(String option, Integer value, int usual, int most) {
        if (value == null) {
            return usual;
        }
        PingOptions.within(spec, option, value, 1, most);
        return value;
    }

    private ParameterException wrong(String message, Object... words) {
        return new ParameterException(spec.commandLine(), message.formatted(words));
    }

    private int iterations() {
        if (duration != null) {
            return PerfLoops.BY_TIME;
        }
        if (iterations != null) {
            return iterations;
        }
        if (measure == PerfMeasure.LAT) {
            return USUAL_LATENCY_ITERATIONS;
        }
        return operation == PerfOperation.WRITE ? USUAL_WRITES : USUAL_ITERATIONS;
    }

    // ---- the work

    /** Everything from the connection to the last result. */
    private final class Session implements AutoCloseable {
        private final Adapter adapter;
        private final PerfPlan plan;
        private final PerfSizes sizes;
        private final Deque<AutoCloseable> made = new ArrayDeque<>();
        private final PerfControl control;
        private final PerfProgress progress;
        private PerfTerms terms;
        private PerfLoops loops;
        private final List<PerfAddress> locals = new ArrayList<>(); // of queue pairs
        private final List<PerfAddress> remotes = new ArrayList<>(); // of their peers
        private InetAddress local; // of the connections
        private Map<String, Object> run;
        private int rounds;

        Session(Adapter adapter, PerfPlan plan, PerfSizes sizes) {
            this.adapter = adapter;
            this.plan = plan;
            this.sizes = sizes;
            control = new PerfControl(adapter, plan.timeout(), false);
            made.push(control);
            progress = new PerfProgress(quiet ? null : spec.commandLine().getErr());
            made.push(progress);
        }

        void connect() {
            if (gidIndex != null) {
                ToolDevices.useGid(adapter, gidIndex);
            }
            if (!sizes.all() && sizes.largest() > largest()) {
                throw new ToolFailure(
                        "%s takes messages up to %,d bytes, not %,d (--size)",
                        adapter.name(), largest(), sizes.largest());
            }
            if (operation != PerfOperation.CHANNEL) {
                PerfEnd.checkClient(adapter, plan);
            }
            Connector connector = connect(control.queuePair(), plan);
            control.watch(connector);
            terms = PerfTerms.decode(connector.connectionData().privateData());
            local = connector.localAddress().getAddress();
            if (!sizes.all() && terms.largest() < plan.largest()) {
                throw new ToolFailure(
                        "The server's device takes messages up to %,d bytes, not %,d (--size)",
                        terms.largest(), sizes.largest());
            }
            loops = operation == PerfOperation.CHANNEL ? connectChannels() : connectQueuePairs();
            run = run(connector);
        }

        /** The largest message that this side's device takes. */
        private long largest() {
            return operation == PerfOperation.CHANNEL
                    ? PerfMessages.largest(adapter.info())
                    : adapter.info().maxTransferBytes();
        }

        private PerfLoops connectChannels() {
            PerfMessages channels =
                    PerfMessages.client(
                            adapter,
                            plan,
                            terms,
                            new InetSocketAddress(server, terms.port()),
                            connection(new byte[0]));
            made.push(channels);
            return channels;
        }

        private PerfLoops connectQueuePairs() {
            PerfEnd end = new PerfEnd(adapter, plan, terms, false);
            made.push(end);
            for (int q = 0; q < plan.queuePairs(); q++) {
                Connector connector = connect(end.queuePairs[q], plan.withIndex(q + 1));
                end.watch(connector);
                locals.add(PerfAddress.of(end.queuePairs[q], local));
                remotes.add(PerfTerms.address(connector.connectionData().privateData()));
            }
            return plan.latency()
                    ? new PerfLatency(plan, end, false)
                    : new PerfBandwidth(
                            plan, terms, end, false, signalEvery == null ? 0 : signalEvery);
        }

        private ConnectionOptions connection(byte[] privateData) {
            ConnectionOptions how = plan.connection(privateData).withPath(packets.on(plan.path()));
            return from == null ? how : how.withLocalAddress(new InetSocketAddress(from, 0));
        }

        private Connector connect(QueuePair queuePair, PerfPlan said) {
            ConnectionOptions how = connection(said.encode());
            Connector connector = adapter.createConnector();
            made.push(connector);
            try {
                connector.connect(queuePair, new InetSocketAddress(server, options.port), how);
            } catch (VerbenaException e) {
                throw explained(e, connector);
            }
            connector.completeConnect();
            return connector;
        }

        private RuntimeException explained(VerbenaException e, Connector connector) {
            if (e.status() == Status.CONNECTION_REFUSED) {
                ConnectionData said = connector.connectionData();
                return said.exact() && said.privateData().length > 0
                        ? new ToolFailure(
                                "The server refused: %s",
                                new String(said.privateData(), StandardCharsets.UTF_8))
                        : new ToolFailure("%s. Start the server (again)", e.getMessage());
            }
            if (e.status() == Status.IO_TIMEOUT) {
                return new ToolFailure(
                        "%s. The server may be busy: it serves one client after the other",
                        e.getMessage());
            }
            return e;
        }

        void measure() {
            PrintWriter out = spec.commandLine().getOut();
            if (!json) {
                printHeader(out);
                out.println(PerfTable.header(measure, duration != null, gigabits));
            }
            if (warmUp == null) {
                int small = Math.max(least(), Math.min(COMPILING_SIZE, sizes.smallest()));
                int part = COMPILING_FIRST;
                for (int done = 0; done < COMPILING; done += part) {
                    int outstanding = COMPILING_OUTSTANDING[rounds % COMPILING_OUTSTANDING.length];
                    round("compiling", small, Math.ceilDiv(part, plan.queuePairs()), outstanding);
                    part = Math.min(2 * part, COMPILING_PART);
                }
            }
            int before = warmUp == null ? USUAL_WARM_UP : warmUp;
            long most = Math.min(terms.largest(), largest());
            for (int bytes : sizes.within(least(), most)) {
                if (before > 0) {
                    round("warming up", bytes, before);
                }
                PerfResult result = round("measuring", bytes, iterations());
                out.println(json ? PerfJson.of(result, run) : PerfTable.row(result, gigabits));
            }
            if (!json) {
                out.println(PerfHeader.LINE);
            }
        }

        private void printHeader(PrintWriter out) {
            Port port = PerfHeader.port(adapter, local);
            boolean receives = plan.takes(false) || operation == PerfOperation.CHANNEL;
            int moderation =
                    signalEvery != null
                            ? signalEvery
                            : PerfBandwidth.usualSignals(plan, sizes.smallest());
            out.print(
                    PerfHeader.of(
                            plan,
                            adapter.info(),
                            receives ? terms.receives() : 0,
                            moderation,
                            port,
                            PerfHeader.gidIndex(port, local)));
            locals.forEach(address -> out.print(address.lines("local")));
            remotes.forEach(address -> out.print(address.lines("remote")));
            if (!locals.isEmpty()) {
                out.println(PerfHeader.LINE);
            }
        }

        private PerfResult round(String what, int bytes, int count) {
            return round(what, bytes, count, PerfLoops.AS_PLANNED);
        }

        private PerfResult round(String what, int bytes, int count, int outstanding) {
            PerfCompilers.awaitIdle(COMPILING_SECONDS);
            int number = rounds++;
            loops.prepare(bytes, PerfData.seed(number, false));
            control.send(
                    new PerfControl.Message(
                            PerfControl.Kind.ROUND,
                            number,
                            bytes,
                            count,
                            loops.address(),
                            loops.token(),
                            0,
                            ""));
            PerfControl.Message ready = control.receive(PerfControl.Kind.READY);
            loops.begin(bytes, count, ready.address(), ready.token(), ready.window(), outstanding);
            progress.begin(
                    "%s %s, %,d bytes, %s".formatted(operation, measure, bytes, what),
                    (long) count * plan.queuePairs());
            PerfResult result;
            try {
                result = loops.measure(bytes, count, progress);
            } catch (ToolFailure e) {
                throw control.withFailureOfPeer(e);
            } finally {
                progress.end();
            }
            control.send(PerfControl.Message.over(loops.fewest()));
            PerfControl.Message checked = control.receiveUnlessPeerLeft(); // it may send longer
            if (checked == null) {
                throw new ToolFailure("The server disconnected in the middle of a measurement");
            }
            control.checked(checked, PerfControl.Kind.CHECKED);
            long wrong = loops.mismatch(bytes, checked.count(), PerfData.seed(number, true), false);
            if (wrong >= 0) {
                ToolFailure failure =
                        new ToolFailure(
                                "The data from the server is wrong from byte %,d of %,d on",
                                wrong, bytes);
                control.sendFailure(failure.getMessage()); // it must not say that all was well
                throw failure;
            }
            return result.plus(Double.longBitsToDouble(checked.address()));
        }

        private Map<String, Object> run(Connector connector) {
            Map<String, Object> all = new LinkedHashMap<>();
            all.put("operation", operation);
            all.put("measure", measure);
            all.put("device", adapter.name());
            ToolDevices.put(all, "from", connector.localAddress());
            ToolDevices.put(all, "to", connector.peerAddress());
            all.put("warmup", warmUp == null ? USUAL_WARM_UP : warmUp);
            all.put("compiling", warmUp == null ? COMPILING : 0);
            all.put("depth", plan.latency() ? 1 : plan.depth());
            all.put("chain", plan.chain());
            all.put("signal_every", signalEvery);
            all.put("inline", inline);
            all.put("events", events);
            all.put("qps", plan.queuePairs());
            all.put("bidirectional", bidirectional);
            all.put("duration_sec", duration);
            all.put("qp_timeout", plan.ackTimeout());
            all.put("tclass", packets.trafficClass());
            all.put("sl", packets.serviceLevel());
            all.put("java", System.getProperty("java.vm.version"));
            all.put("vm", System.getProperty("java.vm.name"));
            all.put(
                    "vm_options",
                    String.join(" ", ManagementFactory.getRuntimeMXBean().getInputArguments()));
            all.put(
                    "collectors",
                    ManagementFactory.getGarbageCollectorMXBeans().stream()
                            .map(GarbageCollectorMXBean::getName)
                            .collect(Collectors.joining(", ")));
            all.put("processors", Runtime.getRuntime().availableProcessors());
            all.put(
                    "os",
                    "%s %s, %s"
                            .formatted(
                                    System.getProperty("os.name"),
                                    System.getProperty("os.version"),
                                    System.getProperty("os.arch")));
            return all;
        }

        @Override
        public void close() {
            PerfControl.closeAll(made);
        }
    }
}
