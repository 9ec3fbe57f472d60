package dev.verbena.bench.report;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** What is compared, and how far apart the two may be: the one place where the goals stand. */
@SuppressWarnings("ImmutableEnumChecker") // its functions capture nothing that changes
enum Row {
    /** JMH's PostAndPoll.one on shared queues, which take locks, and c/post_poll.c. */
    POST_POLL("Post and poll one send, provider that copies", Goal.atMost(1.6), Parameter.NONE),
    /** JMH's PostAndPoll.one on queues that are confined to a thread, and c/post_poll.c. */
    POST_POLL_CONFINED("The same on confined queues", Goal.atMost(1.25), Parameter.NONE),
    /** JMH's PostAndPoll.chain on shared queues, and c/post_poll.c. */
    CHAIN("The same in chains of 16 (DEFER), each", Goal.none(), Parameter.NONE),
    /** JMH's PostAndPoll.chain on confined queues, and c/post_poll.c. */
    CHAIN_CONFINED("Such chains on confined queues, each", Goal.atMost(1.7), Parameter.NONE),
    /** JMH's PostAndPoll.batch on confined queues, and c/post_poll.c with chains. */
    BATCH_CONFINED(
            "A batch of 16, recorded and posted, each; confined", Goal.atMost(1.3), Parameter.NONE),
    /** JMH's PostAndPoll.prepared on confined queues, and c/post_poll.c with chains. */
    PREPARED_CONFINED(
            "Such a batch, posted again, each; confined", Goal.atMost(1.3), Parameter.NONE),
    /** TwoThreads and c/two_threads.c: what two threads do, divided by what one does. */
    TWO_THREADS("Two threads, each with its own queues, to one", Goal.least(1.9), Parameter.NONE),
    /** IdlePairs and c/idle_pairs.c. */
    IDLE_QUEUE_PAIR(
            "Memory of an idle queue pair, depth 16",
            Goal.none(),
            Parameter.WORD,
            Map.of("heap", Goal.most(1_100), "native", Goal.most(5_000))),
    /** Startup, a new JVM each time; C has no counterpart that means anything. */
    COLD_START(
            "A new JVM's way, provider that copies",
            Goal.none(),
            Parameter.WORD,
            Map.of(Row.FIRST_COMPLETION, Goal.most(150), Row.TEN_THOUSAND, Goal.most(15))),
    /** JMH's ArmAndAwait.wake and c/arm_await.c. */
    ARM_AWAIT("Arm, wait, wake, poll, provider that copies", Goal.atMost(1.2), Parameter.NONE),
    /** JMH's Messages: through a channel, and in place of C by hand, in Java. */
    MESSAGE("A message through a channel, and by hand", Goal.atMost(2.5), Parameter.NONE),
    /** JMH's gc.alloc.rate.norm, the worst of all benchmarks. */
    ALLOCATION("Bytes allocated by a request", Goal.nothing(), Parameter.NONE),
    /** ib_send_lat. */
    SEND_LATENCY("Send latency", Goal.atMost(1.05), Parameter.BYTES),
    /** ib_write_lat. */
    WRITE_LATENCY("Write latency", Goal.atMost(1.05), Parameter.BYTES),
    /** ib_send_bw. */
    SEND_BANDWIDTH("Send bandwidth", Goal.atLeast(0.97), Parameter.BYTES),
    /** ib_write_bw. */
    WRITE_BANDWIDTH("Write bandwidth", Goal.atLeast(0.97), Parameter.BYTES),
    /** ib_read_bw. */
    READ_BANDWIDTH("Read bandwidth", Goal.atLeast(0.97), Parameter.BYTES),
    /** ib_write_bw with small writes. */
    MESSAGE_RATE("Message rate of writes", Goal.atLeast(0.95), Parameter.BYTES),
    /** c/events.c. */
    EVENTS("Arm, wait, wake, poll", Goal.atMost(1.2), Parameter.NONE),
    /** c/register.c. */
    REGISTER("Register and deregister", Goal.atMost(1.1), Parameter.BYTES),
    /** c/connect.c. */
    CONNECT("Connect and disconnect", Goal.atMost(1.2), Parameter.NONE),
    /** Only counted: perf channel lat, and in place of C perf send lat; both sleep. */
    CHANNEL_LATENCY(
            "A message to and fro through channels, and queue pairs",
            Goal.atMost(1.15),
            Parameter.NONE),
    /** Only counted: perf channel bw, and in place of C perf send bw; both sleep. */
    CHANNEL_RATE("Messages through channels, and queue pairs", Goal.atMost(1.15), Parameter.NONE),
    /** What c/count.c counts while other rows' programs run; has the goals of those rows. */
    INSTRUCTIONS(
            "Instructions executed for a packet",
            Goal.none(),
            Parameter.WORD,
            Map.of("read-one", Goal.atMost(1.05), "write-bandwidth", Goal.atMost(1.05))),
    /** Of them, those outside the kernel. */
    INSTRUCTIONS_IN_PROCESSES(
            "Of them in processes, libraries among them",
            Goal.none(),
            Parameter.WORD,
            Map.of("write-latency", Goal.most(750), "connect", Goal.most(56_000))),
    /** The kernel's alone, of rows where processes poll memory; has the goals of those rows. */
    INSTRUCTIONS_IN_KERNEL(
            "Instructions of the kernel for a packet, 64 KiB", Goal.none(), Parameter.WORD),
    /** ib_send_lat and perf without warm-up, both sides just started: there and back. */
    FIRST_ROUND_TRIPS(
            "The first 10,000 round trips of a connection, each", Goal.most(90), Parameter.NONE),
    /** Has no counterpart in C that means anything: a JVM starts. */
    FIRST_MESSAGE("First message after the JVM's start", Goal.none(), Parameter.NONE),
    /** c/load.c, over queue pairs on one completion queue; in load.svg. */
    LOAD_QUEUE_PAIRS(
            "A request's cost, queue pairs on one queue",
            Goal.none(),
            Parameter.WORD,
            Map.of("64", Goal.atMost(1.5), "1024", Goal.atMost(2.0))),
    /** c/load.c, over outstanding requests; in load.svg. */
    LOAD_DEPTH("A request's cost, outstanding requests", Goal.none(), Parameter.WORD),
    /** Other programs in Java's place, by time on a processor: one send and its poll. */
    PEERS_ONE("One send and its poll", Goal.none(), Parameter.PEER),
    /** In chains of 16. */
    PEERS_CHAIN("Chains of 16, each", Goal.none(), Parameter.PEER),
    /** One on each of 1,024 queue pairs, polled by 16. */
    PEERS_QUEUE_PAIRS("1,024 queue pairs, each", Goal.none(), Parameter.PEER);

