package dev.verbena.bench.report;

import dev.verbena.bench.report.Measurement.Side;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Reads what the programs printed, from files named ROW-SIDE-FORK.txt or .json: tables of perftest,
 * objects of Perf, results of JMH, and lines RESULT of the small programs; or the values of an
 * earlier report. The text shows which of these a file contains; everything else in it is for
 * people.
 */
final class Outputs {
    /** Where perftest's curves have their points; Perf gives its own. */
    private static final Map<String, List<Row>> CONFINED =
            Map.of(
                    Row.POST_POLL.key(),
                    List.of(Row.POST_POLL_CONFINED),
                    Row.CHAIN.key(),
                    List.of(Row.CHAIN_CONFINED, Row.BATCH_CONFINED, Row.PREPARED_CONFINED));

    /** What the names of files begin with that hold what peers do in Java's place. */
    private static final String PEERS = "peers-";

    private static final Pattern NAME = Pattern.compile("(.+)-(c|java)-(\\d+)\\.(?:txt|json)");
    private static final Pattern COLUMN =
            Pattern.compile("(#\\w+|[^\\s\\[\\]]+(?: [^\\s\\[\\]]+)?)(?:\\[[^\\]]*])?");

    private final List<Measurement> measurements = new ArrayList<>();
    private final String row;
    private final Side side;
    private final int fork;

    private Outputs(String row, Side side, int fork) {
        this.row = row;
        this.side = side;
        this.fork = fork;
    }

