package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.OptionValues;

import java.util.List;

/**
 * How many requests, buffers and inline bytes a queue pair can hold: the parameters of NdkCreateQp.
 * Posts beyond a limit are refused, even if the device has rounded the limit up.
 *
 * <p>Start from {@link #depths} and change what differs:
 *
 * {@snippet :
 * QueuePairLimits limits = QueuePairLimits.depths(64, 64).withBuffers(4, 1).withInlineBytes(128);
 * }
 *
 * <p>There is no separate builder: only the two depths have no default, so {@link #depths} requires
 * them, and each {@code with…} method returns a changed copy. {@link ConnectionOptions} works the
 * same way.
 *
 * <p>Immutable. Limits with the same numbers are equal.
 */
@CheckReturnValue
public final class QueuePairLimits extends OptionValues<QueuePairLimits> {
    private static final int READS = 16; // a common limit of NICs
    private static final int DEFERRED = 64;

    private int initiatorDepth;
    private int receiveDepth;
    private int maxInitiatorBuffers = 1;
    private int maxReceiveBuffers = 1;
    private int maxInlineBytes;
    private int inboundReads = READS;
    private int outboundReads = READS;
    private int maxDeferred = DEFERRED;

    private QueuePairLimits() {
        super(
                o ->
                        List.of(
                                o.initiatorDepth,
                                o.receiveDepth,
                                o.maxInitiatorBuffers,
                                o.maxReceiveBuffers,
                                o.maxInlineBytes,
                                o.inboundReads,
                                o.outboundReads,
                                o.maxDeferred));
    }

    private static int checked(String what, int number, int least) {
        if (number < least) {
            throw new IllegalArgumentException(
                    "The %s of a queue pair is %d or more, not %d".formatted(what, least, number));
        }
        return number;
    }

    /**
     * Limits with one buffer for each request, nothing inline, 16 reads each way, and up to 64
     * deferred requests.
     *
     * @param initiatorDepth how many requests may be outstanding in the send queue (NDK: initiator
     *     queue), at least 1
     * @param receiveDepth how many receives may be posted, at least 1
     * @return the limits
     * @throws IllegalArgumentException for a depth below 1
     */
    public static QueuePairLimits depths(int initiatorDepth, int receiveDepth) {
        return new QueuePairLimits()
                .withInitiatorDepth(initiatorDepth)
                .withReceiveDepth(receiveDepth);
    }

    /**
     * Changes how many send queue requests may be outstanding.
     *
     * @param requests how many, at least 1
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for less than 1
     */
    public QueuePairLimits withInitiatorDepth(int requests) {
        return with(changed -> changed.initiatorDepth = checked("initiator depth", requests, 1));
    }

    /**
     * Changes how many receives may be posted.
     *
     * @param receives how many, at least 1
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for less than 1
     */
    public QueuePairLimits withReceiveDepth(int receives) {
        return with(changed -> changed.receiveDepth = checked("receive depth", receives, 1));
    }

    /**
     * Changes how many buffers a request may name.
     *
     * @param initiator for send queue requests, at least 1
     * @param receive for receives, at least 1
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for less than 1
     */
    public QueuePairLimits withBuffers(int initiator, int receive) {
        return with(
                changed -> {
                    changed.maxInitiatorBuffers =
                            checked("number of buffers of an initiator request", initiator, 1);
                    changed.maxReceiveBuffers =
                            checked("number of buffers of a receive", receive, 1);
                });
    }

    /**
     * Changes how many bytes a request may carry inline.
     *
     * @param bytes how many, or 0 for none
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for a negative number
     */
    public QueuePairLimits withInlineBytes(int bytes) {
        return with(
                changed -> changed.maxInlineBytes = checked("number of inline bytes", bytes, 0));
    }

    /**
     * Changes how many reads and atomics may be outstanding.
     *
     * @param inbound those of the peer, towards this queue pair; with 0 the peer cannot read
     * @param outbound those posted to this queue pair
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for a negative number
     */
    public QueuePairLimits withReads(int inbound, int outbound) {
        return with(
                changed -> {
                    changed.inboundReads = checked("number of inbound reads", inbound, 0);
                    changed.outboundReads = checked("number of outbound reads", outbound, 0);
                });
    }

