package dev.verbena.internal.verbs;

import dev.verbena.QueuePairLimits;

/**
 * The sizes that {@code ibv_create_qp} takes: {@code struct ibv_qp_cap}.
 *
 * @param receiveDepth max_recv_wr; 0 with a shared receive queue
 * @param receiveSge max_recv_sge; 0 with a shared receive queue
 */
public record QueuePairShape(
        int sendDepth, int receiveDepth, int sendSge, int receiveSge, int inlineBytes) {
    /**
     * The sizes of a queue pair.
     *
     * @param internal how many requests the library itself may have in the send queue
     * @param sharesReceives whether it takes its receives from a shared queue
     */
    public static QueuePairShape of(QueuePairLimits limits, int internal, boolean sharesReceives) {
        return new QueuePairShape(
                limits.initiatorDepth() + internal,
                sharesReceives ? 0 : limits.receiveDepth(),
                limits.maxInitiatorBuffers(),
                sharesReceives ? 0 : limits.maxReceiveBuffers(),
                limits.maxInlineBytes());
    }
}
