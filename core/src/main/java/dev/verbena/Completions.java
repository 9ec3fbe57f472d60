package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.CompletionRecords;
import dev.verbena.internal.queue.CompletionStatus;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * The completions of a {@link CompletionQueue#poll}: an array of NDK_RESULT_EX (verbs: {@code
 * ibv_wc}), created once and filled again by each poll.
 *
 * <p>For one thread at a time. The values are valid until the next poll with it.
 */
@CheckReturnValue
public final class Completions {
    private final CompletionRecords records;

    /**
     * Creates an empty array.
     *
     * @param capacity how many completions one poll may return, at least 1
     */
    public Completions(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException(
                    "A Completions object has room for 1 or more, not " + capacity);
        }
        records = new CompletionRecords(capacity);
    }

    /**
     * How many completions the last poll returned.
     *
     * @return 0 or more
     */
    public int size() {
        return records.size();
    }

    /**
     * The queue pair of the request.
     *
     * @param index below {@link #size}
     * @return the queue pair that the request was posted to or, for a receive of a shared queue,
     *     that got the message; it may be closed by now
     */
    public QueuePair queuePair(int index) {
        return handle(index).queuePair();
    }

    private QueuePair.Handle handle(int index) {
        return (QueuePair.Handle) records.endpoint(checked(index));
    }

    /**
     * The caller's object for that queue pair (QPContext).
     *
     * @param index below {@link #size}
     * @return the current {@link QueuePair#attachment}; null when there is none
     */
    public @Nullable Object attachment(int index) {
        return records.endpoint(checked(index)).attachment();
    }

    /**
     * The context that the request was posted with (RequestContext).
     *
     * @param index below {@link #size}
     * @return the number that the caller chose
     */
    public long context(int index) {
        return records.context(checked(index));
    }

    /**
     * The operation of the request (Type).
     *
     * @param index below {@link #size}
     * @return the operation, also for a failed request (this library records it, because verbs does
     *     not report it then)
     */
    public OperationType type(int index) {
        return records.type(checked(index));
    }

    /**
     * How the request ended (Status).
     *
     * @param index below {@link #size}
     * @return SUCCESS, CANCELLED, or the reason of the failure
     */
    public Status status(int index) {
        int raw = records.status(checked(index));
        if (raw == WorkCompletions.SUCCESS) {
            return Status.SUCCESS;
        }
        Provider provider = queuePair(index).domain().adapter().device().provider();
        return isStalled(index)
                ? Status.IO_TIMEOUT
                : CompletionStatus.of(raw, records.type(index), provider);
    }

    /** Whether the request was still outstanding when the watchdog failed its queue pair. */
    private boolean isStalled(int index) {
        return records.status(index) == WorkCompletions.FLUSHED
                && !records.type(index).isReceive()
                && handle(index).progress().stalled();
    }

    /**
     * Throws an exception that explains a failed request; does nothing, and allocates nothing, if
     * it succeeded.
     *
     * {@snippet :
     * for (int i = 0; i < completions.size(); i++) {
     *     completions.orThrow(i);
     * }
     * }
     *
     * @param index below {@link #size}
     * @throws VerbenaException as {@link #failure} describes
     */
    public void orThrow(int index) {
        if (records.status(checked(index)) != WorkCompletions.SUCCESS) {
            throw failure(index);
        }
    }

    /**
     * The exception for a failed request, for a program that reports it or ends a session with it.
     * Its message names the operation, its context, the queue pair and its peer, the status with
     * its usual cause, and what the device reported: verbs status and vendor error.
     *
     * @param index below {@link #size}
     * @return a new exception
     * @throws IllegalStateException if the request succeeded
     */
    public VerbenaException failure(int index) {
        int raw = records.status(checked(index));
        if (raw == WorkCompletions.SUCCESS) {
            throw new IllegalStateException(
                    "%s with context %d succeeded".formatted(type(index), context(index)));
        }
        Status status = status(index);
        Peer peer = handle(index).peer();
        return new VerbenaException(
                status,
                "%s with context %d of %s%s failed: %s. %sThe device reported %s, vendor error 0x%x"
                        .formatted(
                                type(index),
                                context(index),
                                queuePair(index),
                                peer == null ? "" : " to " + peer,
                                status,
                                isStalled(index)
                                        ? "The queue pair completed no request for the time that failIfStalled was given. "
                                        : CompletionStatus.usualCause(raw, records.type(index)),
                                CompletionStatus.verbsName(raw),
                                records.vendorError(index)));
    }

    /**
     * How many bytes a receive got (BytesTransferred).
     *
     * @param index below {@link #size}
     * @return the message's length for a successful receive, otherwise 0
     */
    public long bytes(int index) {
        return records.bytes(checked(index));
    }

    /**
     * The token (remote key) that the peer's message invalidated (TypeSpecificCompletionOutput).
     *
     * @param index below {@link #size}
     * @return 32 opaque bits
     * @throws IllegalStateException when its type is not {@link
     *     OperationType#RECEIVE_AND_INVALIDATE}
     */
    public int invalidatedToken(int index) {
        if (records.type(checked(index)) != OperationType.RECEIVE_AND_INVALIDATE) {
            throw new IllegalStateException(
                    "Only a RECEIVE_AND_INVALIDATE has a token; this completion is a "
                            + type(index));
        }
        return records.tokenOrImmediate(index);
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
        return records.tokenOrImmediate(index);
    }

    /**
     * The provider's codes for a failure (ProviderErrorCode).
     *
     * @param index below {@link #size}
     * @return 0 on success; otherwise {@code enum ibv_wc_status} in the upper half and {@code
     *     vendor_err} in the lower. The upper half of a completion that this library synthesized is
     *     5 (WR_FLUSH_ERR), 21 (GENERAL_ERR) or, if the device lost the completion, 255, which no
     *     provider uses.
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
