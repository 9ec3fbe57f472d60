package dev.verbena;

/**
 * What the peer said last: with its request, its answer, or its refusal (NdkGetConnectionData).
 *
 * @param privateData its program's bytes
 * @param exact whether {@code privateData} has just the length that was sent, which peers of this
 *     library announce; otherwise zeros may follow, up to what the transport carries
 * @param invalidatable whether {@link QueuePair#sendAndInvalidate} may kill its tokens
 * @param inboundReads how many of its reads and atomics may be under way towards here: what it
 *     asked for, capped by this adapter
 * @param outboundReads how many reads and atomics may be under way towards it: what it lets in,
 *     capped by this adapter. The limits of this side's queue pair cap both once more
 */
public record ConnectionData(
        byte[] privateData,
        boolean exact,
        boolean invalidatable,
        int inboundReads,
        int outboundReads) {}
