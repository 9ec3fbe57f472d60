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
 * <p>Immutable. Options with the same values are equal.
 */
@CheckReturnValue
public final class ConnectionOptions {
    /**
     * A deadline of 10 s, no private data, with the announcement, and the local address chosen by
     * device and route.
     */
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
     * Changes how long the step may take. At the deadline the step fails with IO_TIMEOUT and
     * releases the queue pair and all else that it used.
     *
     * @param within longer than zero
     * @return a changed copy of these options
     */
    public ConnectionOptions withDeadline(Duration within) {
        if (!within.isPositive()) {
            throw new IllegalArgumentException(
                    "The deadline must be longer than zero, not " + within);
        }
        return new ConnectionOptions(
                within, privateData, announced, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Sends private data to the peer, which reads it by {@link Connector#connectionData}. At most
     * 44 bytes with a connect, 184 with an accept, 136 with a reject; 12 more {@link
     * #withoutAnnouncement}.
     *
     * @param data the bytes, which are copied
     * @return a changed copy of these options
     */
    public ConnectionOptions withPrivateData(byte[] data) {
        return new ConnectionOptions(
                deadline, data.clone(), announced, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Leaves out the announcement: the 12 bytes before the private data that describe to the peer
     * what this side supports. For peers that do not use this library and would mistake these bytes
     * for private data. (A reply to a peer that connects without an announcement never has one.)
     *
     * <p>A peer that uses this library then refuses {@link QueuePair#sendAndInvalidate}, and
     * receives the private data padded with zeros to the transport's fixed length.
     *
     * @return a changed copy of these options
     */
    public ConnectionOptions withoutAnnouncement() {
        return new ConnectionOptions(
                deadline, privateData, false, assumeInvalidatable, local, ackTimeout);
    }

    /**
     * Allows {@link QueuePair#sendAndInvalidate} even if the peer did not announce that its remote
     * keys (NDK: tokens) can be invalidated. For peers that do not use this library but are known
     * to support it.
     *
     * @return a changed copy of these options
     */
    public ConnectionOptions assumingInvalidatablePeer() {
        return new ConnectionOptions(deadline, privateData, announced, true, local, ackTimeout);
    }

    /**
     * Connects from a given local address, which must belong to the adapter's device. Without this
     * option, the route to the peer determines the address, or, if the route uses another device,
     * an address of the adapter's device is used.
     *
     * @param address with a port, or port 0 for any
     * @return a changed copy of these options
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
     * Changes the time after which an unacknowledged packet is sent again (the local ACK timeout of
     * verbs). After six retries a request ends in IO_TIMEOUT. Devices round the timeout up to a
     * power of two, and may take four times as long. Without this option the connection manager
     * chooses a timeout for the path: on RoCE one or two seconds, which is up to 16 s until
     * IO_TIMEOUT.
     *
     * <p>On a fabric that loses packets this timeout decides the throughput: only this timeout
     * detects the loss of a reply to a read, or of the last packet of a request, and later requests
     * wait meanwhile. A few round trips are enough. The option applies to the requests that this
     * side posts.
     *
     * @param timeout at least 8.192 us; rounded up to 4.096 us times a power of two
     * @return a changed copy of these options
     */
    public ConnectionOptions withAckTimeout(Duration timeout) {
        if (timeout.compareTo(SHORTEST_TIMEOUT) < 0) {
            throw new IllegalArgumentException(
                    "The acknowledgement timeout must be %s or longer".formatted(SHORTEST_TIMEOUT));
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

    /** The exponent that verbs expects, or 0 to let the connection manager choose. */
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

    /** Shows only the length of the private data, which may be secret. */
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
