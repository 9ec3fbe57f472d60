package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.Objects;

/**
 * What the peer sent last: with its request, its answer, or its refusal (NdkGetConnectionData).
 *
 * <p>Immutable. Data with the same bytes and numbers are equal.
 */
@CheckReturnValue
public final class ConnectionData {
    private final byte[] privateData;
    private final boolean exact;
    private final boolean invalidatable;
    private final int inboundReads;
    private final int outboundReads;

    ConnectionData(
            byte[] privateData,
            boolean exact,
            boolean invalidatable,
            int inboundReads,
            int outboundReads) {
        this.privateData = privateData.clone();
        this.exact = exact;
        this.invalidatable = invalidatable;
        this.inboundReads = inboundReads;
        this.outboundReads = outboundReads;
    }

    /**
     * The private data that the peer's program sent ({@link ConnectionOptions#withPrivateData}).
     *
     * @return a new array; empty when there was none
     */
    public byte[] privateData() {
        return privateData.clone();
    }

    /**
     * Whether {@link #privateData} has exactly the length that was sent, which peers of this
     * library announce. Otherwise zeros may follow, up to what the transport carries.
     *
     * @return false for a peer that announced nothing
     */
    public boolean exact() {
        return exact;
    }

    /**
     * Whether the peer has tokens that {@link QueuePair#sendAndInvalidate} may invalidate.
     *
     * @return false for a peer that announced nothing
     */
    public boolean invalidatable() {
        return invalidatable;
    }

    /**
     * How many of the peer's reads and atomics may be outstanding towards this side: what it asked
     * for, or less where this adapter cannot serve as many. The limits of this side's queue pair
     * apply as well.
     *
     * @return 0 or more
     */
    public int inboundReads() {
        return inboundReads;
    }

    /**
     * How many reads and atomics of this side may be outstanding towards the peer: what it lets in,
     * or less where this adapter cannot send as many. The limits of this side's queue pair apply as
     * well.
     *
     * @return 0 or more
     */
    public int outboundReads() {
        return outboundReads;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof ConnectionData that
                && Arrays.equals(privateData, that.privateData)
                && exact == that.exact
                && invalidatable == that.invalidatable
                && inboundReads == that.inboundReads
                && outboundReads == that.outboundReads;
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                Arrays.hashCode(privateData), exact, invalidatable, inboundReads, outboundReads);
    }

    /** Without the private data, which may be a secret: their length only. */
    @Override
    public String toString() {
        return "ConnectionData(%d bytes of private data%s, %s, %d reads in, %d reads out)"
                .formatted(
                        privateData.length,
                        exact ? "" : " with what the transport added",
                        invalidatable ? "invalidatable" : "not invalidatable",
                        inboundReads,
                        outboundReads);
    }
}
