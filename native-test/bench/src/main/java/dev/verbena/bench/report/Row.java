package dev.verbena.bench.report;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** The rows of the table: what is compared. */
enum Row {
    /** JMH's PostAndPoll.one on shared queues, which take locks, and c/post_poll.c. */
    POST_POLL("Post and poll one send, stand-in, shared queues", Parameter.NONE),
    /** JMH's PostAndPoll.one on queues that are confined to a thread, and c/post_poll.c. */
    POST_POLL_CONFINED("Post and poll one send, stand-in, confined queues", Parameter.NONE),
    /** JMH's PostAndPoll.chain on shared queues, and c/post_poll.c. */
    CHAIN("Chain of 16 (DEFER), per request, shared queues", Parameter.NONE),
    /** JMH's PostAndPoll.chain on confined queues, and c/post_poll.c. */
    CHAIN_CONFINED("Chain of 16 (DEFER), per request, confined queues", Parameter.NONE),
    /** JMH's PostAndPoll.batch on confined queues, and c/post_poll.c with chains. */
    BATCH_CONFINED("Batch of 16, recorded and posted, per request, confined", Parameter.NONE),
    /** JMH's PostAndPoll.prepared on confined queues, and c/post_poll.c with chains. */
    PREPARED_CONFINED("Batch of 16, posted again, per request, confined", Parameter.NONE),
    /** TwoThreads and c/two_threads.c: the rate of two threads, divided by that of one. */
    TWO_THREADS("Rate of two threads with their own queues, to one's", Parameter.NONE),
    /** TwoPollers: messages of two pollers, divided by those of one. */
    TWO_POLLERS("Messages of two pollers, to one's", Parameter.NONE),
    /** IdlePairs and c/idle_pairs.c. */
    IDLE_QUEUE_PAIR("Memory of an idle queue pair, depth 16", Parameter.WORD),
    /** IdleChannels: without what the provider takes. */
    IDLE_CHANNEL("Memory of an idle message channel", Parameter.WORD),
    /** NettyIdle, the same. */
    IDLE_NETTY("Memory of an idle channel of Netty", Parameter.WORD),
    /** Startup, a new JVM each time; C has no counterpart that means anything. */
    COLD_START("Start of a JVM, stand-in", Parameter.WORD),
    /** JMH's ArmAndAwait.wake and c/arm_await.c. */
    ARM_AWAIT("Arm, wait, wake up, poll, stand-in", Parameter.NONE),
    /** JMH's Messages: through a channel, and in place of C by hand, in Java. */
    MESSAGE("Message through a channel (C: by hand, in Java)", Parameter.NONE),
    /** JMH's gc.alloc.rate.norm. */
    ALLOCATION("Bytes allocated per request", Parameter.WORD),
    /** ib_send_lat. */
    SEND_LATENCY("Send latency", Parameter.BYTES),
    /** ib_write_lat. */
    WRITE_LATENCY("Write latency", Parameter.BYTES),
    /** ib_send_bw. */
    SEND_BANDWIDTH("Send bandwidth", Parameter.BYTES),
    /** ib_write_bw. */
    WRITE_BANDWIDTH("Write bandwidth", Parameter.BYTES),
    /** ib_read_bw. */
    READ_BANDWIDTH("Read bandwidth", Parameter.BYTES),
    /** ib_write_bw with small writes. */
    MESSAGE_RATE("Message rate of writes", Parameter.BYTES),
    /** c/events.c. */
    EVENTS("Arm, wait, wake up, poll", Parameter.NONE),
    /** c/register.c. */
    REGISTER("Register and deregister", Parameter.BYTES),
    /** c/connect.c. */
    CONNECT("Connect and disconnect", Parameter.NONE),
    /** Counted by c/count.c while the programs of other rows run; their keys are the parameters. */
    INSTRUCTIONS("Instructions per packet", Parameter.WORD),
    /** The part of them outside the kernel. */
    INSTRUCTIONS_IN_PROCESSES("Instructions per packet, outside the kernel", Parameter.WORD),
    /** The kernel's part, for programs that poll memory. */
    INSTRUCTIONS_IN_KERNEL("Instructions per packet of 64 KiB, in the kernel", Parameter.WORD),
    /** ib_send_lat and perf without warm-up, both sides just started: there and back. */
    FIRST_ROUND_TRIPS("First 10,000 round trips of a connection, each", Parameter.NONE),
    /** Has no counterpart in C that means anything: a JVM starts. */
    FIRST_MESSAGE("First message after the start of the JVM", Parameter.NONE),
    /** c/load.c, over queue pairs on one completion queue. */
    LOAD_QUEUE_PAIRS("Cost of a request, by queue pairs on one queue", Parameter.WORD),
    /** c/load.c, over outstanding requests. */
    LOAD_DEPTH("Cost of a request, by outstanding requests", Parameter.WORD),
    /** Several programs, by time on a processor: one send and its poll. */
    PEERS_ONE("One send and its poll", Parameter.PEER),
    /** In chains of 16. */
    PEERS_CHAIN("Chain of 16, per request", Parameter.PEER),
    /** One on each of 1,024 queue pairs, polled by 16. */
    PEERS_QUEUE_PAIRS("1,024 queue pairs, per request", Parameter.PEER),
    /** c/message.c and MessageTurns. */
    PEERS_MESSAGE_64("A message of 64 bytes", Parameter.PEER),
    /** The same. */
    PEERS_MESSAGE_65536("A message of 64 KiB", Parameter.PEER),
    /** The same. */
    PEERS_MESSAGE_1048576("A message of 1 MiB", Parameter.PEER),
    /** NettyTurns. What takes C's place is Netty's epoll over TCP. */
    PEERS_NETTY_64("A request of 64 bytes and its answer", Parameter.PEER),
    /** The same. */
    PEERS_NETTY_65536("A request of 64 KiB and its answer", Parameter.PEER),
    /** The same. */
    PEERS_NETTY_1048576("A request of 1 MiB and its answer", Parameter.PEER),
    /** The same: bytes on the heap. */
    PEERS_NETTY_ALLOCATION("Allocated by a request of 64 bytes and its answer", Parameter.PEER),
    /** GrpcTurns, beside Netty's epoll over TCP. */
    PEERS_NETTY_GRPC("A unary call of gRPC, 64 bytes there and back", Parameter.PEER),
    /** FlightTurns, by the processor time of the process. */
    PEERS_NETTY_FLIGHT("DoGet of Arrow Flight, per MiB", Parameter.PEER),
    /** c/load_messages.c and LoadMessages. */
    PEERS_CONNECTIONS_1("A message of 64 bytes on one connection", Parameter.PEER),
    /** The same. */
    PEERS_CONNECTIONS_5000(
            "A message of 64 bytes on each of 5,000 connections in turn", Parameter.PEER);

