package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * Where a queue pair can be reached and what its side can do: what the two sides of a connection
 * tell each other, over whatever channel they have.
 *
 * <p>{@link QueuePair#address} makes one of this side. One of a peer is put together from what the
 * peer sent:
 *
 * {@snippet :
 * QueuePairAddress peer = QueuePairAddress.of(number, sequenceNumber, gid, mtuBytes).withInboundReads(16);
 * }
 *
 * <p>Immutable. Addresses with the same parts are equal.
 */
@CheckReturnValue
public final class QueuePairAddress {
    private static final int SMALLEST_MTU = 256;
    private static final int LARGEST_MTU = 4096;

    private final int queuePairNumber;
    private final int firstSequenceNumber;
    private final Gid gid;
    private final int lid;
    private final int mtuBytes;
    private final int inboundReads;
    private final boolean invalidatable;
    private final boolean sharedReceives;

    private QueuePairAddress(
            int queuePairNumber,
            int firstSequenceNumber,
            Gid gid,
            int lid,
            int mtuBytes,
            int inboundReads,
            boolean invalidatable,
            boolean sharedReceives) {
        this.queuePairNumber = checked("queue pair number", queuePairNumber, 0, 0xFF_FFFF);
        this.firstSequenceNumber = checked("sequence number", firstSequenceNumber, 0, 0xFF_FFFF);
        this.gid = Objects.requireNonNull(gid, "gid");
        this.lid = checked("LID", lid, 0, 0xFFFF);
        this.mtuBytes = checked("MTU", mtuBytes, SMALLEST_MTU, LARGEST_MTU);
        this.inboundReads = checked("number of inbound reads", inboundReads, 0, Integer.MAX_VALUE);
        this.invalidatable = invalidatable;
        this.sharedReceives = sharedReceives;
    }

    private static int checked(String what, int number, int least, int most) {
        if (number < least || number > most) {
            throw new IllegalArgumentException(
                    "This is no queue pair's address: its %s is %d, and those are from %d to %d"
                            .formatted(what, number, least, most));
        }
        return number;
    }

    /**
     * The address of a queue pair without a LID, that lets in no reads, has no tokens that can be
     * invalidated, and has a receive queue of its own.
     *
     * @param queuePairNumber its number on its device, 24 bits
     * @param firstSequenceNumber the number that its first packet will carry, 24 bits
     * @param gid its port's GID
     * @param mtuBytes the largest payload of a packet that it can take, 256 to 4096
     * @return the address
     * @throws IllegalArgumentException for numbers that no queue pair has
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
     * @return this address, otherwise the same
     * @throws IllegalArgumentException for more than 16 bits
     */
    public QueuePairAddress withLid(int portLid) {
        return new QueuePairAddress(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                portLid,
                mtuBytes,
                inboundReads,
                invalidatable,
                sharedReceives);
    }

    /**
     * Changes how many reads and atomics it lets in at once.
     *
     * @param reads how many; with 0 none succeeds
     * @return this address, otherwise the same
     * @throws IllegalArgumentException for a negative number
     */
    public QueuePairAddress withInboundReads(int reads) {
        return new QueuePairAddress(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                lid,
                mtuBytes,
                reads,
                invalidatable,
                sharedReceives);
    }

    /**
     * Changes whether it has tokens that {@link QueuePair#sendAndInvalidate} may invalidate.
     *
     * @param whether true for a peer that can take such messages
     * @return this address, otherwise the same
     */
    public QueuePairAddress withInvalidatable(boolean whether) {
        return new QueuePairAddress(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                lid,
                mtuBytes,
                inboundReads,
                whether,
                sharedReceives);
    }

    /**
     * Changes whether its receives come from a shared queue.
     *
     * @param whether as {@link #sharedReceives}
     * @return this address, otherwise the same
     */
    public QueuePairAddress withSharedReceives(boolean whether) {
        return new QueuePairAddress(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                lid,
                mtuBytes,
                inboundReads,
                invalidatable,
                whether);
    }

    /**
     * Its number on its device.
     *
     * @return 24 bits
     */
    public int queuePairNumber() {
        return queuePairNumber;
    }

    /**
     * The number that its first packet will carry.
     *
     * @return 24 bits
     */
    public int firstSequenceNumber() {
        return firstSequenceNumber;
    }

    /**
     * Its port's GID.
     *
     * @return all zeros on InfiniBand, where the LID is enough
     */
    public Gid gid() {
        return gid;
    }

    /**
     * Its port's LID.
     *
     * @return 16 bits; 0 on Ethernet
     */
    public int lid() {
        return lid;
    }

    /**
     * The largest payload of a packet that it can take.
     *
     * @return 256 to 4096
     */
    public int mtuBytes() {
        return mtuBytes;
    }

    /**
     * How many reads and atomics it lets in at once.
     *
     * @return 0 or more; with 0 none succeeds
     */
    public int inboundReads() {
        return inboundReads;
    }

    /**
     * Whether it has windows whose tokens {@link QueuePair#sendAndInvalidate} can invalidate.
     *
     * @return false for one to which {@link QueuePair#sendAndInvalidate} is refused
     */
    public boolean invalidatable() {
        return invalidatable;
    }

    /**
     * Whether its receives come from a shared queue. Its peers then wait for a receive as long as
     * it takes, where a queue pair with a queue of its own must have one within about 4 s.
     * Soft-RoCE gives up after about 4 s all the same: while it waits for a receive it also counts
     * its retries of unanswered packets down (seen on 6.1).
     *
     * @return false for a receive queue of its own
     */
    public boolean sharedReceives() {
        return sharedReceives;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof QueuePairAddress that
                && queuePairNumber == that.queuePairNumber
                && firstSequenceNumber == that.firstSequenceNumber
                && gid.equals(that.gid)
                && lid == that.lid
                && mtuBytes == that.mtuBytes
                && inboundReads == that.inboundReads
                && invalidatable == that.invalidatable
                && sharedReceives == that.sharedReceives;
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                queuePairNumber,
                firstSequenceNumber,
                gid,
                lid,
                mtuBytes,
                inboundReads,
                invalidatable,
                sharedReceives);
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