    /**
     * What all files of a folder hold, in the order of their names. Of a file that cannot be
     * understood, as of a program that died while it wrote, nothing is taken.
     *
     * @param complain hears which and why
     */
    static List<Measurement> in(Path folder, Consumer<String> complain) throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.list(folder)) {
            files = all.sorted().toList();
        }
        List<Measurement> measurements = new ArrayList<>();
        for (Path file : files) {
            String name = file.getFileName().toString();
            if (name.equals(Measurement.FILE)) {
                Files.readAllLines(file).stream()
                        .skip(1)
                        .map(Measurement::parse)
                        .forEach(measurements::add);
            }
            if (NAME.matcher(name).matches()) {
                try {
                    measurements.addAll(
                            read(name, Files.readString(file, StandardCharsets.ISO_8859_1)));
                } catch (IllegalArgumentException e) {
                    complain.accept("Left out " + file + ": " + e.getMessage());
                }
            }
        }
        return measurements;
    }

    /** What one file holds. */
    static List<Measurement> read(String fileName, String text) {
        Matcher name = NAME.matcher(fileName);
        if (!name.matches()) {
            throw new IllegalArgumentException(fileName + " is not ROW-SIDE-FORK.txt or .json");
        }
        Side side = name.group(2).equals("c") ? Side.C : Side.JAVA;
        Outputs outputs = new Outputs(name.group(1), side, Integer.parseInt(name.group(3)));
        if (fileName.endsWith(".json")) {
            outputs.jmh(Json.values(text));
        } else {
            outputs.lines(text);
        }
        return outputs.ofTheFork();
    }

    /**
     * A program may measure the same in several rounds; its fork counts once, with their median.
     */
    private List<Measurement> ofTheFork() {
        return measurements.stream()
                .collect(
                        Collectors.groupingBy(
                                m -> List.of(m.row(), m.parameter(), m.side()),
                                LinkedHashMap::new,
                                Collectors.toList()))
                .values()
                .stream()
                .map(
                        rounds -> {
                            Measurement one = rounds.getFirst();
                            Side of = one.side();
                            Values all = Values.of(rounds, one.row(), one.parameter(), of);
                            return new Measurement(
                                    one.row(), one.parameter(), of, fork, all.median(), one.unit());
                        })
                .toList();
    }

    private void lines(String text) {
        List<String> columns = List.of();
        for (String line : text.lines().toList()) {
            String[] words = line.strip().split("\\s+");
            if (line.startsWith("RESULT\t")) {
                result(line.split("\t", -1));
            } else if (line.startsWith("{")) {
                Json.values(line).forEach(object -> perf(members(object)));
            } else if (line.strip().startsWith("#bytes")) {
                columns = columns(line);
            } else if (!columns.isEmpty() && words.length == columns.size() && areNumbers(words)) {
                perftest(columns, words);
                columns = List.of();
            }
        }
    }

    /** RESULT, measure, parameter, value, unit. */
    private void result(String[] fields) {
        if (fields.length != 5) {
            throw new IllegalArgumentException(
                    "a line RESULT has five fields: " + Arrays.toString(fields));
        }
        counted(fields[1], fields[2])
                .or(() -> besidePeers(fields[1] + " " + fields[2]))
                .or(() -> place(fields[1] + " " + fields[2]))
                .ifPresent(
                        place -> {
                            double value = Double.parseDouble(fields[3]);
                            add(place.getFirst(), place.getLast(), value, fields[4]);
                            // C has no locks: it is the other side of both modes.
                            CONFINED.getOrDefault(place.getFirst(), List.of())
                                    .forEach(of -> add(of.key(), "", value, fields[4]));
                        });
    }

    /** What the emulator counted: there the parameter is the row whose programs ran. */
    private static Optional<List<String>> counted(String row, String parameter) {
        return Row.of(row)
                .filter(
                        List.of(
                                        Row.INSTRUCTIONS,
                                        Row.INSTRUCTIONS_IN_PROCESSES,
                                        Row.INSTRUCTIONS_IN_KERNEL)
                                ::contains)
                .map(counted -> List.of(counted.key(), parameter));
    }

    /** In files of peers the same lines mean other rows; the name says whose they are. */
    private Optional<List<String>> besidePeers(String measure) {
        if (!row.startsWith(PEERS)) {
            return Optional.empty();
        }
        Row measured =
                switch (measure.replaceFirst("^(message|netty\\S*) \\S+", "$1")) {
                    case "message bytes=64" -> Row.PEERS_MESSAGE_64;
                    case "message bytes=65536" -> Row.PEERS_MESSAGE_65536;
                    case "message bytes=1048576" -> Row.PEERS_MESSAGE_1048576;
                    case "netty bytes=64" -> Row.PEERS_NETTY_64;
                    case "netty bytes=65536" -> Row.PEERS_NETTY_65536;
                    case "netty bytes=1048576" -> Row.PEERS_NETTY_1048576;
                    case "netty-grpc" -> Row.PEERS_NETTY_GRPC;
                    case "netty-flight" -> Row.PEERS_NETTY_FLIGHT;
                    case "netty-allocation bytes=64" -> Row.PEERS_NETTY_ALLOCATION;
                    case "post-poll chain=1" -> Row.PEERS_ONE;
                    case "post-poll chain=16" -> Row.PEERS_CHAIN;
                    case "load-queue-pairs 1024" -> Row.PEERS_QUEUE_PAIRS;
                    case "load-messages 1" -> Row.PEERS_CONNECTIONS_1;
                    case "load-messages 5000" -> Row.PEERS_CONNECTIONS_5000;
                    default -> throw new IllegalArgumentException("no row of peers has " + measure);
                };
        String who = row.substring(PEERS.length());
        return Optional.of(
                List.of(measured.key(), side == Side.C ? Peer.NONE : Peer.of(who).key()));
    }

    /** Row and parameter of what small programs measure; nothing for what is there beside. */
    private static Optional<List<String>> place(String measure) {
        String parameter = measure.replaceFirst(".*?[ =](\\d*)$", "$1");
        return Optional.ofNullable(
                switch (measure) {
                    case "post-poll chain=1" -> List.of(Row.POST_POLL.key(), "");
                    case "post-poll chain=16" -> List.of(Row.CHAIN.key(), "");
                    case "arm-await -" -> List.of(Row.ARM_AWAIT.key(), "");
                    case "connect-disconnect -" -> List.of(Row.CONNECT.key(), "");
                    case "events bytes=64 median" -> List.of(Row.EVENTS.key(), "");
                    case "two-threads -" -> List.of(Row.TWO_THREADS.key(), "");
                    case "idle-queue-pair heap" -> List.of(Row.IDLE_QUEUE_PAIR.key(), "heap");
                    case "idle-queue-pair native" -> List.of(Row.IDLE_QUEUE_PAIR.key(), "native");
                    case "netty-idle heap" -> List.of(Row.IDLE_NETTY.key(), "heap");
                    case "netty-idle native" -> List.of(Row.IDLE_NETTY.key(), "native");
                    case "idle-channel heap" -> List.of(Row.IDLE_CHANNEL.key(), "heap");
                    case "idle-channel native" -> List.of(Row.IDLE_CHANNEL.key(), "native");
                    case "two-pollers -" -> List.of(Row.TWO_POLLERS.key(), "");
                    case "startup jvm" -> List.of(Row.COLD_START.key(), Row.MAIN);
                    case "startup nio" -> List.of(Row.COLD_START.key(), Row.FIRST_BY_NIO);
                    case "startup start-to-first" ->
                            List.of(Row.COLD_START.key(), Row.FIRST_COMPLETION);
                    case "startup 10000" -> List.of(Row.COLD_START.key(), Row.TEN_THOUSAND);
                    case "first-message start to completed" -> List.of(Row.FIRST_MESSAGE.key(), "");
                    default ->
                            switch (measure.replaceFirst("\\d+$", "")) {
                                case "register-deregister bytes=" ->
                                        List.of(Row.REGISTER.key(), parameter);
                                case "load-queue-pairs " ->
                                        List.of(Row.LOAD_QUEUE_PAIRS.key(), parameter);
                                case "load-depth " -> List.of(Row.LOAD_DEPTH.key(), parameter);
                                default -> null;
                            };
                });
    }

    private static List<String> columns(String head) {
        return COLUMN.matcher(head).results().map(found -> found.group(1)).toList();
    }

    private static boolean areNumbers(String[] words) {
        return Arrays.stream(words).allMatch(word -> word.matches("[-+]?\\d+(\\.\\d+)?"));
    }

    /** A line of perftest's table. */
    private void perftest(List<String> columns, String[] words) {
        Map<String, Double> values = new LinkedHashMap<>();
        for (int i = 0; i < words.length; i++) {
            values.put(columns.get(i), Double.valueOf(words[i]));
        }
        String bytes = Long.toString(Math.round(values.get("#bytes")));
        if (row.equals(Row.FIRST_ROUND_TRIPS.key())) {
            add(row, "", 2 * values.get("t_avg"), "us");
            return;
        }
        compared(bytes, values, "t_typical", "BW average", "MsgRate");
    }

    /** An object of Perf. */
    private void perf(Map<String, Object> object) {
        Map<String, Double> values = new LinkedHashMap<>();
        object.forEach(
                (name, value) -> {
                    if (value instanceof Double number) {
                        values.put(name, number);
                    }
                });
        if (!values.containsKey("bytes")) {
            throw new IllegalArgumentException("no bytes in Perf's " + object.keySet());
        }
        String bytes = Long.toString(Math.round(values.get("bytes")));
        if (row.equals(Row.FIRST_ROUND_TRIPS.key())) {
            add(row, "", 2 * values.get("t_avg_usec"), "us");
            return;
        }
        compared(bytes, values, "t_typical_usec", "bw_average_mib_per_sec", "msg_rate_mpps");
    }

    /** Takes the value that the row compares, from columns with the names that the program has. */
    private void compared(
            String bytes, Map<String, Double> values, String time, String rate, String messages) {
        if (values.containsKey(time)) {
            add(row, bytes, values.get(time), "us");
        } else if (row.equals(Row.MESSAGE_RATE.key()) && values.containsKey(messages)) {
            add(row, bytes, values.get(messages) * 1e3, "k/s");
        } else if (values.containsKey(rate)) {
            add(row, bytes, values.get(rate), "MiB/s");
        } else {
            throw new IllegalArgumentException("nothing of " + row + " in " + values.keySet());
        }
    }

    /** JMH's results. */
    private void jmh(List<Object> texts) {
        for (Object one : (List<?>) texts.getFirst()) {
            Map<String, Object> result = members(one);
            String benchmark = result.get("benchmark").toString();
            String name = benchmark.substring(benchmark.lastIndexOf('.') + 1);
            boolean confined =
                    result.get("params") instanceof Map<?, ?> params
                            && "CONFINED".equals(params.get("threads"));
            Row measured =
                    switch (name) {
                        case "one" -> confined ? Row.POST_POLL_CONFINED : Row.POST_POLL;
                        case "chain" -> confined ? Row.CHAIN_CONFINED : Row.CHAIN;
                        case "batch" -> confined ? Row.BATCH_CONFINED : null;
                        case "prepared" -> confined ? Row.PREPARED_CONFINED : null;
                        case "wake" -> Row.ARM_AWAIT;
                        case "byHand", "throughAChannel" -> Row.MESSAGE;
                        default ->
                                throw new IllegalArgumentException(
                                        "no row has the benchmark " + benchmark);
                    };
            if (measured == null) {
                continue; // batches on shared queues have no row
            }
            Map<String, Object> score = members(result.get("primaryMetric"));
            double time = (Double) score.get("score");
            if (name.equals("byHand")) {
                measurements.add(new Measurement(measured.key(), "", Side.C, fork, time, "ns"));
                continue;
            }
            add(measured.key(), "", time, "ns");
            if (measured == Row.ARM_AWAIT) {
                // What JMH's own threads allocate in a second is not nothing, divided by the few
                // requests of system calls; AllocationTest counts those by the thread.
                continue;
            }
            // JMH puts a middle dot before the name in some releases.
            members(result.get("secondaryMetrics"))
                    .forEach(
                            (metric, values) -> {
                                if (metric.endsWith("gc.alloc.rate.norm")) {
                                    allocation(
                                            measured == Row.MESSAGE
                                                    ? measured.key()
                                                    : confined ? name + "-confined" : name,
                                            members(values));
                                }
                            });
        }
    }

    /**
     * The median iteration, not the mean: JMH counts what all threads of the JVM allocate, and in a
     * fork's last iteration its own allocate half a megabyte. What a request allocates shows in
     * every iteration.
     */
    private void allocation(String benchmark, Map<String, Object> metric) {
        double[] iterations =
                ((List<?>) metric.get("rawData"))
                        .stream()
                                .flatMap(forks -> ((List<?>) forks).stream())
                                .mapToDouble(bytes -> (Double) bytes)
                                .sorted()
                                .toArray();
        Values all = new Values(new int[] {fork}, iterations);
        add(Row.ALLOCATION.key(), benchmark, all.median(), "B");
    }

    @SuppressWarnings("unchecked") // names of JSON are strings
    private static Map<String, Object> members(Object object) {
        if (object instanceof Map<?, ?> map) {
            return (Map<String, Object>) map;
        }
        throw new IllegalArgumentException("a JSON object was expected, not " + object);
    }

    private void add(String what, String parameter, double value, String unit) {
        measurements.add(new Measurement(what, parameter, side, fork, value, unit));
    }
}
