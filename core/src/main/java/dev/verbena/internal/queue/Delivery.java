package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;

/**
 * What the completions of one completion queue say, and where they go: to the consumer's records
 * when the consumer polls, otherwise into a ring until it does, each with the queue that gets a
 * slot back once it is delivered. When the ring is full, further completions stay in the native
 * completion queue, or in their {@link RequestLedger}. Also keeps the queue pairs that a failure
 * has ended until they can be notified, when no lock is held.
 *
 * <p>It synthesizes the completions that the device will not report: of requests that the provider
 * refused after their posts had returned ACCEPTED, of receives posted to a queue pair in the error
 * state, and of whatever a device does not end before a close. The requests are marked in their
 * ledgers; a completion is delivered when all before it in its queue have ended.
 *
 * <p>Guarded by the completion queue's lock. Methods take the consumer's records as a parameter,
 * null when this library polls on its own: a field would be a reference between old objects, which
 * costs a garbage collector's barrier twice a poll.
 */
final class Delivery {
    private final Provider provider;
    private final CompletionCounts counts;
    private CompletionRecords kept; // a ring, as these two
    private @Nullable Credit[] credits; // of each record; null where no slot is freed
    private int first;
    private int size;
    private final ArrayList<RequestLedger> synthesizing = new ArrayList<>(); // read by long polls
    private final ArrayList<Endpoint> failed = new ArrayList<>();

    /**
     * Keeps nothing yet.
     *
     * @param capacity how many completions it can keep
     */
    Delivery(Provider provider, CompletionCounts counts, int capacity) {
        this.provider = provider;
        this.counts = counts;
        this.kept = new CompletionRecords(capacity);
        this.credits = new Credit[capacity];
    }

    /** Makes room for this many more queues, so that nothing here needs memory for them later. */
    void ensureCapacity(int queues) {
        synthesizing.ensureCapacity(synthesizing.size() + queues);
        failed.ensureCapacity(failed.size() + queues);
    }

    /** Moves what was kept to a larger ring; no effect if it is not larger. */
    void enlarge(CompletionRecords ring, @Nullable Credit[] ringCredits) {
        if (ringCredits.length > credits.length) {
            for (int i = 0; i < size; i++) {
                ring.set(i, kept, at(i));
                ringCredits[i] = credits[at(i)];
            }
            kept = ring;
            credits = ringCredits;
            first = 0;
        }
    }

    /** Whether nothing is kept for the consumer. */
    boolean isEmpty() {
        return size == 0;
    }

    /** Drops what was kept, and frees the slots: nobody will ask for it. */
    void forget() {
        while (size > 0) {
            freeFirst();
        }
    }

    /** Delivers the oldest of what was kept, as much as fits, and frees the slots. */
    void moveTo(CompletionRecords to) {
        while (to.remaining() > 0 && size > 0) {
            to.addFrom(kept, first);
            freeFirst();
        }
    }

    private void freeFirst() {
        Credit credit = credits[first];
        first = at(1);
        size--;
        if (credit != null) {
            credit.delivered();
        }
    }

    private int at(int index) {
        int at = first + index;
        return at < credits.length ? at : at - credits.length;
    }

    /** Whether one more completion can be kept. */
    boolean hasRoom() {
        return size < credits.length;
    }

    /** Whether plain successes may go to the consumer as they are: nothing is kept before them. */
    boolean takesPlain(CompletionRecords to, int count) {
        return size == 0 && to.remaining() >= count;
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
            int at = at(size++);
            credits[at] = credit;
            kept.set(at, endpoint, context, kind, extra);
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

    // ---- completions that the device will not report

    /** Whether none of them is due, or will be. */
    boolean nothingToSynthesize() {
        return synthesizing.isEmpty();
    }

    /** Has the ledger's synthesized completions delivered, until none of its requests is left. */
    void synthesize(RequestLedger ledger) {
        if (!synthesizing.contains(ledger)) {
            synthesizing.add(ledger);
        }
    }

    /**
     * Delivers the synthesized completions before a request that the provider reports now.
     *
     * @return whether all of them were delivered, and there is room for the request, too
     */
    boolean synthesizeBefore(RequestLedger ledger, int sequence, @Nullable CompletionRecords to) {
        ledger.readAdded();
        while (hasRoom()) {
            if (!ledger.nextSynthesizedBefore(sequence)) {
                return true;
            }
            deliverSynthesized(ledger, to);
        }
        return false;
    }

    /** Delivers the synthesized completions that are due, as far as there is room. */
    void synthesizeDue(@Nullable CompletionRecords to) {
        for (int i = 0; i < synthesizing.size(); i++) {
            RequestLedger ledger = synthesizing.get(i);
            while (hasRoom() && ledger.nextSynthesized()) {
                deliverSynthesized(ledger, to);
            }
            if (ledger.outstanding() == 0) {
                synthesizing.remove(i--);
            }
        }
    }

    private void deliverSynthesized(RequestLedger ledger, @Nullable CompletionRecords to) {
        int sequence = ledger.synthesizedSequence();
        counts.synthesized();
        deliver(
                ledger.endpoint(),
                ledger.silent(sequence) ? null : ledger,
                ledger.context(sequence),
                CompletionRecords.failure(ledger.typeOf(sequence), ledger.synthesizedStatus(), 0),
                0,
                to);
    }

    // ---- queue pairs that a failure has ended

    private void noteFailure(Endpoint endpoint, OperationType type, int status) {
        counts.failure(status);
        endpoint.counts(type).failed(status);
        if (endpoint.failsFirst()) {
            putBack(endpoint);
        }
    }

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
