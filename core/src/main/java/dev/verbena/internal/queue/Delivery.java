package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

/**
 * Where the completions of one completion queue go: to the consumer's records when the consumer
 * polls, otherwise into a store until it does. Also keeps the queue pairs that a failure has ended
 * until somebody may call them.
 *
 * <p>Guarded by the completion queue's lock, except for the counts. Methods take the consumer's
 * records as a parameter, null when this library polls on its own: a field would be a reference
 * between old objects, which costs a garbage collector's barrier twice a poll.
 */
@SuppressWarnings("NonAtomicVolatileUpdate") // written under the lock only
final class Delivery {
    private final UndeliveredCompletions store;
    private Endpoint[] failed = new Endpoint[8];
    private int failedCount;

    // Changed under the lock, and read without it.
    private volatile long keptEver;
    private volatile long failuresEver;

    Delivery(UndeliveredCompletions store) {
        this.store = store;
    }

    /** Whether nothing is kept for the consumer. */
    boolean isEmpty() {
        return store.isEmpty();
    }

    /** Delivers what was kept, as much as fits. */
    void moveTo(CompletionRecords to) {
        store.moveTo(to);
    }

    /** How many completions were ever kept; only grows. */
    long keptEver() {
        return keptEver;
    }

    /** How many completions with a failure there were; only grows. */
    long failuresEver() {
        return failuresEver;
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

    /** Delivers or keeps a completion, after {@link #makeRoom} returned true. */
    void deliver(
            Endpoint endpoint,
            @Nullable Credit credit,
            RequestType type,
            long context,
            long bytes,
            int status,
            int vendorError,
            int extra,
            boolean immediate,
            @Nullable CompletionRecords to) {
        if (status != WorkCompletions.SUCCESS) {
            noteFailure(endpoint);
        }
        CompletionRecords records;
        if (to != null && store.isEmpty() && to.remaining() > 0) {
            records = to;
            if (credit != null) {
                credit.delivered();
            }
        } else {
            records = store.next(credit);
            keptEver++;
        }
        records.add(endpoint, type, context, bytes, status, vendorError, extra, immediate);
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

    private void noteFailure(Endpoint endpoint) {
        failuresEver++;
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
