package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.CompletionRecords;
import dev.verbena.internal.queue.RequestType;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * What {@link CompletionQueue#poll} found: an array of NDK_RESULT_EX, made once and filled anew by
 * each poll.
 *
 * <p>For one thread at a time. What it says holds until the next poll.
 */
@CheckReturnValue
public final class Completions {
    private final CompletionRecords records;

    /**
     * Makes an empty array.
     *
     * @param capacity how many completions one poll may bring, at least 1
     */
    public Completions(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException(
                    "Room for completions is 1 or more, not " + capacity);
        }
        records = new CompletionRecords(capacity);
    }

    /**
     * How many completions the last poll brought.
     *
     * @return 0 or more
     */
    public int size() {
        return records.size();
    }

    /**
     * Whose request it was.
     *
     * @param index below {@link #size}
     * @return the queue pair it was posted to, or whose message it received from a shared queue; it
     *     may be closed
     */
    public QueuePair queuePair(int index) {
        return (QueuePair) records.queuePair(checked(index));
    }

    /**
     * The caller's object for that queue pair (QPContext).
     *
     * @param index below {@link #size}
     * @return what {@link QueuePair#attach} was given last, as of now; null when there is none
     */
    public @Nullable Object attachment(int index) {
        return queuePair(index).attachment();
    }

    /**
     * What the request was posted with (RequestContext).
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return records.context(checked(index));
    }

    /**
     * What kind of request it was (Type).
     *
     * @param index below {@link #size}
     * @return from the layer's own records, so it is right for failures too
     */
    public OperationType type(int index) {
        return OperationType.of(records.type(checked(index)));
    }

    /**
     * What became of it (Status).
     *
     * @param index below {@link #size}
     * @return SUCCESS, CANCELLED, or why it failed
     */
    public Status status(int index) {
        int raw = records.status(checked(index));
        return raw == WorkCompletions.SUCCESS
                ? Status.SUCCESS
                : queuePair(index).completionStatus(raw, records.type(index));
    }

    /**
     * How many bytes came (BytesTransferred).
     *
     * @param index below {@link #size}
     * @return the message's length for a successful receive, otherwise 0
     */
    public long bytes(int index) {
        return records.bytes(checked(index));
    }

    /**
     * Which token (remote key) the peer's message invalidated (TypeSpecificCompletionOutput).
     *
     * @param index below {@link #size}
     * @return 32 opaque bits, which may be any
     * @throws IllegalStateException when its type is not {@link
     *     OperationType#RECEIVE_AND_INVALIDATE}
     */
    public int invalidatedToken(int index) {
        if (records.type(checked(index)) != RequestType.RECEIVE_AND_INVALIDATE) {
            throw new IllegalStateException(
                    "Only a RECEIVE_AND_INVALIDATE has a token, this is a " + type(index));
        }
        return records.extra(index);
    }

    /**
     * Beyond NDK: whether immediate data came with a successful receive.
     *
     * @param index below {@link #size}
     * @return true for the peer's send or write with immediate
     */
    public boolean hasImmediate(int index) {
        return records.immediate(checked(index));
    }

    /**
     * Beyond NDK: the immediate data.
     *
     * @param index below {@link #size}
     * @return the number the peer sent; a peer in C gives {@code imm_data = htonl(number)}
     * @throws IllegalStateException when there is none
     */
    public int immediate(int index) {
        if (!hasImmediate(index)) {
            throw new IllegalStateException("This completion carries no immediate data");
        }
        return records.extra(index);
    }

    /**
     * What the provider said of a failure (ProviderErrorCode).
     *
     * @param index below {@link #size}
     * @return 0 on success; otherwise {@code enum ibv_wc_status} in the upper half and {@code
     *     vendor_err} in the lower. A request that was cancelled or failed without having reached
     *     the provider has 5 (WR_FLUSH_ERR) or 21 (GENERAL_ERR) there, and one whose completion the
     *     device has lost 255, which is none of the provider's.
     */
    public long providerCode(int index) {
        int status = records.status(checked(index));
        return status == WorkCompletions.SUCCESS
                ? 0
                : (long) status << 32 | Integer.toUnsignedLong(records.vendorError(index));
    }

    private int checked(int index) {
        return Objects.checkIndex(index, records.size());
    }

    CompletionRecords records() {
        return records;
    }
}
