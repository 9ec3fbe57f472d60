package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;

/**
 * What the completions of one completion queue say, and where they go: to the consumer's records
 * when the consumer polls, otherwise into a store until it does. Also keeps the queue pairs that a
 * failure has ended until they can be notified, when no lock is held.
 *
 * <p>Guarded by the completion queue's lock. Methods take the consumer's records as a parameter,
 * null when this library polls on its own: a field would be a reference between old objects, which
 * costs a garbage collector's barrier twice a poll.
 */
final class Delivery {
    private final Provider provider;
    private final CompletionCounts counts;
    private UndeliveredCompletions store;
    private final ArrayList<Endpoint> failed = new ArrayList<>();

    /**
     * Keeps nothing yet.
     *
     * @param capacity how many completions it can keep
     */
    Delivery(Provider provider, CompletionCounts counts, int capacity) {
        this.provider = provider;
        this.counts = counts;
        this.store = new UndeliveredCompletions(capacity);
    }

    /** Makes room for more failed queue pairs, in addition to those that have failed already. */
    void ensureCapacity(int queuePairs) {
        failed.ensureCapacity(failed.size() + queuePairs);
    }

    /** Moves everything to another store if that is larger. */
    void moveTo(UndeliveredCompletions larger) {
        if (larger.capacity() > store.capacity()) {
            larger.addAll(store);
            store = larger;
        }
    }

    /** Whether nothing is kept for the consumer. */
    boolean isEmpty() {
        return store.isEmpty();
    }

    /** Drops what was kept: nobody will ask for it. */
    void forget() {
        store.forget();
    }

    /** Delivers what was kept, as much as fits. */
    void moveTo(CompletionRecords to) {
        store.moveTo(to);
    }

    /** Whether one more completion can be kept. */
    boolean hasRoom() {
        return !store.isFull();
    }

    /** Whether plain successes may go to the consumer as they are: nothing is kept before them. */
    boolean takesPlain(CompletionRecords to, int count) {
        return store.isEmpty() && to.remaining() >= count;
    }

    /**
     * Delivers or keeps a completion that the provider reported, when there {@linkplain #hasRoom is
     * room}.
     *
     * @param type the request's type; a receive's completion may be of another
     */
    void deliver(
            WorkCompletions raw,
            int index,
            Endpoint endpoint,
            @Nullable Credit credit,
            OperationType type,
            long context,
            @Nullable CompletionRecords to) {
        int status = raw.status(index);
        long kind;
        int extra = 0;
        if (status != WorkCompletions.SUCCESS) {
            kind = CompletionRecords.failure(type, status, raw.vendorError(index));
        } else if (!type.isReceive()) {
            kind = CompletionRecords.success(type, 0, false);
        } else {
            long bytes = raw.bytes(index);
            endpoint.receiveCounts().received(bytes);
            if (provider.invalidated(raw.flags(index))) {
                kind =
                        CompletionRecords.success(
                                OperationType.RECEIVE_AND_INVALIDATE, bytes, false);
                extra = raw.invalidatedToken(index);
                endpoint.windows().invalidated(extra);
            } else {
                boolean immediate = raw.hasImmediate(index);
                boolean write = raw.isWriteWithImmediate(index);
                kind =
                        CompletionRecords.success(
                                write ? OperationType.RECEIVE_OF_WRITE : type, bytes, immediate);
                extra = immediate ? raw.immediate(index) : 0;
            }
        }
        deliver(endpoint, credit, context, kind, extra, to);
    }

    /**
     * Delivers or keeps a completion, when there {@linkplain #hasRoom is room}.
     *
     * @param kind the second word of its record
     */
    void deliver(
            Endpoint endpoint,
            @Nullable Credit credit,
            long context,
            long kind,
            int extra,
            @Nullable CompletionRecords to) {
        OperationType type = CompletionRecords.typeOf(kind);
        int status = CompletionRecords.statusOf(kind);
        if (status != WorkCompletions.SUCCESS) {
            noteFailure(endpoint, type, status);
        }
        if (to != null && takesPlain(to, 1)) {
            if (credit != null) {
                credit.delivered();
            }
            to.add(endpoint, context, kind, extra);
        } else {
            store.add(credit, endpoint, context, kind, extra);
            counts.kept();
        }
        try {
            if (status != WorkCompletions.SUCCESS) {
                int vendorError = CompletionRecords.vendorErrorOf(kind);
                endpoint.requestFailed(type, context, status, vendorError);
            } else if (type == OperationType.RECEIVE_AND_INVALIDATE) {
                endpoint.tokenInvalidated(extra);
            }
        } catch (Error e) {
            // Of the Flight Recorder, which must not cost requests: a post may wait. The completion
            // is there.
        }
    }

    /** The completion that is delivered next is synthesized. */
    void synthesized() {
        counts.synthesized();
    }

    // ---- queue pairs that a failure has ended

    private void noteFailure(Endpoint endpoint, OperationType type, int status) {
        counts.failure(status);
        endpoint.counts(type).failed(status);
        if (endpoint.failsFirst()) {
            putBack(endpoint);
        }
    }

    /** Whether {@link #nextFailed} has one. */
    boolean anyFailed() {
        return !failed.isEmpty();
    }

    /** A queue pair that is to be notified of its failure, or null. */
    @Nullable Endpoint nextFailed() {
        return failed.isEmpty() ? null : failed.removeLast();
    }

    /** Keeps a queue pair to be notified, also again, when its notification has thrown. */
    void putBack(Endpoint endpoint) {
        failed.add(endpoint);
    }
}
