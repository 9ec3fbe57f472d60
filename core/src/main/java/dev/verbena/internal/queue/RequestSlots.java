package dev.verbena.internal.queue;

import dev.verbena.OperationType;

import org.jspecify.annotations.Nullable;

import java.util.Objects;

/**
 * The memory of a queue's requests: of each its context, its {@link RequestState}, and the window
 * that it names. The place of a request is its sequence number, counted around.
 *
 * <p>A {@link RequestLedger} is one by inheritance: an object less to be read for each request.
 */
abstract class RequestSlots {
    private static final OperationType[] TYPES = OperationType.values();
    private static final long[] NOTHING = {0, RequestState.ENDED}; // never written
    private static final @Nullable Window[] NO_WINDOWS = {};

    private final int most;

    /**
     * Two for each request: its context and its state. Until the first is added, one that has
     * ended: a provider may report what was never added, and most of many connections may be idle.
     */
    long[] requests = NOTHING;

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

    /** How many requests there is memory for: the most of the caller's, and two internal ones. */
    private int places() {
        return Integer.highestOneBit(most + 1) << 1;
    }

    /** Allocates, the first time that a request is to be added. */
    final void ensureRequests() {
        if (requests.length == NOTHING.length) {
            requests = new long[2 * places()];
        }
    }

    // Where a request's context and state are. The JIT checks no index that was masked to its
    // array's length.

    final int contextAt(int sequence) {
        return sequence << 1 & requests.length - 1;
    }

    final int stateAt(int sequence) {
        return (sequence << 1 | 1) & requests.length - 1;
    }

    final int state(int sequence) {
        return (int) requests[stateAt(sequence)];
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

    /** Whether a request is silent: delivering its failure frees no slot. */
    final boolean silent(int sequence) {
        return (state(sequence) & RequestState.SILENT) != 0;
    }

    private int windowAt(int sequence) {
        return sequence & windows.length - 1;
    }

    /** Allocates, the first time that a request is to name a window. */
    final void ensureWindows() {
        if (windows.length == 0) {
            windows = new Window[places()];
        }
    }

    /** Notes the window that a request names. */
    final void putWindow(int sequence, Window window) {
        ensureWindows();
        windows[windowAt(sequence)] = window;
    }

    /** Takes the window of a request that is marked WINDOW. */
    final Window takeWindow(int sequence) {
        int at = windowAt(sequence);
        Window window = Objects.requireNonNull(windows[at]);
        windows[at] = null;
        return window;
    }
}
