package dev.verbena;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/**
 * How a step of a {@link Connector} is to be taken. Start from {@link #DEFAULTS} and change what
 * differs: {@code DEFAULTS.withDeadline(Duration.ofSeconds(3)).withPrivateData(hello)}.
 *
 * <p>Immutable.
 */
public final class ConnectionOptions {
    /** 10 s, no private data, announced, the local address by device and route. */
    public static final ConnectionOptions DEFAULTS =
            new ConnectionOptions(Duration.ofSeconds(10), new byte[0], true, false, null, null);

    private static final Duration SHORTEST_TIMEOUT = Duration.ofNanos(8192); // 4.096 us * 2^1
    private static final int LARGEST_EXPONENT = 31;
    private static final double UNIT = 4096; // nanoseconds

    private final Duration deadline;
    private final byte[] privateData;
    private final boolean announced;
    private final boolean assumeInvalidatable;
    private final InetSocketAddress local; // or null
    private final Duration ackTimeout; // or null

    private ConnectionOptions(
            Duration deadline,
            byte[] privateData,
            boolean announced,
            boolean assumeInvalidatable,
            InetSocketAddress local,
            Duration ackTimeout) {
        this.deadline = deadline;
        this.privateData = privateData;
        this.announced = announced;
        this.assumeInvalidatable = assumeInvalidatable;
        this.local = local;
        this.ackTimeout = ackTimeout;
    }

    /**
     * Changes how long the step may take. Then it fails with IO_TIMEOUT, and leaves nothing behind.
     *
     * @param within longer than nothing
     * @return these options, otherwise the same
     */
    public ConnectionOptions withDeadline(Duration within) {
        if (!within.isPositive()) {
            throw new IllegalArgumentException("A deadline of " + within + " has passed already");
        }
        return new ConnectionOptions(
                within, privateData, announced, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Sends private data along, for the peer's {@link Connector#connectionData}. There is room for
     * 44 bytes on connecting, 184 on accepting, 136 on rejecting; 12 more {@link
     * #withoutAnnouncement}.
     *
     * @param data copied
     * @return these options, otherwise the same
     */
    public ConnectionOptions withPrivateData(byte[] data) {
        return new ConnectionOptions(
                deadline, data.clone(), announced, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Leaves the 12 bytes out that tell the peer, in front of the private data, what this side can
     * do. For peers that are not of this library and take private data for their own; a peer that
     * connects without them is answered without them anyway.
     *
     * <p>A peer of this library then refuses to send-and-invalidate, and gets the private data with
     * the transport's zeros behind them.
     *
     * @return these options, otherwise the same
     */
    public ConnectionOptions withoutAnnouncement() {
        return new ConnectionOptions(
                deadline, privateData, false, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Lets {@link QueuePair#sendAndInvalidate} through although the peer did not announce that its
     * tokens can be invalidated: for peers of another make that are known to.
     *
     * @return these options, otherwise the same
     */
    public ConnectionOptions assumingInvalidatablePeer() {
        return new ConnectionOptions(deadline, privateData, announced, true, local, ackTimeout);
    }

    /**
     * Connects from a certain local address, one of the adapter's device. Otherwise the route
     * decides, and where it would lead by another device, this adapter's device wins.
     *
     * @param address with a port, or port 0 for any
     * @return these options, otherwise the same
     */
    public ConnectionOptions withLocalAddress(InetSocketAddress address) {
        return new ConnectionOptions(
                deadline,
                privateData,
                announced,
                assumeInvalidatable,
                Objects.requireNonNull(address, "address"),
                ackTimeout);
    }

    /**
     * Changes after which time a packet that was not acknowledged is sent again, which happens six
     * times until a request ends in IO_TIMEOUT. Devices take four times as long, or less, and know
     * steps of two. Otherwise the connection manager decides, by what it knows of the path: on RoCE
     * one or two seconds, which makes up to 16 s until IO_TIMEOUT.
     *
     * <p>On a fabric that loses packets this timeout decides the throughput: the loss of an answer
     * to a read, or of the last packet of a request, is noticed by nothing else, and the requests
     * posted after it wait. A few round trips are enough. Each side chooses for the requests that
     * it posts.
     *
     * @param timeout at least 8.192 us; rounded up to the next step
     * @return these options, otherwise the same
     */
    public ConnectionOptions withAckTimeout(Duration timeout) {
        if (timeout.compareTo(SHORTEST_TIMEOUT) < 0) {
            throw new IllegalArgumentException(
                    "An acknowledgement takes %s or longer".formatted(SHORTEST_TIMEOUT));
        }
        return new ConnectionOptions(
                deadline, privateData, announced, assumeInvalidatable, local, timeout);
    }

    Duration deadline() {
        return deadline;
    }

    byte[] privateData() {
        return privateData;
    }

    boolean announced() {
        return announced;
    }

    boolean assumeInvalidatable() {
        return assumeInvalidatable;
    }

    InetSocketAddress local() {
        return local;
    }

    /** The exponent that verbs takes, or 0 to leave it to the connection manager. */
    int ackTimeout() {
        if (ackTimeout == null) {
            return 0;
        }
        int exponent = 1;
        double steps = ackTimeout.getSeconds() * 1e9 + ackTimeout.getNano();
        while (exponent < LARGEST_EXPONENT && UNIT * (1L << exponent) < steps) {
            exponent++;
        }
        return exponent;
    }

    @Override
    public String toString() {
        return "ConnectionOptions(within %s, %d bytes of private data%s%s%s%s)"
                .formatted(
                        deadline,
                        privateData.length,
                        announced ? "" : ", not announced",
                        assumeInvalidatable ? ", assuming an invalidatable peer" : "",
                        local == null ? "" : ", from " + local,
                        ackTimeout == null ? "" : ", acknowledged within " + ackTimeout);
    }
}
