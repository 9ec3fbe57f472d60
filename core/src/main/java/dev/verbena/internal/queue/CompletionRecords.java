package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.WorkCompletions;

/**
 * Completions as this layer tells them: a ring of records without an object for each. One with a
 * fixed capacity is what a consumer polls into; one that grows is where this layer keeps what it
 * had to poll on its own.
 */
public final class CompletionRecords {
    // A record is four words beside each other, so that one completion touches one cache line, and
    // a reference or two: context; bytes; status and vendor error; type, immediate and extra. The
    // arrays have a power of two of places, and an index is cut to that: then the JIT neither
    // checks it nor prepares a loop over it, which costs more than looking at one record.
    private static final int WORDS = 4;
    private static final int CONTEXT = 0;
    private static final int BYTES = 1;
    private static final int STATUS = 2;
    private static final int KIND = 3;
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
        int places = capacity <= 1 ? 1 : Integer.highestOneBit(capacity - 1) << 1;
        words = new long[WORDS * places];
        endpoints = new Endpoint[places];
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
        write(
                place(endpoint, credit),
                context,
                bytes,
                pair(status, vendorError),
                pair(type.ordinal() | (immediate ? IMMEDIATE : 0), extra));
    }

    /** Adds a plain success, told already; there is {@link #room}. */
    void addSuccess(Endpoint endpoint, int type, long context, long bytes) {
        write(place(endpoint, null), context, bytes, WorkCompletions.SUCCESS, pair(type, 0));
    }

    private void write(int at, long context, long bytes, long status, long kind) {
        long[] to = words;
        to[word(to, at, CONTEXT)] = context;
        to[word(to, at, BYTES)] = bytes;
        to[word(to, at, STATUS)] = status;
        to[word(to, at, KIND)] = kind;
    }

    private static int word(long[] words, int at, int which) {
        return WORDS * at + which & words.length - 1;
    }

    private long word(int index, int which) {
        return words[word(words, first + index, which)];
    }

    /** The next free place, which is this endpoint's from now on. */
    private int place(Endpoint endpoint, Credit credit) {
        if (grows && size == capacity) {
            grow();
        }
        int at = first + size;
        int place = at & endpoints.length - 1;
        // Most often the same as in the round before: reading it costs less than telling the
        // collector of a reference between old objects.
        if (endpoints[place] != endpoint) {
            endpoints[place] = endpoint;
        }
        if (grows) {
            credits[place] = credit;
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
        write(
                place(from.endpoints[there], from.credits[there]),
                from.word(index, CONTEXT),
                from.word(index, BYTES),
                from.word(index, STATUS),
                from.word(index, KIND));
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
        return TYPES[kind(index) & IMMEDIATE - 1];
    }

    /**
     * What it was posted with.
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return word(index, CONTEXT);
    }

    /**
     * How many bytes came.
     *
     * @param index below {@link #size}
     * @return 0 but for a successful receive
     */
    public long bytes(int index) {
        return word(index, BYTES);
    }

    /**
     * The provider's status.
     *
     * @param index below {@link #size}
     * @return {@code enum ibv_wc_status}
     */
    public int status(int index) {
        return (int) (word(index, STATUS) >>> Integer.SIZE);
    }

    /**
     * The provider's own error code.
     *
     * @param index below {@link #size}
     * @return {@code vendor_err}
     */
    public int vendorError(int index) {
        return (int) word(index, STATUS);
    }

    /**
     * The token that was invalidated, or the immediate data.
     *
     * @param index below {@link #size}
     * @return 32 bits
     */
    public int extra(int index) {
        return (int) word(index, KIND);
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
        return (int) (word(index, KIND) >>> Integer.SIZE);
    }
}
