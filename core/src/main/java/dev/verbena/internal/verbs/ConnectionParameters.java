package dev.verbena.internal.verbs;

/**
 * What {@code rdma_connect} and {@code rdma_accept} tell the peer: {@code struct rdma_conn_param}.
 *
 * @param queuePairNumber of this side
 * @param sharedReceives whether its receives come from a shared queue
 * @param inboundReads how many reads the peer may have under way towards here, 0 to 255
 * @param outboundReads how many reads this side wants to have under way, 0 to 255
 * @param retries how often a packet without an answer is sent again, 0 to 7; both sides go by what
 *     the connecting one says
 * @param rnrRetries how often the <em>peer</em> tries again when no receive is posted here, 0 to 7;
 *     7 is for ever
 * @param data private data
 */
public record ConnectionParameters(
        int queuePairNumber,
        boolean sharedReceives,
        int inboundReads,
        int outboundReads,
        int retries,
        int rnrRetries,
        byte[] data) {}
