package dev.verbena.internal.queue;

/**
 * Completions as this layer tells them: a ring of records without an object for each. One with a
 * fixed capacity is what a consumer polls into; one that grows is where this layer keeps what it
 * had to poll on its own.
 */
public final class CompletionRecords {
    private final boolean grows;
    private Endpoint[] endpoints;
    private Credit[] credits;
    private RequestType[] types;
    private long[] contexts;
    private long[] bytes;
    private int[] statuses;
    private int[] vendorErrors;
    private int[] extras;
    private boolean[] immediates;
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
        endpoints = new Endpoint[capacity];
        credits = new Credit[capacity];
        types = new RequestType[capacity];
        contexts = new long[capacity];
        bytes = new long[capacity];
        statuses = new int[capacity];
        vendorErrors = new int[capacity];
        extras = new int[capacity];
        immediates = new boolean[capacity];
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
        return types.length - size;
    }

    /** Forgets all. */
    public void clear() {
        size = 0;
        first = 0;
    }

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
        if (grows && room() == 0) {
            grow();
        }
        int at = at(size);
        endpoints[at] = endpoint;
        credits[at] = credit;
        types[at] = type;
        contexts[at] = context;
        this.bytes[at] = bytes;
        statuses[at] = status;
        vendorErrors[at] = vendorError;
        extras[at] = extra;
        immediates[at] = immediate;
        size++;
    }

    private void grow() {
        CompletionRecords old = new CompletionRecords(0, false);
        old.endpoints = endpoints;
        old.credits = credits;
        old.types = types;
        old.contexts = contexts;
        old.bytes = bytes;
        old.statuses = statuses;
        old.vendorErrors = vendorErrors;
        old.extras = extras;
        old.immediates = immediates;
        old.first = first;
        old.size = size;
        allocate(2 * old.types.length);
        clear();
        for (int i = 0; i < old.size; i++) {
            addFrom(old, i);
        }
    }

    private void addFrom(CompletionRecords from, int index) {
        int at = from.at(index);
        add(
                from.endpoints[at],
                from.credits[at],
                from.types[at],
                from.contexts[at],
                from.bytes[at],
                from.statuses[at],
                from.vendorErrors[at],
                from.extras[at],
                from.immediates[at]);
    }

    /** Takes over the oldest of another, as many as fit, and gives their places back. */
    void takeFrom(CompletionRecords from) {
        while (room() > 0 && from.size > 0) {
            addFrom(from, 0);
            tell(from.credits[from.first]);
            from.first = from.at(1);
            from.size--;
        }
    }

    /** Gives the place of what was added last back. */
    static void tell(Credit credit) {
        if (credit != null) {
            credit.told();
        }
    }

    private int at(int index) {
        int at = first + index;
        return at < types.length ? at : at - types.length;
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
        return types[at(index)];
    }

    /**
     * What it was posted with.
     *
     * @param index below {@link #size}
     * @return the caller's context
     */
    public long context(int index) {
        return contexts[at(index)];
    }

    /**
     * How many bytes came.
     *
     * @param index below {@link #size}
     * @return 0 but for a successful receive
     */
    public long bytes(int index) {
        return bytes[at(index)];
    }

    /**
     * The provider's status.
     *
     * @param index below {@link #size}
     * @return {@code enum ibv_wc_status}
     */
    public int status(int index) {
        return statuses[at(index)];
    }

    /**
     * The provider's own error code.
     *
     * @param index below {@link #size}
     * @return {@code vendor_err}
     */
    public int vendorError(int index) {
        return vendorErrors[at(index)];
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
        return immediates[at(index)];
    }
}
