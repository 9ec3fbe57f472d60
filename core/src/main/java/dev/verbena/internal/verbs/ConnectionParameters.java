package dev.verbena.internal.verbs;

/**
 * The parameters of {@code rdma_connect} and {@code rdma_accept}, sent to the peer: {@code struct
 * rdma_conn_param}.
 *
 * @param inboundReads how many reads and atomics the peer may have outstanding towards this side, 0
 *     to 255 ({@code responder_resources})
 * @param outboundReads how many reads and atomics this side wants to have outstanding, 0 to 255
 *     ({@code initiator_depth})
 * @param retries how often an unacknowledged packet is sent again, 0 to 7; the value of the
 *     connecting side applies to both
 * @param rnrRetries how often the <em>peer</em> tries again when no receive is posted here, 0 to 7;
 *     7 means without limit
 */
public record ConnectionParameters(
        int queuePairNumber,
        boolean sharedReceives,
        int inboundReads,
        int outboundReads,
        int retries,
        int rnrRetries,
        byte[] data) {}
