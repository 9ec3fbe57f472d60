package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;

/**
 * Options of a step of a {@link Connector}: deadline, private data, local address. Start from
 * {@link #DEFAULTS} and change what differs: {@code
 * DEFAULTS.withDeadline(Duration.ofSeconds(3)).withPrivateData(hello)}.
 *
 * <p>Immutable. Options that ask for the same are equal.
 */
@CheckReturnValue
public final class ConnectionOptions {
    /** 10 s, no private data, with announcement, the local address by device and route. */
    public static final ConnectionOptions DEFAULTS =
            new ConnectionOptions(Duration.ofSeconds(10), new byte[0], true, false, null, null);

    private static final Duration SHORTEST_TIMEOUT = Duration.ofNanos(8192); // 4.096 us * 2^1
    private static final int LARGEST_EXPONENT = 31;
    private static final double UNIT = 4096; // nanoseconds

    private final Duration deadline;
    private final byte[] privateData;
    private final boolean announced;
    private final boolean assumeInvalidatable;
    private final @Nullable InetSocketAddress local;
    private final @Nullable Duration ackTimeout;

    private ConnectionOptions(
            Duration deadline,
            byte[] privateData,
            boolean announced,
            boolean assumeInvalidatable,
            @Nullable InetSocketAddress local,
            @Nullable Duration ackTimeout) {
        this.deadline = deadline;
        this.privateData = privateData;
        this.announced = announced;
        this.assumeInvalidatable = assumeInvalidatable;
        this.local = local;
        this.ackTimeout = ackTimeout;
    }

    /**
     * Changes how long the step may take. At the deadline it fails with IO_TIMEOUT and releases
     * what it used.
     *
     * @param within longer than zero
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
     * Leaves out the announcement: the 12 bytes in front of the private data that tell the peer
     * what this side can do. For peers that do not use this library and would take these bytes for
     * the program's; a peer that connects without an announcement is answered without one anyway.
     *
     * <p>A peer that uses this library then refuses to send-and-invalidate, and gets the private
     * data padded with the transport's zeros.
     *
     * @return these options, otherwise the same
     */
    public ConnectionOptions withoutAnnouncement() {
        return new ConnectionOptions(
                deadline, privateData, false, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Lets {@link QueuePair#sendAndInvalidate} through although the peer did not announce that its
     * tokens (verbs: remote keys) can be invalidated. For peers that do not use this library and
     * are known to allow it.
     *
     * @return these options, otherwise the same
     */
    public ConnectionOptions assumingInvalidatablePeer() {
        return new ConnectionOptions(deadline, privateData, announced, true, local, ackTimeout);
    }

    /**
     * Connects from a certain local address, which has to be one of the adapter's device. Without
     * it, the route to the peer decides; where the route leads by another device, an address of
     * this adapter's device is used.
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
     * Changes the time after which a packet that was not acknowledged is sent again. That happens
     * six times until a request ends in IO_TIMEOUT. Devices round up to a power of two, and may
     * take four times as long. Without this option the connection manager chooses, by the path: on
     * RoCE one or two seconds, which makes up to 16 s until IO_TIMEOUT.
     *
     * <p>On a fabric that loses packets this timeout decides the throughput: only this timeout
     * detects the loss of a reply to a read, or of the last packet of a request, and the requests
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

    @Nullable InetSocketAddress local() {
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
    public boolean equals(@Nullable Object other) {
        return other instanceof ConnectionOptions that
                && deadline.equals(that.deadline)
                && Arrays.equals(privateData, that.privateData)
                && announced == that.announced
                && assumeInvalidatable == that.assumeInvalidatable
                && Objects.equals(local, that.local)
                && Objects.equals(ackTimeout, that.ackTimeout);
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                deadline,
                Arrays.hashCode(privateData),
                announced,
                assumeInvalidatable,
                local,
                ackTimeout);
    }

    /** Without the private data, which may be a secret: their length only. */
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