    /**
     * Below this, bytes are what JMH's own threads allocate while they measure, divided by
     * requests: one object of the least size in 1,600 requests is above it.
     */
    static final double NO_BYTES = 0.01;

    /** Parameters of {@link #COLD_START}: from the JVM's start, and from there on. */
    static final String FIRST_COMPLETION = "first completion";

    static final String TEN_THOUSAND = "10,000 more";

    /** What a row's values are measured against. */
    sealed interface Goal {
        /** Java's median is at most so many times C's. */
        static Goal atMost(double factor) {
            return new Ratio(factor, true);
        }

        /** Java's median is at least so many times C's. */
        static Goal atLeast(double factor) {
            return new Ratio(factor, false);
        }

        /** Java's median is at most so much, whatever C's is. */
        static Goal most(double value) {
            return new Bound(value, true);
        }

        /** Java's median is at least so much, whatever C's is. */
        static Goal least(double value) {
            return new Bound(value, false);
        }

        /** Every fork of Java's gives zero. */
        static Goal nothing() {
            return new Nothing();
        }

        /** It is only shown. */
        static Goal none() {
            return new Shown();
        }

        /** The same for what is the better the less it is, as instructions are. */
        default Goal ofCost() {
            return this;
        }
    }

    /**
     * Java's median divided by C's.
     *
     * @param factor the bound
     * @param most whether it is the upper one
     */
    record Ratio(double factor, boolean most) implements Goal {
        /** Whether a ratio is within the bound. */
        boolean isReachedBy(double ratio) {
            return most ? ratio <= factor : ratio >= factor;
        }

