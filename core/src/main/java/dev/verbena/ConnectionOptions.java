package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.OptionValues;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;

/**
 * Options of a step of a {@link Connector}: deadline, private data, local address, path. Start from
 * {@link #DEFAULTS} and change what differs: {@code
 * DEFAULTS.withDeadline(Duration.ofSeconds(3)).withPrivateData(hello)}.
 *
 * <p>Immutable. Options with the same values are equal.
 */
@CheckReturnValue
public final class ConnectionOptions extends OptionValues<ConnectionOptions> {
    /**
     * A deadline of 10 s, no private data, with the announcement, the local address chosen by
     * device and route, and {@link PathOptions#DEFAULTS}.
     */
    public static final ConnectionOptions DEFAULTS = new ConnectionOptions();

    Duration deadline = Duration.ofSeconds(10);
    byte[] privateData = {};
    boolean announced = true;
    boolean assumeInvalidatable;
    @Nullable InetSocketAddress local;
    @Nullable SharedEndpoint endpoint;
    PathOptions path = PathOptions.DEFAULTS;

    private ConnectionOptions() {
        super(
                o ->
                        Arrays.asList(
                                o.deadline,
                                ByteBuffer.wrap(o.privateData), // equal if the bytes are
                                o.announced,
                                o.assumeInvalidatable,
                                o.local,
                                o.endpoint,
                                o.path));
    }

    /**
     * Changes how long the step may take. At the deadline the step fails with IO_TIMEOUT and
     * releases the queue pair and all else that it used.
     *
     * @param within longer than zero
     * @return a changed copy of these options
     */
    public ConnectionOptions withDeadline(Duration within) {
        Arguments.checkPositive(within, "The deadline");
        return with(changed -> changed.deadline = within);
    }

    /**
     * Sends private data to the peer, which reads it by {@link Connector#connectionData}. At most
     * 44 bytes with a connect, 184 with an accept; 12 more {@link #withoutAnnouncement}.
     *
     * @param data the bytes, which are copied
     * @return a changed copy of these options
     */
    public ConnectionOptions withPrivateData(byte[] data) {
        byte[] copy = data.clone();
        return with(changed -> changed.privateData = copy);
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
        return with(changed -> changed.announced = false);
    }

    /**
     * Allows {@link QueuePair#sendAndInvalidate} even if the peer did not announce that its remote
     * keys (NDK: tokens) can be invalidated. For peers that do not use this library but are known
     * to support it.
     *
     * @return a changed copy of these options
     */
    public ConnectionOptions assumingInvalidatablePeer() {
        return with(changed -> changed.assumeInvalidatable = true);
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
        Arguments.notNull(address, "address");
        return with(changed -> changed.local = address);
    }

    /**
     * Connects from an address that several connectors share (NdkConnectWithSharedEndpoint),
     * instead of a {@linkplain #withLocalAddress local address}. The close of the endpoint pends on
     * the connector until that has released its queue pair.
     *
     * @param shared an endpoint of the connector's adapter
     * @return a changed copy of these options
     */
    public ConnectionOptions withSharedEndpoint(SharedEndpoint shared) {
        Arguments.notNull(shared, "shared");
        return with(changed -> changed.endpoint = shared);
    }

    /**
     * Changes how packets travel and when they are sent again: traffic class, acknowledgement
     * timeout, retries. {@link Connector#connect connect} and {@link Connector#accept accept} use
     * them; other steps do not.
     *
     * @param options for this side; they replace what this method was given before
     * @return a changed copy of these options
     * @throws IllegalArgumentException for options with a P_Key index: by IP address, the
     *     connection manager chooses the partition
     */
    public ConnectionOptions withPath(PathOptions options) {
        if (options.hasPkeyIndex()) {
            throw new IllegalArgumentException(
                    "The partition of a connection by IP address is that of the IP interface: connect from an address of an interface in the partition (withLocalAddress) instead of choosing it by %s"
                            .formatted(options));
        }
        return with(changed -> changed.path = options);
    }

    /**
     * How packets travel.
     *
     * @return what {@link #withPath} has set
     */
    public PathOptions path() {
        return path;
    }

    /** Shows only the length of the private data, which may be secret. */
    @Override
    public String toString() {
        return "ConnectionOptions(within %s, %d bytes of private data%s%s%s%s%s)"
                .formatted(
                        Text.time(deadline),
                        privateData.length,
                        announced ? "" : ", not announced",
                        assumeInvalidatable ? ", assuming an invalidatable peer" : "",
                        local == null ? "" : ", from " + local,
                        endpoint == null ? "" : ", from " + endpoint,
                        path.equals(PathOptions.DEFAULTS) ? "" : ", " + path);
    }
}
