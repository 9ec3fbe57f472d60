package dev.verbena;

/**
 * How deep and how wide a queue pair is, as NdkCreateQp takes it. Posts beyond a limit fail by what
 * was asked for here, not by what a device may have rounded it up to.
 *
 * <p>Start from {@link #depths} and change what differs: {@code QueuePairLimits.depths(64,
 * 64).withBuffers(4, 1).withInlineBytes(128)}.
 *
 * @param initiatorDepth how many initiator requests may be under way (InitiatorQueueDepth)
 * @param receiveDepth how many receives may be posted (ReceiveQueueDepth); of no meaning with a
 *     shared receive queue
 * @param maxInitiatorBuffers how many buffers an initiator request may name
 *     (MaxInitiatorRequestSge); reads not more than {@link AdapterInfo#maxReadBuffers} either
 * @param maxReceiveBuffers how many buffers a receive may name (MaxReceiveRequestSge); of no
 *     meaning with a shared receive queue
 * @param maxInlineBytes how many bytes a request may carry inline (InlineDataSize)
 * @param inboundReads how many reads and atomics of the peer may be under way towards here
 *     (InboundReadLimit), silently capped by the device; 0 lets the peer read nothing
 * @param outboundReads how many reads and atomics from here may be under way (OutboundReadLimit),
 *     silently capped by the device and by what the peer lets in; more are posted, and wait
 * @param maxDeferred how many requests may wait for each other with {@link OpFlags#DEFER}; 0 posts
 *     each at once, with the same results
 */
public record QueuePairLimits(
        int initiatorDepth,
        int receiveDepth,
        int maxInitiatorBuffers,
        int maxReceiveBuffers,
        int maxInlineBytes,
        int inboundReads,
        int outboundReads,
        int maxDeferred) {
    private static final int READS = 16; // what NICs commonly have
    private static final int DEFERRED = 64;

    /**
     * Limits with one buffer for each request, nothing inline, 16 reads each way, and up to 64
     * deferred requests.
     *
     * @param initiatorDepth how many initiator requests may be under way
     * @param receiveDepth how many receives may be posted
     * @return the limits
     */
    public static QueuePairLimits depths(int initiatorDepth, int receiveDepth) {
        return new QueuePairLimits(initiatorDepth, receiveDepth, 1, 1, 0, READS, READS, DEFERRED);
    }

    /**
     * Changes how many buffers requests may name.
     *
     * @param initiator for initiator requests
     * @param receive for receives
     * @return these limits, otherwise the same
     */
    public QueuePairLimits withBuffers(int initiator, int receive) {
        return new QueuePairLimits(
                initiatorDepth,
                receiveDepth,
                initiator,
                receive,
                maxInlineBytes,
                inboundReads,
                outboundReads,
                maxDeferred);
    }

    /**
     * Changes how many bytes a request may carry inline.
     *
     * @param bytes how many
     * @return these limits, otherwise the same
     */
    public QueuePairLimits withInlineBytes(int bytes) {
        return new QueuePairLimits(
                initiatorDepth,
                receiveDepth,
                maxInitiatorBuffers,
                maxReceiveBuffers,
                bytes,
                inboundReads,
                outboundReads,
                maxDeferred);
    }

    /**
     * Changes how many reads and atomics may be under way.
     *
     * @param inbound towards here
     * @param outbound from here
     * @return these limits, otherwise the same
     */
    public QueuePairLimits withReads(int inbound, int outbound) {
        return new QueuePairLimits(
                initiatorDepth,
                receiveDepth,
                maxInitiatorBuffers,
                maxReceiveBuffers,
                maxInlineBytes,
                inbound,
                outbound,
                maxDeferred);
    }

    /**
     * Changes how many requests may wait for each other.
     *
     * @param requests how many; 0 turns deferral off
     * @return these limits, otherwise the same
     */
    public QueuePairLimits withMaxDeferred(int requests) {
        return new QueuePairLimits(
                initiatorDepth,
                receiveDepth,
                maxInitiatorBuffers,
                maxReceiveBuffers,
                maxInlineBytes,
                inboundReads,
                outboundReads,
                requests);
    }

    /** Checks that depths and buffers are 1 or more, and the others not negative. */
    public QueuePairLimits {
        if (Math.min(
                        Math.min(initiatorDepth, receiveDepth),
                        Math.min(maxInitiatorBuffers, maxReceiveBuffers))
                < 1) {
            throw new IllegalArgumentException(
                    "Depths and numbers of buffers of a queue pair are 1 or more");
        }
        if (Math.min(Math.min(maxInlineBytes, maxDeferred), Math.min(inboundReads, outboundReads))
                < 0) {
            throw new IllegalArgumentException("No limit of a queue pair is negative");
        }
    }
}
