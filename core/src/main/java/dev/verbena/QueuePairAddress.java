package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

/**
 * The address and the abilities of a queue pair. Programs that call {@link QueuePair#connect}
 * exchange it with the peer over a channel of their own, such as TCP.
 *
 * <p>{@link QueuePair#address} returns that of this side. Create the peer's from the values that
 * the peer sent:
 *
 * {@snippet :
 * QueuePairAddress peer = QueuePairAddress.of(number, sequenceNumber, gid, mtuBytes).withInboundReads(16);
 * }
 *
 * @param queuePairNumber its number on its device, 24 bits
 * @param firstSequenceNumber the sequence number (PSN) of its first packet, 24 bits
 * @param gid its port's GID; all zeros on InfiniBand, where the LID is enough
 * @param lid its port's LID, 16 bits; 0 on Ethernet
 * @param mtuBytes the largest payload of a packet that it can take, 256 to 4096
 * @param inboundReads how many reads and atomics of its peer it serves at a time; with 0, reads
 *     fail
 * @param invalidatable whether it can have windows whose remote keys (NDK: tokens) {@link
 *     QueuePair#sendAndInvalidate} invalidates. If not, a send with invalidate to it is refused
 * @param sharedReceives whether its receives come from a shared queue. Its peers then wait for a
 *     receive without limit; a queue pair with its own receive queue must have one posted within
 *     about 4 s. Soft-RoCE gives up after about 4 s in both cases: while it waits for a receive, it
 *     also counts down its retries of unacknowledged packets (seen on 6.1)
 */
@CheckReturnValue
public record QueuePairAddress(
        int queuePairNumber,
        int firstSequenceNumber,
        Gid gid,
        int lid,
        int mtuBytes,
        int inboundReads,
        boolean invalidatable,
        boolean sharedReceives) {
    private static final int SMALLEST_MTU = 256;
    private static final int LARGEST_MTU = 4096;

    /**
     * Checks the parts of an address.
     *
     * @throws IllegalArgumentException for numbers that are out of range
     */
    public QueuePairAddress {
        check("queue pair number", queuePairNumber, 0, 0xFF_FFFF);
        check("sequence number", firstSequenceNumber, 0, 0xFF_FFFF);
        Arguments.notNull(gid, "gid");
        check("LID", lid, 0, 0xFFFF);
        check("MTU", mtuBytes, SMALLEST_MTU, LARGEST_MTU);
        check("number of inbound reads", inboundReads, 0, Integer.MAX_VALUE);
    }

    private static void check(String what, int number, int least, int most) {
        if (number < least || number > most) {
            throw new IllegalArgumentException(
                    "This is not the address of a queue pair: its %s is %d, which must be %d to %d"
                            .formatted(what, number, least, most));
        }
    }

    /**
     * Creates an address without a LID, of a queue pair that serves no reads, has no remote keys
     * (NDK: tokens) that can be invalidated, and has its own receive queue.
     *
     * @param queuePairNumber its number on its device, 24 bits
     * @param firstSequenceNumber the number that its first packet will carry, 24 bits
     * @param gid its port's GID
     * @param mtuBytes the largest payload of a packet that it can take, 256 to 4096
     * @return the address
     * @throws IllegalArgumentException for numbers that are out of range
     */
    public static QueuePairAddress of(
            int queuePairNumber, int firstSequenceNumber, Gid gid, int mtuBytes) {
        return new QueuePairAddress(
                queuePairNumber, firstSequenceNumber, gid, 0, mtuBytes, 0, false, false);
    }

    /**
     * Changes the LID, which InfiniBand needs.
     *
     * @param portLid its port's LID, 16 bits
     * @return a changed copy of this address
     * @throws IllegalArgumentException for more than 16 bits
     */
    public QueuePairAddress withLid(int portLid) {
        return with(portLid, inboundReads, invalidatable, sharedReceives);
    }

    /**
     * Changes how many reads and atomics of its peer it serves at a time.
     *
     * @param reads how many; with 0, reads fail
     * @return a changed copy of this address
     * @throws IllegalArgumentException for a negative number
     */
    public QueuePairAddress withInboundReads(int reads) {
        return with(lid, reads, invalidatable, sharedReceives);
    }

    /**
     * Changes whether it has remote keys that {@link QueuePair#sendAndInvalidate} may invalidate.
     *
     * @param whether true for a peer that supports such messages
     * @return a changed copy of this address
     */
    public QueuePairAddress withInvalidatable(boolean whether) {
        return with(lid, inboundReads, whether, sharedReceives);
    }

    /**
     * Changes whether its receives come from a shared queue.
     *
     * @param whether true for a shared receive queue, see {@link #sharedReceives}
     * @return a changed copy of this address
     */
    public QueuePairAddress withSharedReceives(boolean whether) {
        return with(lid, inboundReads, invalidatable, whether);
    }

    private QueuePairAddress with(int portLid, int reads, boolean windows, boolean sharedQueue) {
        return new QueuePairAddress(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                portLid,
                mtuBytes,
                reads,
                windows,
                sharedQueue);
    }

    @Override
    public String toString() {
        return "QueuePairAddress(queue pair %d at %s, first packet %d, MTU %d, %d reads in%s%s)"
                .formatted(
                        queuePairNumber,
                        lid == 0 ? gid : gid + " LID " + lid,
                        firstSequenceNumber,
                        mtuBytes,
                        inboundReads,
                        invalidatable ? ", invalidatable" : "",
                        sharedReceives ? ", shared receives" : "");
    }
}
