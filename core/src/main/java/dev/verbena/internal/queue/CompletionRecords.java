package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.WorkCompletions;

/**
 * Completions as this layer tells them: a ring of records without an object for each. One with a
 * fixed capacity is what a consumer polls into; one that grows is where this layer keeps what it
 * had to poll on its own.
 */
public final class CompletionRecords {
    // A record is two words beside each other, as a request is in its queue's RequestFifo, so that
    // telling a plain success is copying it, and touches one cache line; and a reference or two.
    // The first word is the context. The lower half of the second is the request's mark, with its
    // type, its status (0 in a mark, and IBV_WC_SUCCESS is 0), and whether immediate data came; the
    // upper half are the bytes that came, or of a failure the vendor's error. What few have is
    // apart. The arrays have a power of two of places, and an index is cut to that: then the JIT
    // does not check it.
    private static final int CONTEXT = 0;
    private static final int KIND = 1;
    private static final int IMMEDIATE = 1 << 24; // above all that a mark has

    private final boolean grows;
    private long[] words;
    private Endpoint[] endpoints;
    private int[] extras; // tokens invalidated and immediate data, meant only for who has them
    private Credit[] credits; // of one that grows; the others' completions are told already
    private int capacity;
    private int first;
    private int size;

    /**
     * Makes room.
     *
     * @param capacity how many fit
     * @param grows whether it makes more room when it is full
     */
    public CompletionRecords(int capacity, boolean grows) {
        this.grows = grows;
        allocate(capacity);
    }

    private void allocate(int capacity) {
        this.capacity = capacity;
        int places = capacity <= 1 ? 1 : Integer.highestOneBit(capacity - 1) << 1;
        words = new long[2 * places];
        endpoints = new Endpoint[places];
        extras = new int[places];
        credits = new Credit[grows ? places : 0];
    }

    /**
     * How many there are.
     *
     * @return 0 or more
     */
    public int size() {
        return size;
    }

    /**
     * How many more fit.
     *
     * @return 0 or more
     */
    public int room() {
        return capacity - size;
    }

    /** Forgets all. */
    public void clear() {
        size = 0;
        first = 0;
    }

    /**
     * Adds a record.
     *
     * @param endpoint whose completion it is
     * @param credit who is told when the consumer has it, or null; of no meaning to one that does
     *     not grow
     */
    void add(
            Endpoint endpoint,
            Credit credit,
            RequestType type,
            long context,
            long bytes,
            int status,
            int vendorError,
            int extra,
            boolean immediate) {
        boolean failed = status != WorkCompletions.SUCCESS;
        long kind =
                RequestFifo.mark(type, status)
                        | (immediate ? IMMEDIATE : 0)
                        | (failed ? vendorError : bytes) << Integer.SIZE;
        add(endpoint, credit, context, kind, extra);
    }

    private void add(Endpoint endpoint, Credit credit, long context, long kind, int extra) {
        if (grows && size == capacity) {
            grow();
        }
        int at = at(size);
        put(0, endpoint, context, kind);
        extras[at] = extra;
        if (grows) {
            credits[at] = credit;
        }
        size++;
    }

    /**
     * Writes one of some plain successes, told already; then {@link #added}.
     *
     * @param index which of them; there is {@link #room}
     * @param kind the mark of the request, and above it the bytes that came
     */
    void put(int index, Endpoint endpoint, long context, long kind) {
        words[word(size + index, CONTEXT)] = context;
        words[word(size + index, KIND)] = kind;
        int at = at(size + index);
        // Most often the same as in the round before: reading it costs less than telling the
        // collector of a reference between old objects.
        if (endpoints[at] != endpoint) {
            endpoints[at] = endpoint;
        }
    }

    /** So many were put. */
    void added(int count) {
        size += count;
    }

    private int word(int index, int which) {
        return (first + index << 1 | which) & words.length - 1;
    }

    private void grow() {
        CompletionRecords old = new CompletionRecords(0, true);
        old.words = words;
        old.endpoints = endpoints;
        old.extras = extras;
        old.credits = credits;
        old.capacity = capacity;
        old.first = first;
        old.size = size;
        allocate(2 * capacity);
        clear();
        for (int i = 0; i < old.size; i++) {
            addFrom(old, i);
        }
    }

    private void addFrom(CompletionRecords from, int index) {
        int there = from.at(index);
        add(
                from.endpoints[there],
                from.credits[there],
                from.context(index),
                from.kind(index),
                from.extras[there]);
    }

    /** Takes over the oldest of another, as many as fit, and gives their places back. */
    void takeFrom(CompletionRecords from) {
        while (room() > 0 && from.size > 0) {
            addFrom(from, 0);
            Credit credit = from.credits[from.first];
            if (credit != null) {
                credit.told();
            }
            from.first = from.at(1);
            from.size--;
        }
    }

    private int at(int index) {
        return first + index & endpoints.length - 1;
    }

    /**
     * Whose request it was.
     *
     * @param index below {@link #size}
     * @return the queue pair
     */
    public Object owner(int index) {
        return endpoints[at(index)].owner();
    }

    /**
     * What it was.
     *
     * @param index below {@link #size}
     * @return its type
     */
    public RequestType type(int index) {
        return RequestFifo.type((int) kind(index));
    }

    /**
     * What it was posted with.
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return words[word(index, CONTEXT)];
    }

    /**
     * How many bytes came.
     *
     * @param index below {@link #size}
     * @return 0 but for a successful receive
     */
    public long bytes(int index) {
        return status(index) == WorkCompletions.SUCCESS ? kind(index) >>> Integer.SIZE : 0;
    }

    /**
     * The provider's status.
     *
     * @param index below {@link #size}
     * @return {@code enum ibv_wc_status}
     */
    public int status(int index) {
        return RequestFifo.status((int) kind(index));
    }

    /**
     * The provider's own error code.
     *
     * @param index below {@link #size}
     * @return {@code vendor_err}
     */
    public int vendorError(int index) {
        return (int) (kind(index) >>> Integer.SIZE);
    }

    /**
     * The token that was invalidated, or the immediate data.
     *
     * @param index below {@link #size}
     * @return 32 bits
     */
    public int extra(int index) {
        return extras[at(index)];
    }

    /**
     * Whether immediate data came.
     *
     * @param index below {@link #size}
     * @return for a receive only
     */
    public boolean immediate(int index) {
        return (kind(index) & IMMEDIATE) != 0;
    }

    private long kind(int index) {
        return words[word(index, KIND)];
    }
}
