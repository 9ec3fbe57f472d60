package dev.verbena.internal.queue;

import dev.verbena.internal.util.IntMap;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.BitSet;

/**
 * The queues that report to one completion queue: by slot, which a request's {@link WorkId}
 * carries, and by queue pair number for receives of shared receive queues. A slot's generation
 * grows with each use, so a completion that a closed queue pair left behind is not taken for its
 * successor's.
 *
 * <p>Guarded by the completion queue's lock.
 */
final class QueueRegistry {
    private @Nullable RequestLedger[] ledgers = new RequestLedger[8];
    private int[] generations = new int[8];
    private final BitSet taken = new BitSet(); // slots: 64 are looked at in one step
    private final IntMap<Endpoint> sharing = new IntMap<>(4);

    /**
     * Takes a slot. Until {@link #enter}, completions of it are dropped.
     *
     * @return what {@link WorkId#queue} returned, or {@link CompletionPoller#NO_SLOT} when all are
     *     taken
     */
    long reserve(boolean receive) {
        int slot = taken.nextClearBit(0);
        if (slot == WorkId.SLOTS) {
            return CompletionPoller.NO_SLOT;
        }
        if (slot >= generations.length) { // first all that takes memory: there may be none
            int[] moreGenerations = Arrays.copyOf(generations, 2 * slot);
            ledgers = Arrays.copyOf(ledgers, 2 * slot);
            generations = moreGenerations;
        }
        taken.set(slot);
        return WorkId.queue(slot, ++generations[slot], receive);
    }

    /** How many slots there are now, taken or not. */
    int capacity() {
        return ledgers.length;
    }

    void enter(RequestLedger ledger) {
        ledgers[WorkId.slot(ledger.queue())] = ledger;
    }

    /** Gives a slot back. */
    void release(long queue) {
        int slot = WorkId.slot(queue);
        ledgers[slot] = null;
        taken.clear(slot);
    }

    /** Whether a queue has outstanding requests that are no receives. */
    boolean sendsOutstanding() {
        for (RequestLedger ledger : ledgers) {
            if (ledger != null && !WorkId.isReceive(ledger.queue()) && ledger.outstanding() > 0) {
                return true;
            }
        }
        return false;
    }

    /** The ledger that a request's id names, or null when its queue pair is gone. */
    @Nullable RequestLedger find(long id) {
        RequestLedger ledger = ledgers[WorkId.slot(id)];
        return ledger != null && WorkId.belongsTo(id, ledger.queue()) ? ledger : null;
    }

    /** Adds a queue pair that takes receives from a shared queue. */
    void share(int queuePairNumber, Endpoint endpoint) {
        sharing.put(queuePairNumber, endpoint);
    }

    /** Removes it, unless its number is another's by now. */
    @SuppressWarnings("ReferenceEquality") // the queue pair that is meant, or a later one
    void unshare(int queuePairNumber, Endpoint endpoint) {
        if (sharing.get(queuePairNumber) == endpoint) {
            var _ = sharing.remove(queuePairNumber);
        }
    }

    /** The queue pair that used up a shared receive, or null when it is gone. */
    @Nullable Endpoint sharing(int queuePairNumber) {
        return sharing.get(queuePairNumber);
    }
}
