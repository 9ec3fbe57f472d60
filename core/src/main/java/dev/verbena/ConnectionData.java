package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.Objects;

/**
 * The peer's private data and parameters, from its last message: its request, its accept or its
 * reject (NdkGetConnectionData).
 *
 * <p>Immutable. Data with the same bytes and numbers are equal.
 *
 * @param privateData the private data that the peer's program sent ({@link
 *     ConnectionOptions#withPrivateData})
 * @param exact whether {@code privateData} has exactly the length that was sent, which peers that
 *     use this library announce. Otherwise the peer sent no announcement, and the data may be
 *     padded with zeros to the transport's fixed length
 * @param invalidatable whether the peer has remote keys (NDK: tokens) that {@link
 *     QueuePair#sendAndInvalidate} may invalidate; false if the peer sent no announcement
 * @param inboundReads how many reads and atomics of the peer may be outstanding towards this side:
 *     the number it requested, or the adapter's limit if that is lower. The limits of this side's
 *     queue pair apply as well
 * @param outboundReads how many reads and atomics of this side may be outstanding towards the peer:
 *     the number it accepts, or the adapter's limit if that is lower. The limits of this side's
 *     queue pair apply as well
 */
@CheckReturnValue
public record ConnectionData(
        byte[] privateData,
        boolean exact,
        boolean invalidatable,
        int inboundReads,
        int outboundReads) {
    /** Copies the private data. */
    public ConnectionData {
        privateData = Arguments.notNull(privateData, "privateData").clone();
    }

    /**
     * A copy of the private data.
     *
     * @return a new array; empty if the peer sent none
     */
    @Override
    public byte[] privateData() {
        return privateData.clone();
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

    /** Shows only the length of the private data, which may be secret. */
    @Override
    public String toString() {
        return "ConnectionData(%d bytes of private data%s, %s, %d reads in, %d reads out)"
                .formatted(
                        privateData.length,
                        exact ? "" : " with the padding of the transport",
                        invalidatable ? "invalidatable" : "not invalidatable",
                        inboundReads,
                        outboundReads);
    }
}
