package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;

/**
 * The completions that the device will not report, so this library does: of requests that the
 * provider refused after their posts had returned SUCCESS, of receives posted to a queue pair in
 * the error state, and of whatever a device does not end before a close. The requests are marked in
 * their {@link RequestLedger}; this class knows which ledgers have such requests, and delivers each
 * completion when all before it in its queue have ended.
 *
 * <p>Guarded by the completion queue's lock.
 */
final class Synthesis {
    private final Delivery delivery;
    private final ArrayList<RequestLedger> ledgers = new ArrayList<>(); // read by each long poll

    Synthesis(Delivery delivery) {
        this.delivery = delivery;
    }

    /** Makes room for so many ledgers, so that {@link #add} needs no memory. */
    void ensureCapacity(int queues) {
        ledgers.ensureCapacity(ledgers.size() + queues);
    }

    boolean isEmpty() {
        return ledgers.isEmpty();
    }

    /** Has the ledger's synthesized completions delivered, until none of its requests is left. */
    void add(RequestLedger ledger) {
        if (!ledgers.contains(ledger)) {
            ledgers.add(ledger);
        }
    }

    /**
     * Delivers what comes before a request that the provider reports now.
     *
     * @return whether all of it was delivered, and there is room for the request, too
     */
    boolean deliverBefore(RequestLedger ledger, int sequence, @Nullable CompletionRecords to) {
        ledger.readAdded();
        while (delivery.hasRoom()) {
            if (!ledger.nextSynthesizedBefore(sequence)) {
                return true;
            }
            deliver(ledger, to);
        }
        return false;
    }

    /** Delivers what is due, as far as there is room. */
    void deliverDue(@Nullable CompletionRecords to) {
        for (int i = 0; i < ledgers.size(); i++) {
            RequestLedger ledger = ledgers.get(i);
            while (delivery.hasRoom() && ledger.nextSynthesized()) {
                deliver(ledger, to);
            }
            if (ledger.outstanding() == 0) {
                ledgers.remove(i--);
            }
        }
    }

    private void deliver(RequestLedger ledger, @Nullable CompletionRecords to) {
        int sequence = ledger.synthesizedSequence();
        delivery.synthesized();
        delivery.deliver(
                ledger.endpoint(),
                ledger.silent(sequence) ? null : ledger,
                ledger.context(sequence),
                CompletionRecords.failure(ledger.typeOf(sequence), ledger.synthesizedStatus(), 0),
                0,
                to);
    }
}