    /** Parameters of {@link #COLD_START}: from the JVM's start, and from there on. */
    static final String FIRST_COMPLETION = "first completion";

    static final String TEN_THOUSAND = "10,000 more";

    /** The same of programs without Verbena: an empty one, and one that sends a message by NIO. */
    static final String MAIN = "main";

    static final String FIRST_BY_NIO = "first message by NIO";

    /** What is varied in a row. */
    enum Parameter {
        /** Nothing. */
        NONE,
        /** Bytes, of a message or of memory. */
        BYTES,
        /** A number of something, the key of the row whose programs run, or what is measured. */
        WORD,
        /** The key of a {@link Peer}: the program that ran. */
        PEER
    }

    private final String title;
    private final Parameter parameter;

    Row(String title, Parameter parameter) {
        this.title = title;
        this.parameter = parameter;
    }

    /** Its name in files, in their names, and on the command line: post-poll. */
    String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The row with that key. */
    static Optional<Row> of(String key) {
        return Arrays.stream(values()).filter(row -> row.key().equals(key)).findFirst();
    }

    /** Its name in the table. */
    String title() {
        return title;
    }

    /** Whether C has no counterpart. */
    boolean isJavaOnly(String value) {
        return List.of(ALLOCATION, FIRST_MESSAGE, COLD_START, TWO_POLLERS, IDLE_CHANNEL, IDLE_NETTY)
                        .contains(this)
                || (this == IDLE_QUEUE_PAIR && value.equals("heap"));
    }

    /** Whether its parameters are programs, of which Verbena is one. */
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
