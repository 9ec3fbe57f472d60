package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.OptionValues;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.StringJoiner;
import java.util.function.IntConsumer;

/**
 * How the packets of a connection are marked and routed, and when they are sent again. Start from
 * {@link #DEFAULTS} and change what differs:
 *
 * {@snippet :
 * PathOptions storage = PathOptions.DEFAULTS.withDscp(26).withAckTimeout(Duration.ofMillis(60));
 * queuePair.connect(peer, storage);                                                // by address
 * connector.connect(queuePair, server, ConnectionOptions.DEFAULTS.withPath(storage)); // by IP
 * }
 *
 * <p>Each option means the same for both kinds of connections: it changes one attribute of this
 * side's queue pair ({@code ibv_modify_qp}), and so applies to packets that this side sends. The
 * exception is {@link #withMinRnrTimer}, which makes the peer wait. By IP address, the connecting
 * side's {@linkplain #withTrafficClass traffic class} and {@linkplain #withRetries retries} travel
 * in its request as well: an accepting side without options of its own uses the same.
 *
 * <p>Immutable. Options that set the same attributes, after rounding, are equal.
 */
@CheckReturnValue
public final class PathOptions extends OptionValues<PathOptions> {
    /**
     * No option set: by IP address the connection manager chooses each value; by address, the
     * defaults apply that each method names.
     */
    public static final PathOptions DEFAULTS = new PathOptions();

    private static final int TIMES = 7; // three bits
    private static final int UNLIMITED = 7;
    private static final int LONGEST_RNR_TIMER = 32; // which verbs calls 0
    private static final Duration RNR_UNIT = Duration.ofNanos(10_000);
    private static final Duration ACK_UNIT = Duration.ofNanos(4096);
    private static final int LARGEST_ACK_EXPONENT = 31;

    // Attributes of a queue pair in the encoding of verbs; null where nothing was chosen.
    private @Nullable Integer trafficClass;
    private @Nullable Integer serviceLevel;
    private @Nullable Integer flowLabel;
    private @Nullable Integer pkeyIndex;
    private @Nullable Integer minRnrTimer;
    private @Nullable Integer ackTimeout;
    private @Nullable Integer retries;
    private @Nullable Integer rnrRetries;

    private PathOptions() {
        super(
                o ->
                        Arrays.asList(
                                o.trafficClass,
                                o.serviceLevel,
                                o.flowLabel,
                                o.pkeyIndex,
                                o.minRnrTimer,
                                o.ackTimeout,
                                o.retries,
                                o.rnrRetries));
    }

    private static int checked(String what, int value, int most) {
        if (value < 0 || value > most) {
            throw new IllegalArgumentException(
                    "The %s of a connection is 0 to %d, not %d".formatted(what, most, value));
        }
        return value;
    }

