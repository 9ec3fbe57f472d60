package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.util.Objects;
import java.util.function.Consumer;

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
public final class QueuePairLimits {
    private static final int READS = 16; // a common limit of NICs
    private static final int DEFERRED = 64;

    private final int initiatorDepth;
    private final int receiveDepth;
    private final int maxInitiatorBuffers;
    private final int maxReceiveBuffers;
    private final int maxInlineBytes;
    private final int inboundReads;
    private final int outboundReads;
    private final int maxDeferred;

    /** The numbers while they are being changed. */
    private static final class Draft {
        private int initiatorDepth;
        private int receiveDepth;
        private int maxInitiatorBuffers = 1;
        private int maxReceiveBuffers = 1;
        private int maxInlineBytes;
        private int inboundReads = READS;
        private int outboundReads = READS;
        private int maxDeferred = DEFERRED;
    }

    private QueuePairLimits(Draft draft) {
        this.initiatorDepth = checked("initiator depth", draft.initiatorDepth, 1);
        this.receiveDepth = checked("receive depth", draft.receiveDepth, 1);
        this.maxInitiatorBuffers =
                checked("number of buffers of an initiator request", draft.maxInitiatorBuffers, 1);
        this.maxReceiveBuffers =
                checked("number of buffers of a receive", draft.maxReceiveBuffers, 1);
        this.maxInlineBytes = checked("number of inline bytes", draft.maxInlineBytes, 0);
        this.inboundReads = checked("number of inbound reads", draft.inboundReads, 0);
        this.outboundReads = checked("number of outbound reads", draft.outboundReads, 0);
        this.maxDeferred = checked("number of deferred requests", draft.maxDeferred, 0);
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
        Draft draft = new Draft();
        draft.initiatorDepth = initiatorDepth;
        draft.receiveDepth = receiveDepth;
        return new QueuePairLimits(draft);
    }

    private QueuePairLimits with(Consumer<Draft> change) {
        Draft draft = new Draft();
        draft.initiatorDepth = initiatorDepth;
        draft.receiveDepth = receiveDepth;
        draft.maxInitiatorBuffers = maxInitiatorBuffers;
        draft.maxReceiveBuffers = maxReceiveBuffers;
        draft.maxInlineBytes = maxInlineBytes;
        draft.inboundReads = inboundReads;
        draft.outboundReads = outboundReads;
        draft.maxDeferred = maxDeferred;
        change.accept(draft);
        return new QueuePairLimits(draft);
    }

    /**
     * Changes how many send queue requests may be outstanding.
     *
     * @param requests how many, at least 1
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for less than 1
     */
    public QueuePairLimits withInitiatorDepth(int requests) {
        return with(draft -> draft.initiatorDepth = requests);
    }

    /**
     * Changes how many receives may be posted.
     *
     * @param receives how many, at least 1
     * @return a changed copy of these limits
     * @throws IllegalArgumentException for less than 1
     */
    public QueuePairLimits withReceiveDepth(int receives) {
        return with(draft -> draft.receiveDepth = receives);
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
                draft -> {
                    draft.maxInitiatorBuffers = initiator;
                    draft.maxReceiveBuffers = receive;
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
        return with(draft -> draft.maxInlineBytes = bytes);
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
                draft -> {
                    draft.inboundReads = inbound;
                    draft.outboundReads = outbound;
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
        return with(draft -> draft.maxDeferred = requests);
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

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof QueuePairLimits that
                && initiatorDepth == that.initiatorDepth
                && receiveDepth == that.receiveDepth
                && maxInitiatorBuffers == that.maxInitiatorBuffers
                && maxReceiveBuffers == that.maxReceiveBuffers
                && maxInlineBytes == that.maxInlineBytes
                && inboundReads == that.inboundReads
                && outboundReads == that.outboundReads
                && maxDeferred == that.maxDeferred;
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                initiatorDepth,
                receiveDepth,
                maxInitiatorBuffers,
                maxReceiveBuffers,
                maxInlineBytes,
                inboundReads,
                outboundReads,
                maxDeferred);
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
