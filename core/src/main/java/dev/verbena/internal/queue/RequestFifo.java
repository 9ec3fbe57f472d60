package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The requests under way on one queue, oldest first: what each was, and how many more may be
 * posted.
 *
 * <p>One side adds (under the queue's gate), another retires (under the completion queue's gate).
 * Each counter has one writer; sequence numbers wrap around, only differences are looked at.
 *
 * <p>A place is given back when the consumer knows that the request has ended: when its completion
 * was told, or, for a request that was silent and succeeded, when a completion behind it says so.
 * Until then nobody can know, so a queue with silent requests under way takes as many more as may
 * stand between two signals: what NDK counts as free is never refused.
 */
public final class RequestFifo implements Credit {
    // What is known of a request, in one int: these marks, its type, and, for what is owed, the
    // enum ibv_wc_status of its completion.
    private static final int SILENT = 1;
    private static final int SIGNALED = 2;
    private static final int OWED = 4; // the provider never took it: this layer owes the completion
    private static final int ENDED = 8; // nothing more may be told of it
    private static final int HIDDEN = 16; // nothing may be told of it whatever its end
    private static final int WINDOW = 32; // it names one
    private static final int PECULIAR = SILENT | OWED | ENDED | HIDDEN | WINDOW;
    private static final int TYPE_SHIFT = 8;
    private static final int STATUS_SHIFT = 16;
    private static final int BYTE = 0xFF;
    private static final RequestType[] TYPES = RequestType.values();

    /**
     * The first sequence number: they wrap around, and so soon that each test of some dozen
     * requests sees it, as Linux has its jiffies do; from 0 on, a mistake would show after two
     * thousand million.
     */
    private static final int FIRST = Integer.MAX_VALUE - 40;

    private static final VarHandle ADDED = counter("added");
    private static final VarHandle RETIRED = counter("retired");
    private static final VarHandle SILENT_RETIRED = counter("silentRetired");
    private static final VarHandle TOLD = counter("told");

    private final Endpoint endpoint;
    private final long queue;
    private final int depth;
    private final int interval;
    private final int slots; // how many places, less one
    private final long[] requests; // context and marks of each, beside each other
    private final Window[] windows; // null but for requests under way that name one

    // The adding side's.
    private int added = FIRST;
    private int silentAdded;
    private int limit = FIRST; // while "added" is below it there is room, without another look

    // The retiring side's.
    private int retired = FIRST;
    private int seen = FIRST; // of what was added
    private int silentRetired;
    private int told = FIRST; // counted on from there, too
    private boolean owes;