    /**
     * Changes how many requests with {@link OpFlags#DEFER} may be held back. The memory for them is
     * allocated when the first is deferred.
     *
     * @param requests how many; 0 turns deferral off
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for a negative number
     */
    public QueuePairLimits withMaxDeferred(int requests) {
        return with(
                changed ->
                        changed.maxDeferred = checked("number of deferred requests", requests, 0));
    }

    /**
     * How many send queue requests may be outstanding (InitiatorQueueDepth).
     *
     * @return 1 or more
     */
    public int initiatorDepth() {
        return initiatorDepth;
    }

    /**
     * How many receives may be posted (ReceiveQueueDepth). Ignored for a queue pair with a shared
     * receive queue.
     *
     * @return 1 or more
     */
    public int receiveDepth() {
        return receiveDepth;
    }

    /**
     * How many buffers a send queue request may name (MaxInitiatorRequestSge). A read is also
     * limited by {@link AdapterInfo#maxReadBuffers}.
     *
     * @return 1 or more
     */
    public int maxInitiatorBuffers() {
        return maxInitiatorBuffers;
    }

    /**
     * How many buffers a receive may name (MaxReceiveRequestSge). Ignored for a queue pair with a
     * shared receive queue.
     *
     * @return 1 or more
     */
    public int maxReceiveBuffers() {
        return maxReceiveBuffers;
    }

    /**
     * How many bytes a request may carry inline (InlineDataSize).
     *
     * @return 0 or more
     */
    public int maxInlineBytes() {
        return maxInlineBytes;
    }

    /**
     * How many reads and atomics of the peer may be outstanding towards this queue pair
     * (InboundReadLimit). A lower limit of the device applies without an error. With 0 the peer
     * cannot read.
     *
     * @return 0 or more
     */
    public int inboundReads() {
        return inboundReads;
    }

    /**
     * How many reads and atomics of this queue pair may be outstanding at the device
     * (OutboundReadLimit). A lower limit of the device or of the peer applies without an error.
     * More may be posted; the device executes them as earlier ones complete.
     *
     * @return 0 or more
     */
    public int outboundReads() {
        return outboundReads;
    }

    /**
     * How many requests with {@link OpFlags#DEFER} may be held back. With 0 each is posted
     * immediately; the results are the same.
     *
     * @return 0 or more
     */
    public int maxDeferred() {
        return maxDeferred;
    }

    /** Throws when a device does not support them. */
    void check(AdapterInfo info, String device, boolean sharesReceives) {
        boolean receivesFit =
                sharesReceives
                        || (receiveDepth() <= info.maxReceiveDepth()
                                && maxReceiveBuffers() <= info.maxReceiveBuffers());
        if (!receivesFit
                || initiatorDepth() > info.maxInitiatorDepth()
                || maxInitiatorBuffers() > info.maxInitiatorBuffers()
                || maxInlineBytes() > info.maxInlineBytes()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "A queue pair of %s has at most %d initiator requests with %d buffers and %d bytes inline, and %d receives with %d buffers; asked for: %s"
                            .formatted(
                                    device,
                                    info.maxInitiatorDepth(),
                                    info.maxInitiatorBuffers(),
                                    info.maxInlineBytes(),
                                    info.maxReceiveDepth(),
                                    info.maxReceiveBuffers(),
                                    this));
        }
    }

    @Override
    public String toString() {
        return "QueuePairLimits(%d initiator requests of %d buffers and %d inline bytes, %d receives of %d buffers, %d reads in, %d reads out, %d deferred)"
                .formatted(
                        initiatorDepth,
                        maxInitiatorBuffers,
                        maxInlineBytes,
                        receiveDepth,
                        maxReceiveBuffers,
                        inboundReads,
                        outboundReads,
                        maxDeferred);
    }
}
