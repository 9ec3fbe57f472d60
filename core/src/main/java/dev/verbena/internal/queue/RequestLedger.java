package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.WorkCompletions;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The outstanding requests of one queue, oldest first: what each one was, how it will end, and how
 * many more may be posted. {@link RequestState} has the states of a request.
 *
 * <p>Two sides share a ledger. The posting side adds requests, under the queue's lock; the
 * completing side retires them, under the completion queue's lock. Each counter has one writer.
 * Sequence numbers wrap around, so only their differences are compared.
 *
 * <p>A slot is free again when its completion was delivered or, for a silent request that
 * succeeded, when a later request of the queue completed. While silent requests are outstanding,
 * the queue accepts up to interval - 1 more, so a caller that counts as NDK does is never refused.
 */
public final class RequestLedger extends RequestSlots {
    /**
     * The first sequence number. They wrap around so soon that each test of some dozen requests
     * passes the wrap; from 0 on, a mistake would show after two billion requests.
     */
    private static final int FIRST = Integer.MAX_VALUE - 40;

    /** How many requests may be added before {@link RequestCounts#added} has to hear of it. */
    private static final int NOTE_EVERY = 1 << 24;

    private static final VarHandle ADDED = counter("added");
    private static final VarHandle RETIRED = counter("retired");
    private static final VarHandle SILENT_RETIRED = counter("silentRetired");
    private static final VarHandle FREED = counter("freed");
    private static final VarHandle BYTES =
            Fields.handle(MethodHandles.lookup(), "bytes", long.class);

    private final Endpoint endpoint;
    private final RequestCounts counts;
    private final long queue;
    private final int depth;
    private final int interval;
    private final QueueLock completing;

    // Written by the posting side.
    private int added = FIRST;
    private int silentAdded;
    private int certain; // so many may be outstanding: not above the depth, and there is memory
    private int limit = FIRST; // while "added" is below it there is a free slot for certain
    private int noted = FIRST; // what "added" was when the counts heard of it last
    private long bytes; // by BYTES; of a receive queue, by the completing side

    // Written by the completing side.
    private int retired = FIRST;
    private int seen = FIRST; // how much of "added" this side has read
    private int silentRetired;
    private int freed = FIRST; // slots, whether of silent requests or of others
    private boolean synthesizes; // a request was marked SYNTHESIZED or ENDED
    private boolean awaitsInternal; // before synthesized completions, as silent ones may fail

    private static VarHandle counter(String name) {
        return Fields.handle(MethodHandles.lookup(), name, int.class);
    }

    /**
     * Makes an empty ledger.
     *
     * @param depth how many requests may be outstanding
     * @param interval how many silent requests may follow each other until one asks for a signal
     * @param completing the completion queue's lock
     */
    public RequestLedger(
            Endpoint endpoint, long queue, int depth, int interval, QueueLock completing) {
        super(depth + interval - 1);
        this.endpoint = endpoint;
        this.counts = WorkId.isReceive(queue) ? endpoint.receiveCounts() : endpoint.sendCounts();
        this.queue = queue;
        this.depth = depth;
        this.interval = interval;
        this.completing = completing;
    }

    @Override
    public Endpoint endpoint() {
        return endpoint;
    }

    /** How many silent requests may follow each other until one asks for a signal. */
    int interval() {
        return interval;
    }

    /** The upper half of the requests' {@link WorkId}. */
    public long queue() {
        return queue;
    }

    /**
     * Whether the number of outstanding requests, as far as this side knows, equals the queue's
     * depth. Allocates when one more would be more than ever before.
     */
    public boolean full() {
        return !hasRoom(1);
    }

    /** Whether so many requests may be added, as {@link #full} counts: all of them or none. */
    boolean hasRoom(int count) {
        int end = added + count;
        return end - limit <= 0 || end - renewedLimit() <= 0 || makeRoom(count);
    }

    private int renewedLimit() {
        if (added - noted > NOTE_EVERY) {
            noted = added;
            counts.added(added - FIRST);
        }
        limit = (int) FREED.getAcquire(this) + certain;
        return limit;
    }

    /** Apart from what is certain: silent requests may end before the next check. */
    private boolean makeRoom(int count) {
        int outstanding = added + count - (int) FREED.getAcquire(this);
        int silent = silentAdded - (int) SILENT_RETIRED.getAcquire(this);
        if (outstanding > depth + (silent > 0 ? interval - 1 : 0)) {
            return false;
        }
        ensureMemory(outstanding);
        return true;
    }

