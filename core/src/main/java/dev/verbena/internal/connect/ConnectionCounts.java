package dev.verbena.internal.connect;

import dev.verbena.ConnectionCounters;

import java.util.concurrent.atomic.AtomicReference;

/** Counts the connections of one adapter. Takes no lock. */
final class ConnectionCounts {
    static final ConnectionCounters NONE = new ConnectionCounters(0, 0, 0, 0, 0, 0);

    private static final ConnectionCounters CONNECT = new ConnectionCounters(1, 0, 0, 0, 1, 0);
    private static final ConnectionCounters ACCEPT = new ConnectionCounters(0, 1, 0, 0, 1, 0);
    private static final ConnectionCounters FAILURE = new ConnectionCounters(0, 0, 1, 0, 0, 0);
    private static final ConnectionCounters ERROR = new ConnectionCounters(0, 0, 0, 1, -1, 0);
    private static final ConnectionCounters END = new ConnectionCounters(0, 0, 0, 0, -1, 0);
    private static final ConnectionCounters LISTEN = new ConnectionCounters(0, 0, 0, 0, 0, 1);
    private static final ConnectionCounters STOP = new ConnectionCounters(0, 0, 0, 0, 0, -1);

    private final AtomicReference<ConnectionCounters> now = new AtomicReference<>(NONE);

    ConnectionCounters now() {
        return now.get();
    }

    void established(boolean inbound) {
        add(inbound ? ACCEPT : CONNECT);
    }

    void attemptFailed() {
        add(FAILURE);
    }

    void ended(CloseReason reason) {
        add(reason == CloseReason.LOCAL || reason == CloseReason.PEER ? END : ERROR);
    }

    void listening(boolean begun) {
        add(begun ? LISTEN : STOP);
    }

    private void add(ConnectionCounters change) {
        now.accumulateAndGet(
                change,
                (a, b) ->
                        new ConnectionCounters(
                                a.connects() + b.connects(),
                                a.accepts() + b.accepts(),
                                a.connectFailures() + b.connectFailures(),
                                a.connectionErrors() + b.connectionErrors(),
                                a.active() + b.active(),
                                a.listeners() + b.listeners()));
    }
}