    private static VarHandle counter(String name) {
        try {
            return MethodHandles.lookup().findVarHandle(RequestFifo.class, name, int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /**
     * Makes an empty one.
     *
     * @param endpoint whose requests they are
     * @param queue what their ids begin with
     * @param depth how many may be under way
     * @param interval how many silent ones may follow each other until one asks for a signal
     */
    public RequestFifo(Endpoint endpoint, long queue, int depth, int interval) {
        this.endpoint = endpoint;
        this.queue = queue;
        this.depth = depth;
        this.interval = interval;
        int places = Integer.highestOneBit(depth + interval) << 1; // two hidden ones always fit
        this.slots = places - 1;
        this.requests = new long[2 * places];
        this.windows = new Window[places];
    }

    /**
     * Whose requests these are.
     *
     * @return as given
     */
    public Endpoint endpoint() {
        return endpoint;
    }

    /**
     * What the requests' ids begin with.
     *
     * @return as given
     */
    public long queue() {
        return queue;
    }

    /**
     * Whether no request may be added, as far as is known.
     *
     * @return true when as many are under way as the queue is deep
     */
    public boolean full() {
        return added - limit >= 0 && fullNow();
    }

    private boolean fullNow() {
        int silent = silentAdded - (int) SILENT_RETIRED.getAcquire(this);
        int loud = added - silentAdded - (int) TOLD.getAcquire(this);
        // Not what is granted on top for silent ones: those may be over before the next look.
        limit = added + depth - loud - silent;
        return loud + silent >= depth + (silent > 0 ? interval - 1 : 0);
    }

    // Where a request's context is, and its marks. An index cut to its array's length by a mask of
    // that length is one that the JIT does not check again.

    private int contextAt(int sequence) {
        return sequence << 1 & requests.length - 1;
    }

    private int markAt(int sequence) {
        return (sequence << 1 | 1) & requests.length - 1;
    }

    private int mark(int sequence) {
        return (int) requests[markAt(sequence)];
    }

    private void mark(int sequence, int more) {
        requests[markAt(sequence)] |= more;
    }

    /**
     * How many requests were added and not retired. For the adding side.
     *
     * @return 0 or more
     */
    public int underWay() {
        return added - (int) RETIRED.getAcquire(this);
    }

    /**
     * What the id of the request added next will be.
     *
     * @return what {@link WorkId#of} gave
     */
    public long nextId() {
        return WorkId.of(queue, added);
    }

    /**
     * Adds a request; not when {@link #full}.
     *
     * @param context the caller's context
     * @param type what it is
     * @param silent whether success is not to be told
     * @param signaled whether the provider tells success
     * @return its sequence number
     */
    public int add(long context, RequestType type, boolean silent, boolean signaled) {
        return add(context, type, silent, signaled, 0);
    }

    /**
     * Adds a request that names a window; not when {@link #full}.
     *
     * @param window the window it names
     * @param context the caller's context
     * @param type what it is
     * @param silent whether success is not to be told
     * @param signaled whether the provider tells success
     */
    void add(Window window, long context, RequestType type, boolean silent, boolean signaled) {
        windows[added & slots] = window;
        add(context, type, silent, signaled, WINDOW);
    }

    private int add(
            long context, RequestType type, boolean silent, boolean signaled, int furtherMarks) {
        int sequence = added;
        int mark = type.ordinal() << TYPE_SHIFT | (signaled ? SIGNALED : 0) | furtherMarks;
        if (silent) {
            mark |= SILENT;
            silentAdded++;
        }
        requests[contextAt(sequence)] = context;
        requests[markAt(sequence)] = mark;
        ADDED.setRelease(this, sequence + 1); // what was written above is seen by who retires it
        return sequence;
    }

    /**
     * Adds a request of this layer's own.
     *
     * @return its sequence number
     */
    int addHidden() {
        return add(0, RequestType.SEND, true, true, HIDDEN);
    }

    /** Takes back what was added last: the provider refused it, and has not kept it. */
    public void takeBack() {
        int mark = mark(added - 1);
        if ((mark & WINDOW) != 0) {
            int at = added - 1 & this.slots;
            endpoint.windows().takeBack(windows[at], type(mark));
            windows[at] = null;
        }
        if ((mark & SILENT) != 0) {
            silentAdded--;
        }
        added--;
    }

    /**
     * The sequence number of the request added last.
     *
     * @return what {@link #add} gave
     */
    public int last() {
        return added - 1;
    }

    /** A completion of this queue has reached the consumer. */
    @Override
    public void told() {
        TOLD.setRelease(this, told + 1);
    }

    // All that follows is for the completion queue, under its gate.

    /** Makes what the adding side wrote visible here; before anything of a request is read. */
    void look() {
        seen = (int) ADDED.getAcquire(this);
    }

    /**
     * A request has ended, and with it all before it: on one queue, completions come in posting
     * order, and what was silent and failed would have had one. After {@link #nextBefore} found
     * nothing more.
     *
     * @param sequence which
     * @param success how it ended
     * @return whether there is something to tell
     */
    boolean end(int sequence, boolean success) {
        int mark = mark(sequence);
        if (seen - sequence <= 0 || (mark & ENDED) != 0) {
            return false; // of a request that was refused or whose end was told
        }
        if (sequence - retired >= 0) {
            retire(sequence, success);
        }
        if (owes) {
            mark(sequence, ENDED);
        }
        return (mark & HIDDEN) == 0 && (!success || (mark & SILENT) == 0);
    }

    private void retire(int last, boolean success) {
        int silent = 0;
        for (int sequence = retired; sequence - last <= 0; sequence++) {
            int mark = mark(sequence);
            silent += mark & SILENT;
            if ((mark & WINDOW) != 0) {
                retireWindow(sequence, mark, sequence == last && !success);
            }
        }
        retired(last + 1, silent);
    }

    /** Retires the oldest requests as long as they are silent and nothing is owed for them. */
    private void retireSilentBefore(int end) {
        int sequence = retired;
        int mark;
        while (end - sequence > 0
                && ((mark = mark(sequence)) & (SILENT | OWED | ENDED)) == SILENT) {
            if ((mark & WINDOW) != 0) {
                retireWindow(sequence, mark, false);
            }
            sequence++;
        }
        retired(sequence, sequence - retired);
    }

    private void retireWindow(int sequence, int mark, boolean failed) {
        int at = sequence & this.slots;
        Window window = windows[at];
        windows[at] = null;
        requests[markAt(sequence)] = mark & ~WINDOW;
        endpoint.windows().retire(window, failed);
    }

    private void retired(int next, int silent) {
        RETIRED.setRelease(this, next);
        if (silent > 0) {
            SILENT_RETIRED.setRelease(this, silentRetired + silent);
        }
    }

    /**
     * Tells successes of the oldest requests, as long as nothing is peculiar about one: it is loud,
     * nothing is owed, the provider tells of it in its turn, and nothing more than its bytes came.
     * That is almost all traffic.
     *
     * @param raw what the provider told
     * @param first where to begin in it
     * @param came how many there are in it
     * @param provider whose habits to follow
     * @param to where to tell them; there is room for all
     * @return how many were told
     */
    int tellPlain(
            WorkCompletions raw, int first, int came, Provider provider, CompletionRecords to) {
        int oldest = retired;
        int most = owes ? 0 : Math.min((int) ADDED.getAcquire(this) - oldest, came - first);
        if (most <= 0 || !tellIfPlain(raw, first, oldest, provider, to, 0)) {
            return 0;
        }
        int count = most > 1 ? tellMorePlain(raw, first, oldest, most, provider, to) : 1;
        to.added(endpoint, count);
        RETIRED.setRelease(this, oldest + count);
        TOLD.setRelease(this, told + count);
        return count;
    }

    /** Apart: what the JIT prepares before a loop costs more than one round of it. */
    private int tellMorePlain(
            WorkCompletions raw,
            int first,
            int oldest,
            int most,
            Provider provider,
            CompletionRecords to) {
        int count = 1;
        while (count < most
                && tellIfPlain(raw, first + count, oldest + count, provider, to, count)) {
            count++;
        }
        return count;
    }

    private boolean tellIfPlain(
            WorkCompletions raw,
            int index,
            int sequence,
            Provider provider,
            CompletionRecords to,
            int place) {
        long mark = requests[markAt(sequence)];
        if (raw.id(index) != WorkId.of(queue, sequence)
                || raw.status(index) != WorkCompletions.SUCCESS
                || (mark & PECULIAR) != 0) {
            return false;
        }
        if (WorkId.isReceive(queue)) {
            if (provider.special(raw.flags(index))) {
                return false;
            }
            mark |= raw.bytes(index) << Integer.SIZE;
        }
        to.put(place, requests[contextAt(sequence)], mark);
        return true;
    }

    long context(int sequence) {
        return requests[contextAt(sequence)];
    }

    RequestType typeOf(int sequence) {
        return type(mark(sequence));
    }

    /** What a request's mark is made of, when it has ended. */
    static int mark(RequestType type, int status) {
        return type.ordinal() << TYPE_SHIFT | status << STATUS_SHIFT;
    }

    static int status(int mark) {
        return mark >>> STATUS_SHIFT & BYTE;
    }

    static RequestType type(int mark) {
        return TYPES[mark >>> TYPE_SHIFT & BYTE];
    }

    /** Whether a request asked for silence: telling its failure gives no place back. */
    boolean silent(int sequence) {
        return (mark(sequence) & SILENT) != 0;
    }

    /**
     * The provider did not take some requests that the caller believes posted, or nobody knows
     * whether it did: completions are owed for them.
     *
     * @param first the first of them; those that have ended are left out
     * @param last the last of them
     * @param status the {@code enum ibv_wc_status} of the first; the others are flushed
     * @param flushed the status of the others
     */
    void owe(int first, int last, int status, int flushed) {
        owes = true;
        int from = retired - first > 0 ? retired : first;
        for (int sequence = from; sequence - last <= 0; sequence++) {
            mark(sequence, OWED | (sequence == from ? status : flushed) << STATUS_SHIFT);
        }
    }

    /**
     * Whether a request has ended, as far as completions were polled.
     *
     * @param sequence an added one
     * @return true when its completion, or one behind it, was seen
     */
    boolean hasEnded(int sequence) {
        return retired - sequence > 0;
    }

    /**
     * Suppresses the completion of a request that the caller knows refused, and that the provider
     * may have kept nevertheless. Its place is free again when all before it have ended.
     */
    void suppress(int sequence) {
        owes = true;
        mark(sequence, ENDED);
    }

    /**
     * The next owed completion that may be told: all before it that the provider is sure to tell
     * have been told.
     *
     * @return whether there is one, and {@link #owedSequence} is its number
     */
    boolean nextOwed() {
        return nextOwedBefore((int) ADDED.getAcquire(this));
    }

    /**
     * The next completion to synthesize before a request that the provider tells of now: all before
     * it that the provider was ever to tell, it has told. What was silent has succeeded, and is
     * retired. What is owed is due; and the completion of a request that asked for one is lost, as
     * after an overrun of the completion queue.
     *
     * @param sequence the request
     * @return as {@link #nextOwed}
     */
    boolean nextBefore(int sequence) {
        // Not before one that was refused, or whose end was told.
        return sequence - retired > 0 && seen - sequence > 0 && findBefore(sequence);
    }

    private boolean findBefore(int end) {
        retireSilentBefore(end);
        while (end - retired > 0) {
            int oldest = retired;
            int mark = mark(oldest);
            if ((mark & (OWED | ENDED)) == 0) {
                mark(oldest, ENDED | CompletionPump.LOST << STATUS_SHIFT);
                retire(oldest, false);
                return true;
            }
            if (endOwed(oldest, mark)) {
                return true;
            }
            retireSilentBefore(end);
        }
        return false;
    }

    private boolean nextOwedBefore(int end) {
        for (int sequence = retired; end - sequence > 0; sequence++) {
            int mark = mark(sequence);
            if ((mark & (OWED | ENDED)) != 0) {
                if (endOwed(sequence, mark)) {
                    return true;
                }
            } else if ((mark & SIGNALED) != 0) {
                return false; // the provider will tell
            }
            // What is silent and unsignaled has succeeded, or its failure is told late.
        }
        return false;
    }

    /** Ends a request that is owed or suppressed; true when it is to be told. */
    private boolean endOwed(int sequence, int mark) {
        retire(sequence, false);
        if ((mark & ENDED) != 0) { // suppressed
            if ((mark & SILENT) == 0) {
                told(); // it is no more under way than one whose completion was
            }
            return false;
        }
        mark(sequence, ENDED);
        return (mark & HIDDEN) == 0;
    }

    /**
     * Owes completions for all requests under way, but for those that have been owed or suppressed
     * before.
     *
     * @param status of each
     */
    void oweRest(int status) {
        owes = true;
        look();
        for (int sequence = retired; seen - sequence > 0; sequence++) {
            if ((mark(sequence) & (OWED | ENDED)) == 0) {
                mark(sequence, OWED | status << STATUS_SHIFT);
            }
        }
    }

    int owedSequence() {
        return retired - 1;
    }

    int owedStatus() {
        return status(mark(retired - 1));
    }
}
