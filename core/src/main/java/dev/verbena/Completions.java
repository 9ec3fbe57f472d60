package dev.verbena;

import dev.verbena.internal.verbs.WorkCompletions;

import java.util.Objects;

/**
 * What {@link CompletionQueue#poll} found: room for a number of NDK_RESULT_EX, made once and filled
 * anew by each poll.
 *
 * <p>For one thread at a time. What it says holds until the next poll.
 */
public final class Completions {
    private final WorkCompletions raw;
    private final QueuePair[] queuePairs;
    private final long[] contexts;
    private final OperationType[] types;
    private final Status[] statuses;
    private final long[] bytes;
    private final long[] providerCodes;
    private int size;

    /**
     * Makes room.
     *
     * @param capacity how many completions one poll may bring, at least 1
     */
    public Completions(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException(
                    "Room for completions is 1 or more, not " + capacity);
        }
        raw = new WorkCompletions(capacity);
        queuePairs = new QueuePair[capacity];
        contexts = new long[capacity];
        types = new OperationType[capacity];
        statuses = new Status[capacity];
        bytes = new long[capacity];
        providerCodes = new long[capacity];
    }

    /**
     * How many completions the last poll brought.
     *
     * @return 0 or more
     */
    public int size() {
        return size;
    }

    /**
     * Whose request it was (QPContext).
     *
     * @param index below {@link #size}
     * @return the queue pair it was posted to
     */
    public QueuePair queuePair(int index) {
        return queuePairs[Objects.checkIndex(index, size)];
    }

    /**
     * What the request was posted with (RequestContext).
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return contexts[Objects.checkIndex(index, size)];
    }

    /**
     * What kind of request it was (Type).
     *
     * @param index below {@link #size}
     * @return from the layer's own records, so it is right for failures too
     */
    public OperationType type(int index) {
        return types[Objects.checkIndex(index, size)];
    }

    /**
     * What became of it (Status).
     *
     * @param index below {@link #size}
     * @return SUCCESS, CANCELLED, or why it failed
     */
    public Status status(int index) {
        return statuses[Objects.checkIndex(index, size)];
    }

    /**
     * How many bytes came (BytesTransferred).
     *
     * @param index below {@link #size}
     * @return the message's length for a successful receive, otherwise 0
     */
    public long bytes(int index) {
        return bytes[Objects.checkIndex(index, size)];
    }

    /**
     * What the provider said of a failure (ProviderErrorCode).
     *
     * @param index below {@link #size}
     * @return 0 on success; otherwise {@code enum ibv_wc_status} in the upper half and {@code
     *     vendor_err} in the lower
     */
    public long providerCode(int index) {
        return providerCodes[Objects.checkIndex(index, size)];
    }

    WorkCompletions raw() {
        return raw;
    }

    void clear() {
        size = 0;
    }

    /**
     * Takes over raw completion {@code from}, whose request was {@code context} on {@code
     * queuePair}.
     */
    void add(int from, QueuePair queuePair, boolean receive, long context) {
        int raw = this.raw.status(from);
        boolean success = raw == WorkCompletions.SUCCESS;
        queuePairs[size] = queuePair;
        contexts[size] = context;
        types[size] = receive ? OperationType.RECEIVE : OperationType.SEND;
        statuses[size] = CompletionStatus.of(raw, receive);
        bytes[size] = success && receive ? this.raw.bytes(from) : 0;
        providerCodes[size] =
                success ? 0 : (long) raw << 32 | Integer.toUnsignedLong(this.raw.vendorError(from));
        size++;
    }
}
