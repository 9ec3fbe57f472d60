package dev.verbena;

/**
 * What a device can do: NDK_ADAPTER_INFO, and what verbs has beyond it. The limits of queue pairs
 * hold together: one with all of them was made when this was asked for first.
 *
 * @param maxRegistrationBytes the largest region (MaxRegistrationSize)
 * @param maxWindowBytes the largest window, 0 without windows (MaxWindowSize)
 * @param maxInitiatorBuffers the most buffers of an initiator request (MaxInitiatorRequestSge)
 * @param maxReceiveBuffers the most buffers of a receive (MaxReceiveRequestSge)
 * @param maxReadBuffers the most buffers of a read (MaxReadRequestSge)
 * @param maxTransferBytes the longest message, write or read (MaxTransferLength)
 * @param maxInlineBytes the most bytes inline (MaxInlineDataSize); verbs cannot be asked, so this
 *     was found by trying, up to 4096
 * @param maxInboundReads the most reads of a peer at once (MaxInboundReadLimit)
 * @param maxOutboundReads the most reads at once (MaxOutboundReadLimit)
 * @param maxInitiatorDepth the deepest initiator queue (MaxInitiatorQueueDepth), up to 8192
 * @param maxReceiveDepth the deepest receive queue (MaxReceiveQueueDepth), up to 8192
 * @param maxSharedReceiveDepth the deepest shared receive queue, 0 without any (MaxSrqDepth), up to
 *     8192
 * @param maxSharedReceiveBuffers the most buffers of a receive in one
 * @param maxCompletionQueueDepth the deepest completion queue (MaxCqDepth): half of the device's,
 *     which leaves room for the signals of silent requests
 * @param completionQueueResize whether {@link CompletionQueue#resize} works (CQ_RESIZE)
 * @param sendsWithInvalidate whether {@link QueuePair#sendAndInvalidate} works, towards a peer that
 *     can take it
 * @param invalidatableWindows whether {@link ProtectionDomain#createMemoryWindow} works, and with
 *     it a peer's send with invalidate
 * @param atomics beyond NDK: whether {@link QueuePair#compareAndSwap} and {@link
 *     QueuePair#fetchAndAdd} work
 * @param immediateData beyond NDK: whether {@link QueuePair#sendWithImmediate} and {@link
 *     QueuePair#writeWithImmediate} work; they do not on iWARP
 * @param readSinkRequired whether memory that reads write into has to be registered with {@link
 *     Access#RDMA_READ_SINK}, as on iWARP; without the right, reads into it fail there
 */
public record AdapterInfo(
        long maxRegistrationBytes,
        long maxWindowBytes,
        int maxInitiatorBuffers,
        int maxReceiveBuffers,
        int maxReadBuffers,
        long maxTransferBytes,
        int maxInlineBytes,
        int maxInboundReads,
        int maxOutboundReads,
        int maxInitiatorDepth,
        int maxReceiveDepth,
        int maxSharedReceiveDepth,
        int maxSharedReceiveBuffers,
        int maxCompletionQueueDepth,
        boolean completionQueueResize,
        boolean sendsWithInvalidate,
        boolean invalidatableWindows,
        boolean atomics,
        boolean immediateData,
        boolean readSinkRequired) {
    private static final int RDMA_READ_SINK_NOT_REQUIRED = 0x2;
    private static final int CQ_RESIZE = 0x100;
    private static final int LOOPBACK_CONNECTIONS = 0x10000;

    /**
     * NDK_ADAPTER_FLAG_*: LOOPBACK_CONNECTIONS, RDMA_READ_SINK_NOT_REQUIRED but for iWARP, and
     * CQ_RESIZE where it works. Never IN_ORDER_DMA, which verbs does not tell,
     * CQ_INTERRUPT_MODERATION, MULTI_ENGINE and RDMA_READ_LOCAL_INVALIDATE.
     *
     * @return the flags
     */
    public int flags() {
        return (readSinkRequired ? 0 : RDMA_READ_SINK_NOT_REQUIRED)
                | LOOPBACK_CONNECTIONS
                | (completionQueueResize ? CQ_RESIZE : 0);
    }

    /**
     * How many pages a fast registration takes (FRMRPageCount).
     *
     * @return 0: programs cannot register by a request under verbs
     */
    public int fastRegistrationPages() {
        return 0;
    }
}
