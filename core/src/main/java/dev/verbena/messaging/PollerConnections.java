package dev.verbena.messaging;

import dev.verbena.Status;
import dev.verbena.internal.util.Members;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * The connections and clients of a {@link Poller}: it looks at their deadlines at each tick, and
 * ends them when it is closed, or when what they share fails. They are added and removed by any
 * thread.
 */
final class PollerConnections {
    private static final long LONGEST_SLEEP = TimeUnit.SECONDS.toNanos(1);

    private final Members<PolledConnection<?>> connections = new Members<>();
    private final Members<MessageClient> clients = new Members<>();

    /** Peers that were accepted, and whose channels are not made yet. */
    final AtomicInteger accepting = new AtomicInteger();

    private volatile boolean closing;

    // Of the polling thread.
    private final Consumer<PolledConnection<?>> tickEach = this::tick; // no iterator
    private final Consumer<MessageClient> tickClient = this::tick;
    private int tick;
    private long tickedAt;
    private boolean awaits; // one of them does, or may since the last tick

    void add(PolledConnection<?> connection) {
        connections.add(connection);
        if (closing) { // it may have been too late for the close to see it
            connection.fail(Status.CANCELLED, "its poller was closed", null);
        }
    }

    void remove(PolledConnection<?> connection) {
        connections.remove(connection);
    }

    void add(MessageClient client) {
        clients.add(client);
    }

    void remove(MessageClient client) {
        clients.remove(client);
    }

    /** How many connections there are, or will be soon. */
    int load() {
        return connections.size() + clients.size() + accepting.get();
    }

    int size() {
        return connections.size();
    }

    int open() {
        return (int) connections.all().stream().filter(PolledConnection::isOpen).count();
    }

    /** Ends those connections that something is wrong with. From any thread. */
    void fail(
            Predicate<PolledConnection<?>> which,
            Status status,
            String why,
            @Nullable Throwable cause) {
        for (PolledConnection<?> connection : connections.all()) {
            if (which.test(connection)) {
                connection.fail(status, why, cause);
            }
        }
    }

    /** Ends all of them, and those that are added from now on. By the polling thread. */
    void close() {
        closing = true;
        clients.all().forEach(MessageClient::pollerCloses);
        fail(connection -> true, Status.CANCELLED, "its poller was closed", null);
        connections.all().forEach(PolledConnection::tearDownAgain);
    }

    /**
     * Looks at deadlines. By the polling thread.
     *
     * @param number of the tick
     * @param now the time
     */
    void tick(int number, long now) {
        tick = number;
        tickedAt = now;
        awaits = clients.size() > 0;
        connections.all().forEach(tickEach);
        clients.all().forEach(tickClient);
    }

    private void tick(PolledConnection<?> connection) {
        connection.tickSafely(tick);
        awaits |= connection.awaits();
    }

    /** The thread has done something else than wait: there may be requests until the next tick. */
    void mayAwait() {
        awaits = true;
    }

    /** How long the thread may sleep: longer than a tick if nothing can be late then. */
    long longestSleep() {
        return awaits ? PollerClock.TICK_NANOSECONDS : LONGEST_SLEEP;
    }

    private void tick(MessageClient client) {
        try {
            client.tick(tickedAt);
        } catch (Throwable t) { // the next tick tries again
            Uncaught.report(t);
        }
    }
}
