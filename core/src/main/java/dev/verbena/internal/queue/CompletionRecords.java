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
    // bytes that came, or of a failure the vendor's error. What few have is apart, and whose they
    // are is kept once where all are of the same queue pair.
    private static final int WORDS = 2;
    private static final int IMMEDIATE = 1 << 24; // above all that a mark has

    private long[] words;
    private Endpoint[] endpoints; // whose each is
    private int[] extras; // invalidated tokens and immediate data, of completions that have one
    private int capacity;
    private int size;

    /** Makes room. */
    public CompletionRecords(int capacity) {
        this.capacity = capacity;
        words = new long[WORDS * capacity];
        endpoints = new Endpoint[capacity];
        extras = new int[capacity];
    }

    /** How many there are. */
    public int size() {
        return size;
    }

    /** How many fit, with those that are there. */
    int capacity() {
        return capacity;
    }

    /** How many more fit. */
    public int remaining() {
        return capacity - size;
    }

    /** Forgets all. */
    public void clear() {
        size = 0;
    }

    /** Adds a record; there is {@link #remaining}. */
    void add(
            Endpoint endpoint,
            OperationType type,
            long context,
            long bytes,
            int status,
            int vendorError,
            int extra,
            boolean immediate) {
        boolean failed = status != WorkCompletions.SUCCESS;
        long kind =
                RequestState.of(type, status)
                        | (immediate ? IMMEDIATE : 0)
                        | (failed ? vendorError : bytes) << Integer.SIZE;
        add(endpoint, context, kind, extra);
    }

    private void add(Endpoint endpoint, long context, long kind, int extra) {
        extras[size] = extra;
        put(0, endpoint, context, kind);
        added(1);
    }

    /**
     * Writes one of some plain successes of a queue pair; then {@link #added}.
     *
     * @param kind the mark of the request, and above it the bytes that came
     */
    void put(int index, Endpoint endpoint, long context, long kind) {
        int record = size + index;
        int word = WORDS * record;
        words[word] = context;
        words[word + 1] = kind;
        // Often the same as in the poll before: reading it costs less than telling the collector of
        // a reference between old objects.
        if (endpoints[record] != endpoint) {
            endpoints[record] = endpoint;
        }
    }

    /** So many were put. */
    void added(int count) {
        size += count;
    }

    /** Adds one of another's; there is {@link #remaining}. */
    void addFrom(CompletionRecords from, int index) {
        add(from.endpoints[index], from.context(index), from.kind(index), from.extras[index]);
    }

    /**
     * Forgets the first ones and takes over larger arrays.
     *
     * @param grown an empty one that has room for the others
     */
    void moveInto(int forget, CompletionRecords grown) {
        int kept = size - forget;
        for (int i = 0; i < kept; i++) {
            grown.addFrom(this, forget + i);
        }
        words = grown.words;
        endpoints = grown.endpoints;
        extras = grown.extras;
        capacity = grown.capacity;
        size = kept;
    }

    /** Whose request it was. */
    public Object queuePair(int index) {
        return endpoints[index].queuePair();
    }

    /** What it was. */
    public OperationType type(int index) {
        return RequestSlots.type((int) kind(index));
    }

    /**
     * What it was posted with.
     *
     * @return the caller's context
     */
    public long context(int index) {
        return words[WORDS * index];
    }

    /**
     * How many bytes came.
     *
     * @return 0 but for a successful receive
     */
    public long bytes(int index) {
        return status(index) == WorkCompletions.SUCCESS ? kind(index) >>> Integer.SIZE : 0;
    }

    /** The provider's status. */
    public int status(int index) {
        return RequestState.statusIn((int) kind(index));
    }

    /** The provider's own error code. */
    public int vendorError(int index) {
        return (int) (kind(index) >>> Integer.SIZE);
    }

    /**
     * The token that was invalidated, or the immediate data.
     *
     * @return 32 bits
     */
    public int extra(int index) {
        return extras[index];
    }

    /**
     * Whether immediate data came.
     *
     * @return for a receive only
     */
    public boolean immediate(int index) {
        return (kind(index) & IMMEDIATE) != 0;
    }

    private long kind(int index) {
        return words[WORDS * index + 1];
    }
}