        /** How near or far a ratio is: 1 at the bound, more beyond it. */
        double badness(double ratio) {
            return most ? ratio / factor : factor / ratio;
        }

        @Override
        public Goal ofCost() {
            return most ? this : Goal.atMost(1 / factor);
        }

        @Override
        public String toString() {
            return (most ? "<= " : ">= ") + "%.2f".formatted(factor);
        }
    }

    /**
     * A bound of Java's median itself, in the row's unit.
     *
     * @param value the bound
     * @param most whether it is the upper one
     */
    record Bound(double value, boolean most) implements Goal {
        /** Whether a median is within the bound. */
        boolean isReachedBy(double median) {
            return most ? median <= value : median >= value;
        }

        /** How near or far it is: 1 at the bound, more beyond it. */
        double badness(double median) {
            return most ? median / value : value / median;
        }

        @Override
        public String toString() {
            return "Java " + (most ? "<= " : ">= ") + Values.words(value);
        }
    }

    /** Zero, up to {@link #NO_BYTES}; C has no value. */
    record Nothing() implements Goal {
        @Override
        public String toString() {
            return "0";
        }
    }

    /** No goal. */
    record Shown() implements Goal {
        @Override
        public String toString() {
            return "-";
        }
    }

    /** What is varied in a row. */
    enum Parameter {
        /** Nothing. */
        NONE,
        /** Bytes, of a message or of memory. */
        BYTES,
        /** A number of something, the key of the row whose programs run, or what is measured. */
        WORD,
        /** The key of a {@link Peer}, which ran in Java's place. */
        PEER
    }

    private final String title;
    private final Goal goal;
    private final Parameter parameter;
    private final Map<String, Goal> goals;

    Row(String title, Goal goal, Parameter parameter) {
        this(title, goal, parameter, Map.of());
    }

    Row(String title, Goal goal, Parameter parameter, Map<String, Goal> goals) {
        this.title = title;
        this.goal = goal;
        this.parameter = parameter;
        this.goals = goals;
    }

    /** As it stands in files, their names, and on the command line: post-poll. */
    String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The row of that key. */
    static Optional<Row> of(String key) {
        return Arrays.stream(values()).filter(row -> row.key().equals(key)).findFirst();
    }

    /** What it says in the table. */
    String title() {
        return title;
    }

    /**
     * What it is measured against with a parameter. Instructions have the goal of the row whose
     * programs run: at least 0.95 of C's rate is at most 1 / 0.95 of C's instructions.
     */
    Goal goal(String value) {
        Goal own = goals.getOrDefault(value, goal);
        return own instanceof Shown && List.of(INSTRUCTIONS, INSTRUCTIONS_IN_KERNEL).contains(this)
                ? of(value).map(timed -> timed.goal.ofCost()).orElse(own)
                : own;
    }

    /** Whether C has no counterpart. */
    boolean isJavaOnly(String value) {
        return List.of(ALLOCATION, FIRST_MESSAGE, COLD_START).contains(this)
                || (this == IDLE_QUEUE_PAIR && value.equals("heap"));
    }

    /** Whether others than this library are in Java's place. */
    boolean isOfPeers() {
        return parameter == Parameter.PEER;
    }

    /** A parameter as people write it: 4 KiB. */
    String words(String value) {
        if (parameter == Parameter.PEER) {
            return Peer.of(value).words();
        }
        if (parameter != Parameter.BYTES) {
            return value;
        }
        long bytes = Long.parseLong(value);
        String[] units = {"B", "KiB", "MiB", "GiB"};
        int unit = 0;
        while (bytes >= 1024 && bytes % 1024 == 0 && unit < units.length - 1) {
            bytes /= 1024;
            unit++;
        }
        return bytes + " " + units[unit];
    }
}
