package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

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
        this.gid = Arguments.notNull(gid, "gid");
        this.lid = checked("LID", lid, 0, 0xFFFF);
        this.mtuBytes = checked("MTU", mtuBytes, SMALLEST_MTU, LARGEST_MTU);
        this.inboundReads = checked("number of inbound reads", inboundReads, 0, Integer.MAX_VALUE);
        this.invalidatable = invalidatable;
        this.sharedReceives = sharedReceives;
    }

    private static int checked(String what, int number, int least, int most) {
        if (number < least || number > most) {
            throw new IllegalArgumentException(
                    "This is not the address of a queue pair: its %s is %d, which must be %d to %d"
                            .formatted(what, number, least, most));
        }
        return number;
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
     * Changes how many reads and atomics of its peer it serves at a time.
     *
     * @param reads how many; with 0, reads fail
     * @return a changed copy of this address
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
     * Changes whether it has remote keys that {@link QueuePair#sendAndInvalidate} may invalidate.
     *
     * @param whether true for a peer that supports such messages
     * @return a changed copy of this address
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
     * @param whether true for a shared receive queue, see {@link #sharedReceives}
     * @return a changed copy of this address
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
     * The queue pair number.
     *
     * @return 24 bits
     */
    public int queuePairNumber() {
        return queuePairNumber;
    }

    /**
     * The sequence number (PSN) of its first packet.
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
     * How many reads and atomics of its peer it serves at a time.
     *
     * @return 0 or more; with 0, reads fail
     */
    public int inboundReads() {
        return inboundReads;
    }

    /**
     * Whether it can have windows whose remote keys {@link QueuePair#sendAndInvalidate}
     * invalidates.
     *
     * @return false if {@link QueuePair#sendAndInvalidate} to it is refused
     */
    public boolean invalidatable() {
        return invalidatable;
    }

    /**
     * Whether its receives come from a shared queue. Its peers then wait for a receive without
     * limit; a queue pair with its own receive queue must have one posted within about 4 s.
     * Soft-RoCE gives up after about 4 s in both cases: while it waits for a receive, it also
     * counts down its retries of unacknowledged packets (seen on 6.1).
     *
     * @return false if it has its own receive queue
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