    /**
     * Before a request that waits for the next one: allocates what that needs, too. It must not be
     * left alone because there is no memory for the other.
     */
    void ensureNext() {
        int end = added + 2;
        if (end - limit > 0 && end - renewedLimit() > 0) {
            int outstanding = end - (int) FREED.getAcquire(this);
            ensureMemory(Math.min(outstanding, depth + interval - 1));
        }
    }

    private void ensureMemory(int outstanding) {
        if (outstanding > room()) {
            grow(outstanding, added, completing);
            certain = Math.min(depth, room());
        }
    }

    /**
     * How many requests were added and not retired. Exact for the posting side; for others it was
     * so a moment ago.
     */
    public int outstanding() {
        return Math.max(0, (int) ADDED.getAcquire(this) - (int) RETIRED.getAcquire(this));
    }

    /** A number that changes with each request that is retired, and wraps around. */
    public int retired() {
        return (int) RETIRED.getAcquire(this);
    }

    /**
     * Whether a request is outstanding whose success the provider reports, too: it is not silent,
     * or has an internal signal. From any thread, as of a moment ago.
     */
    public boolean awaitsCompletion() {
        int end = (int) ADDED.getAcquire(this);
        for (int sequence = retired(); end - sequence > 0; sequence++) {
            if ((state(sequence) & RequestState.SIGNALED) != 0) {
                return true;
            }
        }
        return false;
    }

    // ---- counters: from any thread, each as of a moment ago

    /** How many requests were added for the caller, since this ledger was made. */
    long posted() {
        return counts.posted((int) ADDED.getAcquire(this) - FIRST);
    }

    /** How many of {@link #posted} were not retired. */
    int outstandingPosted() {
        // Internal requests are posted when the queue takes no others any more: they are the last.
        return Math.max(0, outstanding() - counts.internal());
    }

    /** How many bytes {@link #addBytes} and plain receives have added. */
    long bytes() {
        return (long) BYTES.getOpaque(this);
    }

    /** Counts the bytes of a request; the queue's lock is held. */
    void addBytes(long count) {
        BYTES.setOpaque(this, bytes + count);
    }

    public long nextId() {
        return WorkId.of(queue, added);
    }

    /** Adds a request; only when the queue is not {@link #full}. */
    public int add(long context, OperationType type, boolean silent, boolean signaled) {
        return add(context, type, silent, signaled, 0);
    }

    /**
     * Adds a request that names a window; only when the queue is not {@link #full}, and after
     * {@link #ensureWindows}.
     */
    void add(Window window, long context, OperationType type, boolean silent, boolean signaled) {
        putWindow(added, window);
        add(context, type, silent, signaled, RequestState.WINDOW);
    }

    private int add(
            long context, OperationType type, boolean silent, boolean signaled, int furtherMarks) {
        int sequence = added;
        int state = RequestState.of(type) | (signaled ? RequestState.SIGNALED : 0) | furtherMarks;
        if (silent) {
            state |= RequestState.SILENT;
            silentAdded++;
        }
        requests[contextAt(sequence)] = context;
        requests[stateAt(sequence)] = state;
        ADDED.setRelease(this, sequence + 1); // publishes what was written above
        return sequence;
    }

    /**
     * Adds a batch of requests, and gives each its id; only when the queue {@linkplain #hasRoom has
     * room} for them.
     *
     * @param records {@link Batch#WORDS} numbers for each, the first two are its context and its
     *     {@link RequestState}
     */
    void addAll(SendChain batch, long[] records, int count, int silent) {
        int first = added;
        for (int i = 0; i < count; i++) {
            int sequence = first + i;
            batch.number(i, WorkId.of(queue, sequence));
            requests[contextAt(sequence)] = records[Batch.WORDS * i];
            requests[stateAt(sequence)] = records[Batch.WORDS * i + 1];
        }
        silentAdded += silent;
        ADDED.setRelease(this, first + count);
    }

    /** Adds a request of this library's own, whose end is never reported; behind others only. */
    int addInternal() {
        counts.internal(1);
        return add(0, OperationType.SEND, true, true, RequestState.INTERNAL);
    }

    /** Removes the request added last: the provider refused it, and has not kept it. */
    public void takeBack() {
        int state = state(added - 1);
        if ((state & RequestState.WINDOW) != 0) {
            endpoint.windows().takeBack(takeWindow(added - 1), type(state));
        }
        if ((state & RequestState.SILENT) != 0) {
            silentAdded--;
        }
        if ((state & RequestState.INTERNAL) != 0) {
            counts.internal(-1);
        }
        ADDED.setRelease(this, added - 1);
    }

    /** The sequence number of the request added last. */
    public int last() {
        return added - 1;
    }

    /** A completion of this queue was delivered to the consumer. */
    @Override
    public void delivered() {
        free(1);
    }

