package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A page for readers: one question, one table of all programs that do the same, and one plot. Only
 * {@link #SCALE} has curves instead of bars.
 */
final class Page {
    private static final String C = "C";
    private static final String EPOLL = "Netty epoll over TCP";

    /** Posts and polls. */
    static final Page REQUESTS =
            new Page(
                    "requests",
                    "What a request costs",
                    """
            Each program posts requests and polls their completions, on a provider that only copies: what remains is the
            cost of the program and of the calls, without a NIC and a network. Times are processor time of the thread.
            *Tuned C* fills in its requests once. *Raw FFM* and *bare JNI* make the two calls from Java without a library:
            they check nothing and keep no records. *Confined* queues belong to one thread, *shared* ones to all; a *batch*
            is recorded once and posted again. Unlike a NIC's, this provider has no doorbell and no write barriers; a post
            takes the lock of the completion queue, too. Instructions are those of both sides on Soft-RoCE, per packet,
            counted by an emulator: times mean nothing there.
            """,
                    Stream.of(
                                    peers(Row.PEERS_ONE),
                                    peers(Row.PEERS_CHAIN),
                                    both(
                                            Row.INSTRUCTIONS_IN_PROCESSES,
                                            "write-latency",
                                            "A write of 64 bytes, Soft-RoCE, without the kernel"),
                                    both(
                                            Row.INSTRUCTIONS,
                                            "write-latency",
                                            "A write of 64 bytes, Soft-RoCE, with the kernel"),
                                    Stream.of(
                                            verbena(
                                                    Row.ALLOCATION,
                                                    "one-confined",
                                                    "Allocated by a send and its poll")))
                            .flatMap(entries -> entries)
                            .toList(),
                    Row.PEERS_ONE,
                    Row.PEERS_CHAIN);

    /** Channels, and NIO. */
    static final Page MESSAGES =
            new Page(
                    "messages",
                    "What a message costs",
                    """
            A message goes from one end of a connection to the other; both ends are in one thread, and the times are its
            processor time, in user space and in the kernel. C and Verbena run on a provider that copies each message and
            has no network: this is the work of the host when a NIC executes the requests. *Queue pairs by hand* and C
            send from registered memory, poll two completions and post the receive again. A *channel* also counts credit,
            watches a deadline, and calls a callback and a handler; it copies the message into registered memory, or sends
            it from there. A message has arrived when it is polled for: no poll comes up empty, as most do when a program
            waits for a network. *Java NIO* sends over a TCP connection on the loopback interface: direct buffers, no selector,
            reads that find the message. C and queue pairs by hand use 16 buffers on each side in turn, which the caches do
            not hold if messages are large. Neither latency nor throughput of a network is measured. Soft-RoCE saves nothing:
            its kernel module sends UDP packets.
            """,
                    Stream.of(
                                    peers(Row.PEERS_MESSAGE_64),
                                    peers(Row.PEERS_MESSAGE_65536),
                                    peers(Row.PEERS_MESSAGE_1048576),
                                    Stream.of(
                                            new Entry(
                                                    "A message of 64 bytes, Soft-RoCE, with the kernel",
                                                    Peer.VERBENA_BY_HAND.words(),
                                                    Row.INSTRUCTIONS,
                                                    "channel-latency",
                                                    Side.C), // what takes C's place
                                            new Entry(
                                                    "A message of 64 bytes, Soft-RoCE, with the kernel",
                                                    Peer.VERBENA_CHANNEL.words(),
                                                    Row.INSTRUCTIONS,
                                                    "channel-latency",
                                                    Side.JAVA),
                                            verbena(
                                                    Row.ALLOCATION,
                                                    "message",
                                                    "Allocated by a message of 64 bytes")))
                            .flatMap(entries -> entries)
                            .toList(),
                    Row.PEERS_MESSAGE_64,
                    Row.PEERS_MESSAGE_65536,
                    Row.PEERS_MESSAGE_1048576);

    /** Connections and JVMs. */
    static final Page STARTS =
            new Page(
                    "starts",
                    "What a connection and the start of a JVM cost",
                    """
            New JVMs run one after the other: one sends its first message by Java NIO over TCP on the loopback interface,
            one opens a device, connects a queue pair and polls its first completion, on a provider that only copies.
            Times are wall-clock times since the start of the process; the first line is how long it takes until either
            program begins. Instructions are those
            of a third of a connection (three packets: connect, accept, disconnect) on Soft-RoCE, counted by an emulator
            on both sides.
            """,
                    Stream.of(
                                    Stream.of(
                                            start(Row.MAIN, "main() begins"),
                                            start(
                                                    Row.FIRST_BY_NIO,
                                                    "Java NIO over TCP, first message"),
                                            start(
                                                    Row.FIRST_COMPLETION,
                                                    "Verbena, first completion"),
                                            verbena(
                                                    Row.COLD_START,
                                                    Row.TEN_THOUSAND,
                                                    "The next 10,000 posts and polls")),
                                    both(
                                            Row.INSTRUCTIONS_IN_PROCESSES,
                                            "connect",
                                            "A third of a connection, without the kernel"),
                                    both(
                                            Row.INSTRUCTIONS,
                                            "connect",
                                            "A third of a connection, with the kernel"))
                            .flatMap(entries -> entries)
                            .toList(),
                    Row.COLD_START,
                    Row.INSTRUCTIONS);

    /** Many of them. */
    static final Page SCALE =
            new Page(
                    "scale",
                    "What happens with more connections and more cores",
                    """
            Requests on 1 to 1,024 queue pairs that report to one completion queue, on a provider that only copies, by
            processor time of the thread; messages on 1 and on 5,000 connections, which are 10,000 channels of one
            poller, or as many queue pairs by hand with shared receives; then two threads against one, each with queues
            of its own, and two pollers of a `PollerGroup` against one (2 is the ideal); then the memory of an idle
            queue pair of depth 16, and that of a message channel that has carried one message and is idle, without the
            provider's part.
            """,
                    Stream.of(
                                    Stream.of("1", "16", "64", "256")
                                            .flatMap(
                                                    pairs ->
                                                            both(
                                                                    Row.LOAD_QUEUE_PAIRS,
                                                                    pairs,
                                                                    "A request, queue pairs: "
                                                                            + pairs)),
                                    peers(Row.PEERS_QUEUE_PAIRS),
                                    peers(Row.PEERS_CONNECTIONS_1),
                                    peers(Row.PEERS_CONNECTIONS_5000),
                                    both(Row.TWO_THREADS, "", "Requests of two threads, to one's"),
                                    Stream.of(
                                            verbena(
                                                    Row.TWO_POLLERS,
                                                    "",
                                                    "Messages of two pollers, to one's")),
                                    both(
                                            Row.IDLE_QUEUE_PAIR,
                                            "native",
                                            "Native memory of a queue pair"),
                                    Stream.of(
                                            verbena(
                                                    Row.IDLE_QUEUE_PAIR,
                                                    "heap",
                                                    "Java heap of a queue pair"),
                                            verbena(
                                                    Row.IDLE_CHANNEL,
                                                    "native",
                                                    "Native memory of a message channel"),
                                            verbena(
                                                    Row.IDLE_CHANNEL,
                                                    "heap",
                                                    "Java heap of a message channel")))
                            .flatMap(entries -> entries)
                            .toList());

    /** A service on Netty. */
    static final Page NETTY =
            new Page(
                    "netty",
                    "What a service on Netty costs",
                    EPOLL,
                    """
            A client sends a request through Netty, and the server an answer of 64 bytes. Both are on one event loop, and
            the times are its processor time, in user space and in the kernel. The pipelines are the same: each end counts
            bytes, and takes a buffer for each message from its channel's allocator. Verbena runs on a provider that copies
            each message and has no network: this is the work of the host when a NIC executes the requests, except that no
            poll comes up empty, as most do while a loop polls for a network. The others send over a TCP connection on the
            loopback interface. Netty looks for leaks in none of them
            (`io.netty.leakDetection.level=disabled`); what it does by default allocates some 60 bytes for each request.
            In a unary call of gRPC, HTTP/2 and gRPC itself take most of the time. Arrow Flight has threads of its own, so
            its times are those of the whole process. Neither latency nor throughput of a network is measured. Soft-RoCE
            saves nothing: its kernel module sends UDP packets. How much that takes is counted by an emulator: the
            instructions of client, server and kernel, between two ends of a veth pair, which Verbena and TCP share.
            """,
                    Stream.of(
                                    Stream.of(
                                                    Row.PEERS_NETTY_64,
                                                    Row.PEERS_NETTY_65536,
                                                    Row.PEERS_NETTY_1048576,
                                                    Row.PEERS_NETTY_GRPC,
                                                    Row.PEERS_NETTY_FLIGHT,
                                                    Row.PEERS_NETTY_ALLOCATION)
                                            .flatMap(row -> peers(row, EPOLL)),
                                    onALink(
                                            Row.INSTRUCTIONS_IN_PROCESSES,
                                            "A request of 64 bytes and its answer, veth pair, without the kernel"),
                                    onALink(
                                            Row.INSTRUCTIONS,
                                            "A request of 64 bytes and its answer, veth pair, with the kernel"),
                                    Stream.of("heap", "native")
                                            .map(
                                                    where ->
                                                            new Entry(
                                                                    "Memory of an idle channel, "
                                                                            + where,
                                                                    Peer.NETTY_VERBENA.words(),
                                                                    Row.IDLE_NETTY,
                                                                    where,
                                                                    Side.JAVA)))
                            .flatMap(entries -> entries)
                            .toList(),
                    Row.PEERS_NETTY_64,
                    Row.PEERS_NETTY_65536,
                    Row.PEERS_NETTY_1048576,
                    Row.PEERS_NETTY_GRPC,
                    Row.PEERS_NETTY_FLIGHT);

    /** All pages. */
    static final List<Page> ALL = List.of(REQUESTS, MESSAGES, STARTS, SCALE, NETTY);

    /** By how much a reference may vary between the forks of a run: more, and it is none. */
    static final double MOST_VARIATION = 1.1;

    private static final String VERBENA = "Verbena";

    private final String name;
    private final String title;
    private final String reference; // the program that all others are compared with
    private final String about;
    private final List<Entry> entries;
    private final List<Row> plotted;

    private Page(String name, String title, String about, List<Entry> entries, Row... plotted) {
        this(name, title, C, about, entries, plotted);
    }

    private Page(
            String name,
            String title,
            String reference,
            String about,
            List<Entry> entries,
            Row... plotted) {
        this.name = name;
        this.title = title;
        this.reference = reference;
        this.about = about;
        this.entries = entries;
        this.plotted = List.of(plotted);
    }

    /**
     * A line of a table.
     *
     * @param what what was done
     * @param who which program did it
     * @param row where its values are
     * @param parameter which of them
     * @param side which of them
     */
    private record Entry(String what, String who, Row row, String parameter, Side side) {
        Values values(Collection<Measurement> all) {
            return Values.of(all, row.key(), parameter, side);
        }
    }

    private static Stream<Entry> peers(Row row) {
        return peers(row, C);
    }

    private static Stream<Entry> peers(Row row, String reference) {
        return Stream.concat(
                Stream.of(new Entry(row.title(), reference, row, Peer.NONE, Side.C)),
                Arrays.stream(Peer.values())
                        .map(
                                peer ->
                                        new Entry(
                                                row.title(),
                                                peer.words(),
                                                row,
                                                peer.key(),
                                                Side.JAVA)));
    }

    /** Of NettyRequests: Verbena on Soft-RoCE beside TCP. */
    private static Stream<Entry> onALink(Row row, String what) {
        return Stream.of(
                new Entry(what, EPOLL, row, "netty-request", Side.C),
                new Entry(what, Peer.NETTY_VERBENA.words(), row, "netty-request", Side.JAVA));
    }

    private static Stream<Entry> both(Row row, String parameter, String what) {
        return Stream.of(new Entry(what, C, row, parameter, Side.C), verbena(row, parameter, what));
    }

    private static Entry verbena(Row row, String parameter, String what) {
        return new Entry(what, VERBENA, row, parameter, Side.JAVA);
    }

    private static Entry start(String parameter, String who) {
        return new Entry("From the start of a JVM", who, Row.COLD_START, parameter, Side.JAVA);
    }

    /** The name of its file, and of its plot. */
    String file(String suffix) {
        return name + suffix;
    }

    /**
     * Why a run may not be published: C itself varied where there is nothing but a post and a poll.
     */
    static Optional<String> rejection(Collection<Measurement> all) {
        Entry simplest = REQUESTS.entries.getFirst();
        Values c = simplest.values(all);
        return c.variation() <= MOST_VARIATION
                ? Optional.empty()
                : Optional.of(
                        "C itself varied by %.0f %% between forks (%s: %s to %s %s); at most %.0f %% are allowed"
                                .formatted(
                                        percent(c),
                                        simplest.what,
                                        Values.words(c.least()),
                                        Values.words(c.most()),
                                        unit(all, simplest),
                                        (MOST_VARIATION - 1) * 100));
    }

    private static double percent(Values values) {
        return (values.variation() - 1) * 100;
    }

    private static String unit(Collection<Measurement> all, Entry entry) {
        return all.stream()
                .filter(m -> m.row().equals(entry.row.key()))
                .filter(m -> m.parameter().equals(entry.parameter))
                .map(Measurement::unit)
                .findFirst()
                .orElse("");
    }

    /** Whether anything of it was measured. */
    boolean isMeasured(Collection<Measurement> all) {
        return entries.stream().anyMatch(entry -> !entry.values(all).isEmpty());
    }

    /** The page, in Markdown. */
    String text(Collection<Measurement> all, Map<String, String> machine) {
        List<String> lines = new ArrayList<>();
        lines.add("# " + title + "\n");
        lines.add(about);
        rejection(all).ifPresent(why -> lines.add("**This run is rejected:** " + why + ".\n"));
        lines.add("![%s](%s)\n".formatted(title, file(".svg")));
        lines.add("| what | program | median | lowest to highest | to %s |".formatted(reference));
        lines.add("|---|---|---|---|---|");
        String before = "";
        for (Entry entry : entries) {
            Values values = entry.values(all);
            if (!values.isEmpty()) {
                lines.add(
                        "| %s | %s | %s %s | %s | %s |"
                                .formatted(
                                        entry.what.equals(before) ? "" : entry.what,
                                        entry.who,
                                        Values.words(values.median()),
                                        unit(all, entry),
                                        values.sorted().length == 1
                                                ? ""
                                                : Values.words(values.least())
                                                        + " to "
                                                        + Values.words(values.most()),
                                        toReference(all, entry, values)));
                before = entry.what;
            }
        }
        lines.add("\nThe machine and the run:\n");
        machine.forEach((name, value) -> lines.add("* %s: %s".formatted(name, value)));
        return String.join("\n", lines) + "\n";
    }

    /** The ratio to the reference. For the reference itself, why no ratios are given, if so. */
    private String toReference(Collection<Measurement> all, Entry entry, Values values) {
        if (entry.who.equals(reference)) {
            return values.variation() <= MOST_VARIATION
                    ? ""
                    : "varied by %.0f %%: no ratios".formatted(percent(values));
        }
        return entries.stream()
                .filter(other -> other.who.equals(reference) && other.what.equals(entry.what))
                .map(other -> other.values(all))
                .filter(those -> !those.isEmpty() && those.median() != 0)
                .filter(those -> those.variation() <= MOST_VARIATION)
                .map(those -> Values.words(values.median() / those.median()))
                .findFirst()
                .orElse("");
    }

    /** Its plot, as SVG. */
    String plot(Collection<Measurement> all, Map<String, String> machine) {
        String subtitle = machine.getOrDefault("processor", "") + "; medians, lowest to highest";
        return plotted.isEmpty()
                ? new Plot(title, subtitle, false, List.of(curves(all))).toString()
                : new Bars(title, subtitle, panels(all)).toString();
    }

    private List<Bars.Panel> panels(Collection<Measurement> all) {
        return entries.stream()
                .filter(entry -> plotted.contains(entry.row))
                .map(Entry::what)
                .distinct()
                .map(what -> panel(all, what))
                .filter(panel -> panel.bars().size() > 1)
                .toList();
    }

    private Bars.Panel panel(Collection<Measurement> all, String what) {
        List<Entry> measured =
                entries.stream()
                        .filter(entry -> entry.what.equals(what) && !entry.values(all).isEmpty())
                        .toList();
        return new Bars.Panel(
                what,
                measured.isEmpty() ? "" : unit(all, measured.getFirst()),
                measured.stream()
                        .map(entry -> new Bars.Bar(entry.who, entry.values(all)))
                        .toList());
    }

    private static Plot.Panel curves(Collection<Measurement> all) {
        return new Plot.Panel(
                "A request, by the number of queue pairs",
                "queue pairs on one completion queue",
                "nanoseconds for each request",
                Math::log,
                List.of(1.0, 4.0, 16.0, 64.0, 256.0, 1024.0),
                all.stream()
                        .filter(m -> m.row().equals(Row.LOAD_QUEUE_PAIRS.key()))
                        .map(m -> Map.entry(m.side(), m.parameter()))
                        .distinct()
                        .map(
                                one ->
                                        new Plot.Point(
                                                one.getKey(),
                                                Double.parseDouble(one.getValue()),
                                                Values.of(
                                                        all,
                                                        Row.LOAD_QUEUE_PAIRS.key(),
                                                        one.getValue(),
                                                        one.getKey())))
                        .sorted(Comparator.comparingDouble(Plot.Point::parameter))
                        .toList());
    }
}
