package dev.verbena.bench.report;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** What is compared, and how far apart the two may be: the one place where the goals stand. */
@SuppressWarnings("ImmutableEnumChecker") // its functions capture nothing that changes
enum Row {
    /** JMH's PostAndPoll.one on shared queues, which take locks, and c/post_poll.c. */
    POST_POLL("Post and poll one send, provider that copies", Goal.atMost(1.75), Parameter.NONE),
    /** JMH's PostAndPoll.one on queues that are confined to a thread, and c/post_poll.c. */
    POST_POLL_CONFINED("The same on confined queues", Goal.atMost(1.35), Parameter.NONE),
    /** JMH's PostAndPoll.chain on shared queues, and c/post_poll.c. */
    CHAIN("The same in chains of 16 (DEFER), each", Goal.none(), Parameter.NONE),
    /** JMH's PostAndPoll.chain on confined queues, and c/post_poll.c. */
    CHAIN_CONFINED("Such chains on confined queues, each", Goal.atMost(1.85), Parameter.NONE),
    /** JMH's PostAndPoll.batch on confined queues, and c/post_poll.c with chains. */
    BATCH_CONFINED(
            "A batch of 16, recorded and posted, each; confined", Goal.atMost(1.3), Parameter.NONE),
    /** JMH's PostAndPoll.prepared on confined queues, and c/post_poll.c with chains. */
    PREPARED_CONFINED(
            "Such a batch, posted again, each; confined", Goal.atMost(1.3), Parameter.NONE),
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
    INSTRUCTIONS("Instructions executed for a packet", Goal.none(), Parameter.ROW),
    /** Of them, those outside the kernel. */
    INSTRUCTIONS_IN_PROCESSES(
            "Of them in processes, libraries among them", Goal.none(), Parameter.ROW),
    /** The kernel's alone, of rows where processes poll memory; has the goals of those rows. */
    INSTRUCTIONS_IN_KERNEL(
            "Instructions of the kernel for a packet, 64 KiB", Goal.none(), Parameter.ROW),
    /** Has no counterpart in C that means anything: a JVM starts. */
    FIRST_MESSAGE("First message after the JVM's start", Goal.none(), Parameter.NONE),
    /** c/load.c, over queue pairs on one completion queue; in load.svg. */
    LOAD_QUEUE_PAIRS("A request's cost, queue pairs on one queue", Goal.none(), Parameter.COUNT),
    /** c/load.c, over outstanding requests; in load.svg. */
    LOAD_DEPTH("A request's cost, outstanding requests", Goal.none(), Parameter.COUNT);

    /**
     * Below this, bytes are what JMH's own threads allocate while they measure, divided by
     * requests: one object of the least size in 1,600 requests is above it.
     */
    static final double NO_BYTES = 0.01;

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
        /** A number of something. */
        COUNT,
        /** The key of the row whose programs run. */
        ROW
    }

    private final String title;
    private final Goal goal;
    private final Parameter parameter;

    Row(String title, Goal goal, Parameter parameter) {
        this.title = title;
        this.goal = goal;
        this.parameter = parameter;
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
        return List.of(INSTRUCTIONS, INSTRUCTIONS_IN_KERNEL).contains(this)
                ? of(value).map(timed -> timed.goal.ofCost()).orElse(goal)
                : goal;
    }

    /** Whether C has no counterpart. */
    boolean isJavaOnly() {
        return List.of(ALLOCATION, FIRST_MESSAGE).contains(this);
    }

    /** A parameter as people write it: 4 KiB. */
    String words(String value) {
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
