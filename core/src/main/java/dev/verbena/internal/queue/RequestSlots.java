package dev.verbena.internal.queue;

import dev.verbena.OperationType;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * The memory of a queue's requests: of each its context, its {@link RequestState}, and the window
 * that it names; and memory to keep its completion. The place of a request is its sequence number,
 * counted around. The memory grows when more requests are outstanding than ever before.
 *
 * <p>A {@link RequestLedger} is one by inheritance: an object less to be read for each request.
 */
abstract class RequestSlots implements Credit {
    private static final int FIRST_PLACES = 16; // with 8, full() looks so often that posts suffer
    private static final int INTERNAL = 4; // places for requests of this library's own: at most 3
    private static final OperationType[] TYPES = OperationType.values();
    private static final long[] NOTHING = {0, RequestState.ENDED}; // never written
    private static final @Nullable Window[] NO_WINDOWS = {};

    private final int most;

    /**
     * Two for each place: the context and the state of its request. Until the first is added, one
     * that has ended: a provider may report what was never added, and most of many connections may
     * be idle.
     */
    long[] requests = NOTHING;

    private int room; // the caller's requests that fit in memory
    private @Nullable KeptCompletion spare; // for their completions: as many as are not kept

    // Null but for outstanding requests that name one; empty until the first does.
    private @Nullable Window[] windows = NO_WINDOWS;

    /**
     * Allocates nothing yet.
     *
     * @param most how many requests of the caller's may be outstanding
     */
    RequestSlots(int most) {
        this.most = most;
    }

    /** The number of places for that many requests of the caller, and for the internal ones. */
    private static int places(int requests) {
        return Integer.highestOneBit(requests + INTERNAL - 1) << 1;
    }

    /** The queue pair that the requests belong to. */
    public abstract Endpoint endpoint();

    /** How many requests of the caller fit in memory. */
    final int room() {
        return room;
    }

    /**
     * Makes room for more requests, by the posting side.
     *
     * @param needed at least how many requests of the caller
     * @param next the sequence number of the request that is added next
     * @param completing the lock of the completing side
     * @throws OutOfMemoryError with no effect but perhaps more room
     */
    final void grow(int needed, int next, QueueLock completing) {
        int places = Math.max(FIRST_PLACES, places(needed));
        boolean open = completing.acquire(); // once closed, there is no completing side
        try {
            moveTo(new long[2 * places], next);
            for (int larger = Math.min(most, places - INTERNAL); room < larger; room++) {
                spare = new Kept(spare);
            }
        } finally {
            if (open) {
                completing.release();
            }
        }
    }

    /** Also what has ended: its completion may come late. */
    private void moveTo(long[] larger, int next) {
        int places = requests.length / 2;
        for (int i = 1; i <= larger.length / 2; i++) {
            int sequence = next - i;
            int to = sequence << 1 & larger.length - 1;
            larger[to] = i <= places ? requests[contextAt(sequence)] : 0;
            larger[to + 1] = i <= places ? requests[stateAt(sequence)] : RequestState.ENDED;
        }
        requests = larger;
    }

    private final class Kept extends KeptCompletion {
        Kept(@Nullable KeptCompletion next) {
            this.next = next;
        }

        @Override
        Endpoint endpoint() {
            return RequestSlots.this.endpoint();
        }

        @Override
        void delivered() {
            next = spare;
            spare = this;
            RequestSlots.this.delivered();
        }
    }

    @Override
    public final KeptCompletion keep() {
        KeptCompletion kept = Objects.requireNonNull(spare, "more completions than requests");
        spare = kept.next;
        return kept;
    }

    // Where a request's context and state are. The JIT checks no index that was masked to its
    // array's length.

    final int contextAt(int sequence) {
        return sequence << 1 & requests.length - 1;
    }

    final int stateAt(int sequence) {
        return (sequence << 1 | 1) & requests.length - 1;
    }

    /** From any thread, if the request is outstanding. */
    final int state(int sequence) {
        long[] requests = this.requests; // the posting side may replace it
        return (int) requests[(sequence << 1 | 1) & requests.length - 1];
    }

    final void mark(int sequence, int marks) {
        requests[stateAt(sequence)] |= marks;
    }

    final long context(int sequence) {
        return requests[contextAt(sequence)];
    }

    final OperationType typeOf(int sequence) {
        return type(state(sequence));
    }

    static OperationType type(int state) {
        return TYPES[RequestState.typeIn(state)];
    }

    final boolean silent(int sequence) {
        return (state(sequence) & RequestState.SILENT) != 0;
    }

    private int windowAt(int sequence) {
        return sequence & windows.length - 1;
    }

    /** Allocates, the first time that a request is to name a window. */
    final void ensureWindows() {
        if (windows.length == 0) {
            windows = new Window[places(most)];
        }
    }

    /** Notes the window that a request names. */
    final void putWindow(int sequence, Window window) {
        ensureWindows();
        windows[windowAt(sequence)] = window;
    }

    final Window takeWindow(int sequence) {
        int at = windowAt(sequence);
        Window window = Objects.requireNonNull(windows[at]);
        windows[at] = null;
        return window;
    }
}
