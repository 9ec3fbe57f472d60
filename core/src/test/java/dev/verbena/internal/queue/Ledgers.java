package dev.verbena.internal.queue;

import static org.junit.jupiter.api.Assertions.assertTrue;

/** Ledgers for tests that add requests without a queue around them, which asks for room first. */
final class Ledgers {
    private Ledgers() {}

    static RequestLedger withRoom(Endpoint endpoint, long queue, int depth, int interval) {
        RequestLedger ledger = empty(endpoint, queue, depth, interval);
        assertTrue(ledger.hasRoom(depth), "an empty ledger is full");
        return ledger;
    }

    static RequestLedger empty(Endpoint endpoint, long queue, int depth, int interval) {
        return new RequestLedger(endpoint, queue, depth, interval, new QueueLock(null));
    }
}