    private void free(int slots) {
        FREED.setRelease(this, freed + slots);
    }

    // What follows is for the completing side, under the completion queue's lock.

    /** Reads what the posting side has added; before anything of a request is read. */
    void readAdded() {
        seen = (int) ADDED.getAcquire(this);
    }

    /**
     * Ends a request, and with it all before it: on one queue completions come in posting order,
     * and a silent request that had failed would have had one. After {@link #nextSynthesizedBefore}
     * found nothing more.
     */
    boolean end(int sequence, boolean success) {
        int state = state(sequence);
        if (seen - sequence <= 0 || (state & RequestState.ENDED) != 0) {
            return false; // of a request that was refused, or whose end was reported
        }
        boolean reported =
                (state & RequestState.INTERNAL) == 0
                        && (!success || (state & RequestState.SILENT) == 0);
        if (reported) {
            takeSlot(state);
        }
        if (sequence - retired >= 0) {
            retire(sequence, success);
        }
        if (synthesizes) {
            mark(sequence, RequestState.ENDED);
        }
        return reported;
    }

    /**
     * A request's completion is to be delivered: a silent one has a slot as others have until then.
     */
    private void takeSlot(int state) {
        if ((state & RequestState.SILENT) != 0) {
            free(-1); // before it is retired
        }
    }

    private void retire(int last, boolean success) {
        int silent = 0;
        for (int sequence = retired; sequence - last <= 0; sequence++) {
            int state = state(sequence);
            silent += state & RequestState.SILENT;
            if ((state & RequestState.WINDOW) != 0) {
                retireWindow(sequence, state, sequence == last && !success);
            }
        }
        retired(last + 1, silent);
    }

    /**
     * Retires the oldest requests as long as they are silent and nothing is synthesized for them.
     */
    private void retireSilentBefore(int end) {
        int sequence = retired;
        int state;
        while (end - sequence > 0
                && ((state = state(sequence))
                                & (RequestState.SILENT
                                        | RequestState.SYNTHESIZED
                                        | RequestState.ENDED))
                        == RequestState.SILENT) {
            if ((state & RequestState.WINDOW) != 0) {
                retireWindow(sequence, state, false);
            }
            sequence++;
        }
        retired(sequence, sequence - retired);
    }

    private void retireWindow(int sequence, int state, boolean failed) {
        Window window = takeWindow(sequence);
        requests[stateAt(sequence)] = state & ~RequestState.WINDOW;
        endpoint.windows().retire(window, failed);
    }

    private void retired(int next, int silent) {
        RETIRED.setRelease(this, next);
        if (silent > 0) {
            SILENT_RETIRED.setRelease(this, silentRetired + silent);
            free(silent); // last: the posting side reads in the other order
        }
    }

    /**
     * Delivers successes of the oldest requests as long as each is plain: not silent, nothing
     * synthesized, reported by the provider in its turn, and with nothing but its bytes. That is
     * almost all traffic.
     */
    int deliverPlain(
            WorkCompletions raw, int first, int came, Provider provider, CompletionRecords to) {
        int oldest = retired;
        int outstanding = (int) ADDED.getAcquire(this) - oldest;
        if (synthesizes
                || outstanding <= 0
                || !deliverIfPlain(raw, first, oldest, provider, to, 0)) {
            return 0;
        }
        int count = 1;
        if (came - first > 1) {
            int most = Math.min(outstanding, came - first);
            count = deliverMorePlain(raw, first, oldest, most, provider, to);
        }
        to.added(count);
        RETIRED.setRelease(this, oldest + count);
        free(count);
        return count;
    }

    /** A method of its own: what the JIT prepares before a loop costs more than one round of it. */
    private int deliverMorePlain(
            WorkCompletions raw,
            int first,
            int oldest,
            int most,
            Provider provider,
            CompletionRecords to) {
        int count = 1;
        while (count < most
                && deliverIfPlain(raw, first + count, oldest + count, provider, to, count)) {
            count++;
        }
        return count;
    }

    private boolean deliverIfPlain(
            WorkCompletions raw,
            int index,
            int sequence,
            Provider provider,
            CompletionRecords to,
            int place) {
        long state = requests[stateAt(sequence)];
        if (raw.id(index) != WorkId.of(queue, sequence)
                || raw.status(index) != WorkCompletions.SUCCESS
                || (state & RequestState.NOT_PLAIN) != 0) {
            return false;
        }
        if (WorkId.isReceive(queue)) {
            if (provider.special(raw.flags(index))) {
                return false;
            }
            long came = raw.bytes(index);
            BYTES.setOpaque(this, bytes + came);
            state |= came << Integer.SIZE;
        }
        to.put(place, endpoint, requests[contextAt(sequence)], state);
        return true;
    }

