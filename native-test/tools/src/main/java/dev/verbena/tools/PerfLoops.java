package dev.verbena.tools;

/** What both kinds of measurements look like to the two sides' programs. */
interface PerfLoops {
    /** As the plan says. */
    int AS_PLANNED = 0;

    /** Instead of a number of messages: as many as there are in the plan's duration. */
    int BY_TIME = 0;

    /** The server's token for the first message of a client that kills it; 0 when it needs none. */
    int firstWindow();

    /**
     * Fills what is to be sent.
     *
     * @param size how many bytes each message has
     * @param seed of what leaves from here; what arrives is made zero
     */
    void prepare(int size, int seed);

    /** Of this side's memory, for the peer; 0 when it needs none. */
    long address();

    /** The token for it. */
    int token();

    /**
     * Makes ready for messages of a size; {@link #prepare} was before.
     *
     * @param count how many, on each queue pair, or {@link #BY_TIME}
     * @param address of the peer's memory
     * @param token for it
     * @param firstWindow what the peer's {@link #firstWindow} was
     * @param outstanding how many posts may be outstanding, the last of them signaled; {@link
     *     #AS_PLANNED} unless it is a client's round that warms up
     */
    void begin(int size, int count, long address, int token, int firstWindow, int outstanding);

    /** The client's side. */
    PerfResult measure(int size, int count, PerfProgress progress);

    /**
     * The server's side.
     *
     * @return how many messages a second it has sent itself, if it was to send any
     */
    double serve(int count);

    /** The fewest messages that went out from here on a queue pair in this round, at least 1. */
    int fewest();

    /**
     * Looks at what came.
     *
     * @param count what the peer's {@link #fewest} is
     * @param seed of what the peer sent
     * @return where it is wrong, in a message, or -1
     */
    long mismatch(int size, int count, int seed, boolean server);
}
