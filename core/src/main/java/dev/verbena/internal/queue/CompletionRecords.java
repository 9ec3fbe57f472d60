package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.WorkCompletions;

/**
 * Completions as they are delivered, in order: records without an object for each. A consumer polls
 * into one of these.
 */
public final class CompletionRecords {
    // A record is two words beside each other, as a request is in its queue's RequestLedger, so
    // delivering a plain success is copying it, and touches one cache line. The first word is the
    // context. The lower half of the second is the request's mark, with its type, its status (0 in
    // a mark, and IBV_WC_SUCCESS is 0), and whether immediate data came; the upper half are the
    // bytes that came, or of a failure the vendor's error. Rare fields are in a side array. The
    // owner of each record is in another, written only when it changes.
    private static final int WORDS = 2;
    private static final int IMMEDIATE = 1 << 24; // above all that a mark has

    private final long[] words;
    private final Endpoint[] endpoints; // whose each is
    private final int[] tokensOrImmediates; // invalidated tokens and immediate data
    private int size;

    public CompletionRecords(int capacity) {
        words = new long[WORDS * capacity];
        endpoints = new Endpoint[capacity];
        tokensOrImmediates = new int[capacity];
    }

    public int size() {
        return size;
    }

    public int remaining() {
        return tokensOrImmediates.length - size;
    }

    public void clear() {
        size = 0;
    }

    /** The second word of the record of a success. */
    static long success(OperationType type, long bytes, boolean immediate) {
        return RequestState.of(type) | (immediate ? IMMEDIATE : 0) | bytes << Integer.SIZE;
    }

    /** The second word of the record of a failure. */
    static long failure(OperationType type, int status, int vendorError) {
        return RequestState.of(type, status) | (long) vendorError << Integer.SIZE;
    }

    static OperationType typeOf(long kind) {
        return RequestSlots.type((int) kind);
    }

    static int statusOf(long kind) {
        return RequestState.statusIn((int) kind);
    }

    /** Adds a record; there is {@link #remaining}. */
    void add(Endpoint endpoint, long context, long kind, int tokenOrImmediate) {
        tokensOrImmediates[size] = tokenOrImmediate;
        write(size, endpoint, context, kind);
        added(1);
    }

    @SuppressWarnings("ReferenceEquality") // the same queue pair or another one
    private void write(int record, Endpoint endpoint, long context, long kind) {
        int word = WORDS * record;
        words[word] = context;
        words[word + 1] = kind;
        // Often the same as in the poll before: reading it costs less than telling the collector of
        // a reference between old objects.
        if (endpoints[record] != endpoint) {
            endpoints[record] = endpoint;
        }
    }

    /**
     * Writes one of some plain successes of a queue pair; then {@link #added}.
     *
     * @param kind the mark of the request, and above it the bytes that came
     */
    void put(int index, Endpoint endpoint, long context, long kind) {
        write(size + index, endpoint, context, kind);
    }

    void added(int count) {
        size += count;
    }

    /** Whose request it was. */
    public Endpoint endpoint(int index) {
        return endpoints[index];
    }

    public OperationType type(int index) {
        return typeOf(kind(index));
    }

    public long context(int index) {
        return words[WORDS * index];
    }

    /** How many bytes a successful receive got; 0 for everything else. */
    public long bytes(int index) {
        return status(index) == WorkCompletions.SUCCESS ? kind(index) >>> Integer.SIZE : 0;
    }

    public int status(int index) {
        return statusOf(kind(index));
    }

    public int vendorError(int index) {
        return vendorErrorOf(kind(index));
    }

    static int vendorErrorOf(long kind) {
        return (int) (kind >>> Integer.SIZE);
    }

    /** The token that was invalidated, or the immediate data. */
    public int tokenOrImmediate(int index) {
        return tokensOrImmediates[index];
    }

    /** Whether immediate data came with a receive. */
    public boolean immediate(int index) {
        return (kind(index) & IMMEDIATE) != 0;
    }

    private long kind(int index) {
        return words[WORDS * index + 1];
    }
}
