package dev.verbena.internal.queue;

import static org.junit.jupiter.api.Assertions.assertFalse;

/** Ledgers for tests that add requests without a queue around them, which asks for room first. */
final class Ledgers {
    private Ledgers() {}

    static RequestLedger withRoom(Endpoint endpoint, long queue, int depth, int interval) {
        RequestLedger ledger = new RequestLedger(endpoint, queue, depth, interval);
        assertFalse(ledger.full(), "an empty ledger is full");
        return ledger;
    }
}
