package dev.verbena;

/**
 * Where a queue pair can be reached: what the two sides of a connection tell each other, over
 * whatever channel they have.
 *
 * @param queuePairNumber its number on its device, 24 bits
 * @param firstSequenceNumber the number its first packet will carry, 24 bits
 * @param gid its port's GID
 * @param lid its port's LID; 0 on Ethernet
 * @param mtuBytes the largest packet's payload it can take
 */
public record QueuePairAddress(
        int queuePairNumber, int firstSequenceNumber, Gid gid, int lid, int mtuBytes) {
    /** Checks what came from elsewhere: 24-bit numbers, a 16-bit LID, an MTU that exists. */
    public QueuePairAddress {
        if ((queuePairNumber | firstSequenceNumber) >>> 24 != 0
                || lid >>> 16 != 0
                || mtuBytes < 256
                || mtuBytes > 4096) {
            throw new IllegalArgumentException(
                    "This is no queue pair's address: number %d, sequence number %d, LID %d, MTU %d"
                            .formatted(queuePairNumber, firstSequenceNumber, lid, mtuBytes));
        }
    }
}
