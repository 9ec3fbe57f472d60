package dev.verbena;

/**
 * How deep and how wide a queue pair is, as NdkCreateQp takes it. Posts beyond a limit fail by what
 * was asked for here, not by what a device may have rounded it up to.
 *
 * @param initiatorDepth how many sends may be under way (InitiatorQueueDepth)
 * @param receiveDepth how many receives may be posted (ReceiveQueueDepth)
 * @param maxInitiatorBuffers how many buffers a send may name (MaxInitiatorRequestSge)
 * @param maxReceiveBuffers how many buffers a receive may name (MaxReceiveRequestSge)
 */
public record QueuePairLimits(
        int initiatorDepth, int receiveDepth, int maxInitiatorBuffers, int maxReceiveBuffers) {
    /**
     * Limits with one buffer for each request.
     *
     * @param initiatorDepth how many sends may be under way
     * @param receiveDepth how many receives may be posted
     * @return the limits
     */
    public static QueuePairLimits depths(int initiatorDepth, int receiveDepth) {
        return new QueuePairLimits(initiatorDepth, receiveDepth, 1, 1);
    }

    /** Checks that each limit is 1 or more. */
    public QueuePairLimits {
        if (Math.min(
                        Math.min(initiatorDepth, receiveDepth),
                        Math.min(maxInitiatorBuffers, maxReceiveBuffers))
                < 1) {
            throw new IllegalArgumentException("Each limit of a queue pair is 1 or more");
        }
    }
}