    /**
     * Synthesizes completions of requests that the caller believes posted: the provider did not
     * take them, or it is unknown whether it did.
     *
     * @param first the first of them; those that have ended are left out
     * @param status the {@code enum ibv_wc_status} of the first; the others are flushed
     */
    void synthesize(int first, int last, int status, int flushed) {
        synthesizes = true;
        int from = retired - first > 0 ? retired : first;
        awaitsInternal |= from - retired > 0 && isUnsignaled(state(from - 1));
        for (int sequence = from; sequence - last <= 0; sequence++) {
            mark(sequence, RequestState.synthesized(sequence == from ? status : flushed));
        }
    }

    /** Whether the provider reports a request only if it fails. */
    private static boolean isUnsignaled(int state) {
        return (state & (RequestState.SIGNALED | RequestState.SYNTHESIZED | RequestState.ENDED))
                == 0;
    }

    /** Whether synthesized completions wait for an internal request that is to be posted. */
    boolean awaitsInternal() {
        return awaitsInternal;
    }

    /** None is posted. */
    void awaitNoInternal() {
        awaitsInternal = false;
    }

    /** Whether the completion of a request, or of a later one, was polled. */
    boolean hasEnded(int sequence) {
        return retired - sequence > 0;
    }

    /**
     * Suppresses the completion of a request whose post has returned a refusal, although the
     * provider may have kept it. Its slot is free again when all before it have ended.
     */
    void suppress(int sequence) {
        synthesizes = true;
        counts.suppressed();
        mark(sequence, RequestState.ENDED);
    }

    /**
     * Finds the next synthesized completion that may be delivered: all before it that the provider
     * will report have been delivered.
     *
     * @return whether there is one; {@link #synthesizedSequence} is its number
     */
    boolean nextSynthesized() {
        return nextSynthesizedUpTo((int) ADDED.getAcquire(this));
    }

    /**
     * Finds the next completion to synthesize before a request that the provider reports now. All
     * before it that the provider was ever to report, it has reported: what was silent has
     * succeeded and is retired, what is synthesized is due, and a request that asked for a
     * completion and has none has lost it, as after an overrun of the completion queue.
     */
    boolean nextSynthesizedBefore(int sequence) {
        // Not before a request that was refused, or whose end was reported.
        return sequence - retired > 0 && seen - sequence > 0 && findBefore(sequence);
    }

    private boolean findBefore(int end) {
        retireSilentBefore(end);
        while (end - retired > 0) {
            int oldest = retired;
            int state = state(oldest);
            if ((state & (RequestState.SYNTHESIZED | RequestState.ENDED)) == 0) {
                mark(oldest, RequestState.ENDED | RequestState.status(CompletionStatus.LOST));
                retire(oldest, false);
                return true;
            }
            if (endSynthesized(oldest, state)) {
                return true;
            }
            retireSilentBefore(end);
        }
        return false;
    }

    private boolean nextSynthesizedUpTo(int end) {
        for (int sequence = retired; end - sequence > 0; sequence++) {
            int state = state(sequence);
            if ((state & (RequestState.SYNTHESIZED | RequestState.ENDED)) != 0) {
                if (endSynthesized(sequence, state)) {
                    return true;
                }
            } else if (awaitsInternal || (state & RequestState.SIGNALED) != 0) {
                return false; // the provider will report it, or one behind it
            }
            // Without an internal request behind, a silent one's failure is reported late.
        }
        return false;
    }

    /** Ends a synthesized or suppressed request; true when its completion is to be delivered. */
    private boolean endSynthesized(int sequence, int state) {
        boolean suppressed = (state & RequestState.ENDED) != 0;
        boolean reported = !suppressed && (state & RequestState.INTERNAL) == 0;
        if (reported) {
            takeSlot(state);
        }
        retire(sequence, false);
        mark(sequence, RequestState.ENDED);
        if (suppressed && (state & RequestState.SILENT) == 0) {
            delivered(); // its slot is as free as one whose completion was delivered
        }
        return reported;
    }

    /**
     * Synthesizes completions of all outstanding requests, but for those that were synthesized or
     * suppressed before.
     */
    void synthesizeRest(int status) {
        synthesizes = true;
        readAdded();
        for (int sequence = retired; seen - sequence > 0; sequence++) {
            if ((state(sequence) & (RequestState.SYNTHESIZED | RequestState.ENDED)) == 0) {
                mark(sequence, RequestState.synthesized(status));
            }
        }
    }

    int synthesizedSequence() {
        return retired - 1;
    }

    int synthesizedStatus() {
        return RequestState.statusIn(state(retired - 1));
    }
}
