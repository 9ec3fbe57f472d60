package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.WorkCompletions;

/**
 * Completions as this layer tells them: a ring of records without an object for each. One with a
 * fixed capacity is what a consumer polls into; one that grows is where this layer keeps what it
 * had to poll on its own.
 */
public final class CompletionRecords {
    // A record is four words beside each other, so that one completion touches one cache line, and
    // a reference or two: context; bytes; status and vendor error; type, immediate and extra.
    private static final int WORDS = 4;
    private static final int IMMEDIATE = 1 << 8;
    private static final RequestType[] TYPES = RequestType.values();

    private final boolean grows;
    private long[] words;
    private Endpoint[] endpoints;
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
        words = new long[WORDS * capacity];
        endpoints = new Endpoint[capacity];
        credits = new Credit[grows ? capacity : 0];
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
        int at = place(endpoint, credit);
        int word = WORDS * at;
        words[word] = context;
        words[word + 1] = bytes;
        words[word + 2] = pair(status, vendorError);
        words[word + 3] = pair(type.ordinal() | (immediate ? IMMEDIATE : 0), extra);
    }

    /** Adds a plain success, told already; there is {@link #room}. */
    void addSuccess(Endpoint endpoint, RequestType type, long context, long bytes) {
        int word = WORDS * place(endpoint, null);
        words[word] = context;
        words[word + 1] = bytes;
        words[word + 2] = WorkCompletions.SUCCESS;
        words[word + 3] = pair(type.ordinal(), 0);
    }

    /** The next free place, which is this endpoint's from now on. */
    private int place(Endpoint endpoint, Credit credit) {
        if (grows && size == capacity) {
            grow();
        }
        int at = at(size);
        // Most often the same as in the round before: reading it costs less than telling the
        // collector of a reference between old objects.
        if (endpoints[at] != endpoint) {
            endpoints[at] = endpoint;
        }
        if (grows) {
            credits[at] = credit;
        }
        size++;
        return at;
    }

    private static long pair(int high, int low) {
        return (long) high << Integer.SIZE | Integer.toUnsignedLong(low);
    }

    private void grow() {
        CompletionRecords old = new CompletionRecords(0, true);
        old.words = words;
        old.endpoints = endpoints;
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
        int here = place(from.endpoints[there], from.credits[there]);
        System.arraycopy(from.words, WORDS * there, words, WORDS * here, WORDS);
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
        int at = first + index;
        return at < capacity ? at : at - capacity;
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
        return TYPES[kind(index) & IMMEDIATE - 1];
    }

    /**
     * What it was posted with.
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return words[WORDS * at(index)];
    }

    /**
     * How many bytes came.
     *
     * @param index below {@link #size}
     * @return 0 but for a successful receive
     */
    public long bytes(int index) {
        return words[WORDS * at(index) + 1];
    }

    /**
     * The provider's status.
     *
     * @param index below {@link #size}
     * @return {@code enum ibv_wc_status}
     */
    public int status(int index) {
        return (int) (words[WORDS * at(index) + 2] >>> Integer.SIZE);
    }

    /**
     * The provider's own error code.
     *
     * @param index below {@link #size}
     * @return {@code vendor_err}
     */
    public int vendorError(int index) {
        return (int) words[WORDS * at(index) + 2];
    }

    /**
     * The token that was invalidated, or the immediate data.
     *
     * @param index below {@link #size}
     * @return 32 bits
     */
    public int extra(int index) {
        return (int) words[WORDS * at(index) + 3];
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

    private int kind(int index) {
        return (int) (words[WORDS * at(index) + 3] >>> Integer.SIZE);
    }
}