    /**
     * Changes the traffic class of each packet ({@code ah_attr.grh.traffic_class}): on RoCE v2 the
     * byte in the IPv4 header (ToS) or IPv6 header that has the DSCP in its upper six bits and ECN
     * in its lower two. Switches and NICs choose the lossless class (PFC) and congestion marking by
     * it; on most NICs only the DSCP counts, and the NIC sets the ECN bits itself.
     *
     * <p>By IP address the connecting side also passes it to the connection manager ({@code
     * RDMA_OPTION_ID_TOS}), whose own messages then carry it, too. An accepting side without this
     * option uses the traffic class in the peer's request, whatever was set for its listener. With
     * the option it uses its own value, so the two directions may differ. Without the option on
     * both sides, the kernel's default applies ({@code default_roce_tos} in configfs, usually 0);
     * by address it is 0.
     *
     * <p>On InfiniBand, the connection manager asks the subnet manager for a path of this QoS
     * class; packets that stay in their subnet have no traffic class. On iWARP, only what a
     * connecting side asks for is used.
     *
     * @param value 0 to 255
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withTrafficClass(int value) {
        return with(changed -> changed.trafficClass = checked("traffic class", value, 0xFF));
    }

    /**
     * Changes the traffic class to a DSCP, with ECN bits of 0: {@link #withTrafficClass} of four
     * times the value.
     *
     * @param value 0 to 63
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withDscp(int value) {
        if (value < 0 || value > 0x3F) {
            throw new IllegalArgumentException(
                    "A DSCP is 0 to 63, not %d; withTrafficClass takes all eight bits"
                            .formatted(value));
        }
        return withTrafficClass(value << 2);
    }

    /**
     * Changes the service level of packets that this side sends ({@code ah_attr.sl}). On InfiniBand
     * it selects the virtual lane; on RoCE, where NICs have three bits for it, it is the priority
     * in a VLAN tag (PCP). Soft-RoCE ignores it (6.1).
     *
     * <p>By IP address the connection manager derives it: on RoCE from the traffic class, by the
     * priority map of the network interface (which {@code tc} and {@code mlnx_qos} configure), on
     * InfiniBand from the path that the subnet manager gives. This option overrides that for the
     * queue pair of this side only. By address it is 0 without this option. Where the subnet
     * manager's routing avoids deadlocks by service levels, do not choose another.
     *
     * @param level 0 to 15
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withServiceLevel(int level) {
        return with(changed -> changed.serviceLevel = checked("service level", level, 15));
    }

    /**
     * Changes the flow label of packets that this side sends ({@code ah_attr.grh.flow_label}), by
     * which routers choose one of several equal paths. RoCE v2 devices compute the UDP source port
     * from it. Soft-RoCE does only that: its IPv6 headers have a flow label of 0 (6.1).
     *
     * <p>Without this option each connection gets a flow label of its own, computed from its two
     * ports by IP address, and from its two queue pair numbers by address (by Linux, as with a
     * label of 0).
     *
     * @param label 0 to 2^20 - 1
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withFlowLabel(int label) {
        return with(changed -> changed.flowLabel = checked("flow label", label, 0xF_FFFF));
    }

    /**
     * Changes the partition of an InfiniBand connection by address ({@code pkey_index}). Both sides
     * have to choose the same P_Key, whose index may differ between them. The default is index 0.
     * RoCE has only that one, the default P_Key: use VLANs there.
     *
     * <p>By IP address, the connection manager takes the partition from the IP interface, and
     * {@link ConnectionOptions#withPath} refuses this option: connect from the address of an
     * interface in the partition.
     *
     * @param index as in {@code /sys/class/infiniband/DEVICE/ports/PORT/pkeys/INDEX}
     * @return a changed copy of these options
     * @throws IllegalArgumentException for more than 16 bits
     */
    public PathOptions withPkeyIndex(int index) {
        return with(changed -> changed.pkeyIndex = checked("P_Key index", index, 0xFFFF));
    }

    /**
     * Changes the time after which an unacknowledged packet is sent again (the local ACK timeout of
     * verbs). After the last of the {@linkplain #withRetries retries} a request ends in IO_TIMEOUT.
     * Devices round the timeout up to a power of two, and may take four times as long. Without this
     * option, by IP address, the connection manager chooses a timeout for the path: on RoCE 0.5 to
     * 2 s, depending on the kernel and the device, so that IO_TIMEOUT comes after 4 to 15 s on
     * Soft-RoCE, and may take a minute on others. By address it is 67 ms.
     *
     * <p>On a fabric that loses packets this timeout decides the throughput: only this timeout
     * detects the loss of a reply to a read, or of the last packet of a request, and later requests
     * wait meanwhile. A few round trips are enough. The option applies to the requests that this
     * side posts.
     *
     * @param timeout at least 8.192 us; rounded up to 4.096 us times a power of two
     * @return a changed copy of these options
     * @throws IllegalArgumentException for a shorter one
     */
    public PathOptions withAckTimeout(Duration timeout) {
        Duration shortest = ackTimeout(1);
        if (timeout.compareTo(shortest) < 0) {
            throw new IllegalArgumentException(
                    "The acknowledgement timeout must be %s or longer, not %s"
                            .formatted(Text.time(shortest), Text.time(timeout)));
        }
        int exponent = 1;
        while (exponent < LARGEST_ACK_EXPONENT && ackTimeout(exponent).compareTo(timeout) < 0) {
            exponent++;
        }
        int chosen = exponent;
        return with(changed -> changed.ackTimeout = chosen);
    }

    private static Duration ackTimeout(int exponent) {
        return ACK_UNIT.multipliedBy(1L << exponent);
    }

    /**
     * Changes how often an unacknowledged packet is sent again ({@code retry_cnt}) before its
     * request ends in IO_TIMEOUT, and the connection with it. The default is 6; by IP address, the
     * accepting side uses fewer if the peer's request says so. The option applies to the requests
     * that this side posts; by IP address, the connecting side's value is also sent to its peer.
     *
     * @param times 0 to 7; with 7, a request to a peer that vanished never ends on Soft-RoCE (6.1),
     *     whose kernel does not count it down
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withRetries(int times) {
        return with(changed -> changed.retries = checked("retries", times, TIMES));
    }

    /**
     * Changes how often a message of this side is sent again while the peer has no receive posted
     * ({@code rnr_retry}) before it ends in IO_TIMEOUT, and the connection with it. Between two
     * tries this side waits for the time that the peer sets by {@link #withMinRnrTimer}. The
     * default by address is 6, or no limit if the peer's receives are shared; by IP address it is
     * the number that the peer sends, and this library sends the same two. This option changes this
     * side only.
     *
     * @param times 0 to 7, where 7 means without limit
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other values
     */
    public PathOptions withRnrRetries(int times) {
        return with(changed -> changed.rnrRetries = checked("RNR retries", times, TIMES));
    }

