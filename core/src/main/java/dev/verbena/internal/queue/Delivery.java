package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;

/**
 * What the completions of one completion queue say, and where they go: to the consumer's records
 * when the consumer polls, otherwise into a list until it does ({@link KeptCompletion}). Also keeps
 * the queue pairs that a failure has ended until they can be notified, when no lock is held.
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
    private @Nullable KeptCompletion first; // of those that are kept
    private @Nullable KeptCompletion last;
    private final ArrayList<RequestLedger> synthesizing = new ArrayList<>(); // read by long polls
    private final ArrayList<Endpoint> failed = new ArrayList<>();

    /** Keeps nothing yet. */
    Delivery(Provider provider, CompletionCounts counts) {
        this.provider = provider;
        this.counts = counts;
    }

    /** Makes room for this many more queues, so that nothing here needs memory for them later. */
    void ensureCapacity(int queues) {
        synthesizing.ensureCapacity(synthesizing.size() + queues);
        failed.ensureCapacity(failed.size() + queues);
    }

    /** Whether nothing is kept for the consumer. */
    boolean isEmpty() {
        return first == null;
    }

    /** Drops what was kept, and frees the slots: nobody will ask for it. */
    void forget() {
        for (KeptCompletion kept = first; kept != null; kept = first) {
            first = kept.next;
            kept.drop();
        }
        last = null;
    }

    /** Delivers the oldest of what was kept, as much as fits, and frees the slots. */
    void moveTo(CompletionRecords to) {
        for (KeptCompletion kept = first; kept != null && to.remaining() > 0; kept = first) {
            first = kept.next;
            kept.moveTo(to);
        }
        if (first == null) {
            last = null;
        }
    }

    /** Whether plain successes may go to the consumer as they are: nothing is kept before them. */
    boolean takesPlain(CompletionRecords to, int count) {
        return first == null && to.remaining() >= count;
    }

    /**
     * Delivers or keeps a completion that the provider reported.
     *
     * @param type the request's type; a receive's completion may be of another
     */
    void deliver(
            WorkCompletions raw,
            int index,
            Endpoint endpoint,
            Credit credit,
            OperationType type,
            long context,
            @Nullable CompletionRecords to) {
        int status = raw.status(index);
        long kind;
        int tokenOrImmediate = 0;
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
                tokenOrImmediate = raw.invalidatedToken(index);
                endpoint.windows().invalidated(tokenOrImmediate);
            } else {
                boolean immediate = raw.hasImmediate(index);
                boolean write = raw.isWriteWithImmediate(index);
                kind =
                        CompletionRecords.success(
                                write ? OperationType.RECEIVE_OF_WRITE : type, bytes, immediate);
                tokenOrImmediate = immediate ? raw.immediate(index) : 0;
            }
        }
        deliver(endpoint, credit, context, kind, tokenOrImmediate, to);
    }

    /**
     * Delivers or keeps a completion.
     *
     * @param kind the second word of its record
     */
    void deliver(
            Endpoint endpoint,
            Credit credit,
            long context,
            long kind,
            int tokenOrImmediate,
            @Nullable CompletionRecords to) {
        OperationType type = CompletionRecords.typeOf(kind);
        int status = CompletionRecords.statusOf(kind);
        if (status != WorkCompletions.SUCCESS) {
            noteFailure(endpoint, type, status);
        }
        if (to != null && takesPlain(to, 1)) {
            credit.delivered();
            to.add(endpoint, context, kind, tokenOrImmediate);
        } else {
            KeptCompletion kept = credit.keep();
            kept.put(endpoint, context, kind, tokenOrImmediate);
            if (first == null || last == null) {
                first = kept;
            } else {
                last.next = kept;
            }
            last = kept;
            counts.kept();
        }
        try {
            if (status != WorkCompletions.SUCCESS) {
                int vendorError = CompletionRecords.vendorErrorOf(kind);
                endpoint.requestFailed(type, context, status, vendorError);
            } else if (type == OperationType.RECEIVE_AND_INVALIDATE) {
                endpoint.tokenInvalidated(tokenOrImmediate);
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

    /** Delivers the synthesized completions before a request that the provider reports now. */
    void synthesizeBefore(RequestLedger ledger, int sequence, @Nullable CompletionRecords to) {
        ledger.readAdded();
        while (ledger.nextSynthesizedBefore(sequence)) {
            deliverSynthesized(ledger, to);
        }
    }

    void synthesizeDue(@Nullable CompletionRecords to) {
        for (int i = 0; i < synthesizing.size(); i++) {
            RequestLedger ledger = synthesizing.get(i);
            while (ledger.nextSynthesized()) {
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
                ledger,
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
