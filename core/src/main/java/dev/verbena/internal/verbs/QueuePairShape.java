package dev.verbena.internal.verbs;

/**
 * The sizes that {@code ibv_create_qp} takes: {@code struct ibv_qp_cap}.
 *
 * @param receiveDepth max_recv_wr; 0 with a shared receive queue
 * @param receiveSge max_recv_sge; 0 with a shared receive queue
 */
public record QueuePairShape(
        int sendDepth, int receiveDepth, int sendSge, int receiveSge, int inlineBytes) {}
