package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

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
    private final UndeliveredCompletions store;
    private final CompletionCounts counts;
    private Endpoint[] failed = new Endpoint[8];
    private int failedCount;

    Delivery(UndeliveredCompletions store, CompletionCounts counts) {
        this.store = store;
        this.counts = counts;
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

    /**
     * Makes room for one more completion, before anything of it changes. An empty store has room,
     * so a completion that goes to the consumer's records allocates nothing here.
     *
     * @return false when there is none, and the heap has no memory for more
     */
    boolean makeRoom() {
        return makeRoomForFailed() && store.makeRoom();
    }

    /** Whether plain successes may go to the consumer as they are: nothing is kept before them. */
    boolean takesPlain(CompletionRecords to, int count) {
        return store.isEmpty() && to.remaining() >= count;
    }

    /**
     * Delivers or keeps a completion that the provider reported, after {@link #makeRoom} returned
     * true.
     *
     * @param type the request's type; a receive's completion may be of another
     */
    void deliver(
            WorkCompletions raw,
            int index,
            Provider provider,
            Endpoint endpoint,
            @Nullable Credit credit,
            OperationType type,
            long requestContext,
            @Nullable CompletionRecords to) {
        int status = raw.status(index);
        OperationType delivered = type;
        long bytes = 0;
        int vendorError = 0;
        int extra = 0;
        boolean immediate = false;
        if (status != WorkCompletions.SUCCESS) {
            vendorError = raw.vendorError(index);
        } else if (type.isReceive()) {
            bytes = raw.bytes(index);
            endpoint.receiveCounts().received(bytes);
            if (provider.invalidated(raw.flags(index))) {
                delivered = OperationType.RECEIVE_AND_INVALIDATE;
                extra = raw.invalidatedToken(index);
                endpoint.windows().invalidated(extra);
            } else {
                immediate = raw.hasImmediate(index);
                extra = immediate ? raw.immediate(index) : 0;
                if (raw.isWriteWithImmediate(index)) {
                    delivered = OperationType.RECEIVE_OF_WRITE;
                }
            }
        }
        deliver(
                endpoint,
                credit,
                delivered,
                requestContext,
                bytes,
                status,
                vendorError,
                extra,
                immediate,
                to);
    }

    /** Delivers or keeps a completion, after {@link #makeRoom} returned true. */
    void deliver(
            Endpoint endpoint,
            @Nullable Credit credit,
            OperationType type,
            long context,
            long bytes,
            int status,
            int vendorError,
            int extra,
            boolean immediate,
            @Nullable CompletionRecords to) {
        if (status != WorkCompletions.SUCCESS) {
            noteFailure(endpoint, type, status);
        }
        CompletionRecords records;
        if (to != null && store.isEmpty() && to.remaining() > 0) {
            records = to;
            if (credit != null) {
                credit.delivered();
            }
        } else {
            records = store.next(credit);
            counts.kept();
        }
        records.add(endpoint, type, context, bytes, status, vendorError, extra, immediate);
        if (status != WorkCompletions.SUCCESS || type == OperationType.RECEIVE_AND_INVALIDATE) {
            tell(endpoint, type, context, status, vendorError, extra);
        }
    }

    /** For the Flight Recorder: an error there must not cost requests, whose post may wait. */
    private static void tell(
            Endpoint endpoint,
            OperationType type,
            long context,
            int status,
            int vendorError,
            int extra) {
        try {
            if (status != WorkCompletions.SUCCESS) {
                endpoint.listener().requestFailed(type, context, status, vendorError);
            } else {
                endpoint.listener().tokenInvalidated(extra);
            }
        } catch (Error e) {
            // Out of memory, most likely. The completion is there.
        }
    }

    /** The completion that is delivered next is synthesized. */
    void synthesized() {
        counts.synthesized();
    }

    // ---- queue pairs that a failure has ended

    private boolean makeRoomForFailed() {
        if (failedCount == failed.length) {
            try {
                failed = Arrays.copyOf(failed, 2 * failedCount);
            } catch (OutOfMemoryError e) {
                return false;
            }
        }
        return true;
    }

    private void noteFailure(Endpoint endpoint, OperationType type, int status) {
        counts.failure(status);
        endpoint.counts(type).failed(status);
        if (endpoint.failsFirst()) {
            addFailed(endpoint);
        }
    }

    private void addFailed(Endpoint endpoint) {
        failed[failedCount++] = endpoint;
    }

    /** Whether {@link #nextFailed} has one. */
    boolean anyFailed() {
        return failedCount > 0;
    }

    /** A queue pair that is to be notified of its failure, or null. */
    @Nullable Endpoint nextFailed() {
        return failedCount == 0 ? null : failed[--failedCount];
    }

    /** Keeps a queue pair whose notification has thrown, for the next poll. */
    void putBack(Endpoint endpoint) {
        if (makeRoomForFailed()) {
            addFailed(endpoint);
        }
    }
}
