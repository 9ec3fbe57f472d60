package dev.verbena.tools;

import dev.verbena.ConnectionOptions;
import dev.verbena.PathOptions;

import java.nio.ByteBuffer;
import java.time.Duration;

/**
 * What a client wants to measure; its connections carry it as private data. A session has one
 * connection for {@link PerfControl}, of index 0, and one for each queue pair that is measured,
 * counted from 1.
 *
 * @param session a number that all connections of one client share, and no other client has
 * @param index which of its connections this is
 * @param operation what is done
 * @param measure what is measured of it
 * @param events whether both sides sleep until a completion comes
 * @param queuePairs how many are measured at once
 * @param depth how many requests may be outstanding on each
 * @param chain how many requests are posted as one
 * @param inline up to how many bytes messages go inline
 * @param largest the largest message in bytes
 * @param seconds how long the other side may take for a step
 * @param bidirectional whether the server sends as well as the client
 * @param durationSeconds how long measurements last that do not end by a number of messages
 * @param ackTimeout after 4.096 us times two to this power, a packet that was not acknowledged is
 *     sent again
 */
record PerfPlan(
        long session,
        int index,
        PerfOperation operation,
        PerfMeasure measure,
        boolean events,
        int queuePairs,
        int depth,
        int chain,
        int inline,
        int largest,
        int seconds,
        boolean bidirectional,
        int durationSeconds,
        int ackTimeout) {
    /** A connection's private data have room for 44, beside the library's own. */
    static final int BYTES = 43;

    private static final int MAGIC = 0x5662_7066; // "Vbpf"
    private static final byte VERSION = 4;
    private static final int EVENTS = 1;
    private static final int BIDIRECTIONAL = 2;
    private static final long ACK_TIMEOUT_UNIT = 4096; // ns

    /** 67 ms, as perftest has it. */
    static final int USUAL_ACK_TIMEOUT = 14;

    static final int LARGEST_ACK_TIMEOUT = 31;

    static final int MOST_DURATION = 0xFFFF; // seconds

    private static final int MOST_OF_CHANNEL = 32_767; // messages outstanding
    private static final int MOST_SECONDS = 86_400; // that a server waits for a silent client

    /** The same, for another connection. */
    PerfPlan withIndex(int other) {
        return new PerfPlan(
                session,
                other,
                operation,
                measure,
                events,
                queuePairs,
                depth,
                chain,
                inline,
                largest,
                seconds,
                bidirectional,
                durationSeconds,
                ackTimeout);
    }

    /** Whether a side posts the requests that are measured. */
    boolean sends(boolean server) {
        return !server || bidirectional;
    }

    /** Whether a side has receives for the messages that are measured, of bandwidth. */
    boolean takes(boolean server) {
        return operation.takesReceives() && (server || bidirectional);
    }

    Duration duration() {
        return Duration.ofSeconds(durationSeconds);
    }

    Duration timeout() {
        return Duration.ofSeconds(seconds);
    }

    /**
     * How each side makes its part of the connections. When lost packets are sent again is not left
     * to the connection manager, for which that takes seconds.
     */
    ConnectionOptions connection(byte[] privateData) {
        return ConnectionOptions.DEFAULTS
                .withDeadline(timeout())
                .withPrivateData(privateData)
                .withPath(path());
    }

    /** Of both sides; a client may choose more, see {@link PacketOptions}. */
    PathOptions path() {
        return PathOptions.DEFAULTS.withAckTimeout(
                Duration.ofNanos(ACK_TIMEOUT_UNIT << ackTimeout));
    }

    boolean latency() {
        return measure == PerfMeasure.LAT;
    }

    /** As private data. */
    byte[] encode() {
        return ByteBuffer.allocate(BYTES)
                .putInt(MAGIC)
                .put(VERSION)
                .put((byte) operation.ordinal())
                .put((byte) measure.ordinal())
                .put((byte) ((events ? EVENTS : 0) | (bidirectional ? BIDIRECTIONAL : 0)))
                .putLong(session)
                .putShort((short) index)
                .putShort((short) queuePairs)
                .putInt(depth)
                .putInt(chain)
                .putInt(inline)
                .putInt(largest)
                .putInt(seconds)
                .put((byte) ackTimeout)
                .putShort((short) durationSeconds)
                .array();
    }

    /**
     * From private data.
     *
     * @throws ToolFailure when they are no plan, or one of another version
     */
    static PerfPlan decode(byte[] data) {
        ByteBuffer bytes = ByteBuffer.wrap(data);
        if (data.length < 5 || bytes.getInt() != MAGIC) {
            throw new ToolFailure("The peer that connected is not a client of perf");
        }
        int version = bytes.get();
        if (version != VERSION || data.length != BYTES) {
            throw new ToolFailure(
                    "A client of perf's protocol version %d connected, this server has version %d: both sides need the same",
                    version, VERSION);
        }
        int operation = bytes.get();
        int measure = bytes.get();
        int flags = bytes.get();
        PerfPlan plan =
                new PerfPlan(
                        bytes.getLong(8),
                        bytes.getShort(16),
                        one(PerfOperation.values(), operation),
                        one(PerfMeasure.values(), measure),
                        (flags & EVENTS) != 0,
                        bytes.getShort(18),
                        bytes.getInt(20),
                        bytes.getInt(24),
                        bytes.getInt(28),
                        bytes.getInt(32),
                        bytes.getInt(36),
                        (flags & BIDIRECTIONAL) != 0,
                        Short.toUnsignedInt(bytes.getShort(41)),
                        bytes.get(40));
        boolean sensible =
                plan.queuePairs >= 1
                        && plan.index >= 0
                        && plan.index <= plan.queuePairs
                        && plan.depth >= 1
                        && (plan.operation != PerfOperation.CHANNEL
                                || plan.depth <= MOST_OF_CHANNEL)
                        && plan.chain >= 1
                        && plan.chain <= plan.depth
                        && plan.inline >= 0
                        && plan.largest >= 1
                        && plan.seconds >= 1
                        && plan.seconds <= MOST_SECONDS
                        && plan.ackTimeout >= 1
                        && plan.ackTimeout <= LARGEST_ACK_TIMEOUT;
        if (!sensible) {
            throw nonsense();
        }
        return plan;
    }

    private static <T> T one(T[] values, int ordinal) {
        if (ordinal < 0 || ordinal >= values.length) {
            throw nonsense();
        }
        return values[ordinal];
    }

    private static ToolFailure nonsense() {
        return new ToolFailure("A client's plan makes no sense: is it of another version?");
    }
}
