package dev.verbena;

/**
 * Where a queue pair can be reached and what its side can do: what the two sides of a connection
 * tell each other, over whatever channel they have.
 *
 * @param queuePairNumber its number on its device, 24 bits
 * @param firstSequenceNumber the number its first packet will carry, 24 bits
 * @param gid its port's GID
 * @param lid its port's LID; 0 on Ethernet
 * @param mtuBytes the largest packet's payload it can take
 * @param inboundReads how many reads and atomics it lets in at once; with 0 none succeeds
 * @param invalidatable whether it has windows whose tokens {@link QueuePair#sendAndInvalidate} can
 *     kill; without, that is refused
 * @param sharedReceives whether its receives come from a shared queue: its peers then wait for one
 *     as long as it takes, where a queue pair with a queue of its own must have one within about 4
 *     s. Soft-RoCE gives up after about 4 s all the same: while it waits for a receive it also
 *     counts its retries of unanswered packets down (seen on 6.1)
 */
public record QueuePairAddress(
        int queuePairNumber,
        int firstSequenceNumber,
        Gid gid,
        int lid,
        int mtuBytes,
        int inboundReads,
        boolean invalidatable,
        boolean sharedReceives) {
    /** Checks what came from elsewhere: 24-bit numbers, a 16-bit LID, an MTU that exists. */
    public QueuePairAddress {
        if ((queuePairNumber | firstSequenceNumber) >>> 24 != 0
                || lid >>> 16 != 0
                || mtuBytes < 256
                || mtuBytes > 4096
                || inboundReads < 0) {
            throw new IllegalArgumentException(
                    "This is no queue pair's address: number %d, sequence number %d, LID %d, MTU %d, %d reads"
                            .formatted(
                                    queuePairNumber,
                                    firstSequenceNumber,
                                    lid,
                                    mtuBytes,
                                    inboundReads));
        }
    }
}