    /**
     * Changes how long the peer waits before it sends a message again if this side had no receive
     * posted for it ({@code min_rnr_timer}). The default is 655.36 ms. A short time suits a
     * receiver that is late only for a moment, but uses up the peer's {@linkplain #withRnrRetries
     * RNR retries} sooner.
     *
     * @param time longer than zero, and up to 655.36 ms; rounded up to the next of the 32 times
     *     that verbs has, of which the shortest is 10 us
     * @return a changed copy of these options
     * @throws IllegalArgumentException for other times
     */
    public PathOptions withMinRnrTimer(Duration time) {
        if (!time.isPositive() || time.compareTo(rnrTimer(LONGEST_RNR_TIMER)) > 0) {
            throw new IllegalArgumentException(
                    "The minimum RNR timer is longer than zero and at most %s, not %s"
                            .formatted(Text.time(rnrTimer(LONGEST_RNR_TIMER)), Text.time(time)));
        }
        int code = 1;
        while (rnrTimer(code).compareTo(time) < 0) {
            code++;
        }
        int chosen = code % LONGEST_RNR_TIMER;
        return with(changed -> changed.minRnrTimer = chosen);
    }

    /** 10 us times 1, 2, 3, 4, 6, 8, 12, 16 and so on to 2^16, which has the code 0. */
    private static Duration rnrTimer(int code) {
        int n = code == 0 ? LONGEST_RNR_TIMER : code;
        long units = n == 1 ? 1 : n % 2 == 0 ? 1L << n / 2 : 3L << (n - 3) / 2;
        return RNR_UNIT.multipliedBy(units);
    }

    // ---- for this library

    /** Sets the chosen attributes that belong to this step. */
    void applyTo(StateChange change) {
        if (change.state() == StateChange.READY_TO_RECEIVE) {
            set(change, Attribute.TRAFFIC_CLASS, trafficClass);
            set(change, Attribute.SERVICE_LEVEL, serviceLevel);
            set(change, Attribute.FLOW_LABEL, flowLabel);
            set(change, Attribute.PKEY_INDEX, pkeyIndex);
            set(change, Attribute.MIN_RNR_TIMER, minRnrTimer);
        } else if (change.state() == StateChange.READY_TO_SEND) {
            set(change, Attribute.ACK_TIMEOUT, ackTimeout);
            set(change, Attribute.RETRIES, retries);
            set(change, Attribute.RNR_RETRIES, rnrRetries);
        }
    }

    private static void set(StateChange change, Attribute attribute, @Nullable Integer value) {
        if (value != null) {
            change.set(attribute, value);
        }
    }

    int trafficClass(int otherwise) {
        return Objects.requireNonNullElse(trafficClass, otherwise);
    }

    int retries(int otherwise) {
        return Objects.requireNonNullElse(retries, otherwise);
    }

    boolean hasPkeyIndex() {
        return pkeyIndex != null;
    }

    /** The advice at the end of the message of a step that failed. */
    String advice(String first) {
        return equals(DEFAULTS)
                ? first
                : "%s This was asked for: %s".formatted(first, this).strip();
    }

    private static void ifChosen(@Nullable Integer value, IntConsumer action) {
        if (value != null) {
            action.accept(value);
        }
    }

    @Override
    public String toString() {
        StringJoiner text = new StringJoiner(", ", "PathOptions(", ")");
        ifChosen(trafficClass, value -> text.add("traffic class " + value));
        ifChosen(serviceLevel, value -> text.add("service level " + value));
        ifChosen(flowLabel, value -> text.add("flow label " + value));
        ifChosen(pkeyIndex, value -> text.add("P_Key index " + value));
        ifChosen(minRnrTimer, code -> text.add("minimum RNR timer " + Text.time(rnrTimer(code))));
        ifChosen(
                ackTimeout,
                exponent -> text.add("acknowledged within " + Text.time(ackTimeout(exponent))));
        ifChosen(retries, value -> text.add("retries " + value));
        ifChosen(
                rnrRetries,
                value -> text.add("RNR retries " + (value == UNLIMITED ? "unlimited" : value)));
        return text.toString();
    }
}
