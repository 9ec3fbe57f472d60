package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Adapter;
import dev.verbena.ProtectionDomain;
import dev.verbena.internal.util.Arguments;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Pollers that share the channels of a server or of many clients, so that message rates add up with
 * processors. Each has a thread and completion queues of its own; they share one protection domain.
 * A channel stays with its poller until it ends.
 *
 * <p>The handlers and callbacks of one channel run on the thread of its poller, one at a time.
 * Those of channels of different pollers run at the same time: a {@link MessageHandler} or callback
 * that many channels share must be prepared for that.
 *
 * <p>Channels may be used from any thread, so their queues take a lock, for which pollers do not
 * compete. Where even an uncontended lock matters, let each thread have a poller of {@link
 * Poller#onThisThread} and channels of its own.
 */
public final class PollerGroup implements Pollers {
    private final ProtectionDomain domain;
    private final List<Poller> pollers;
    private final AtomicInteger turn = new AtomicInteger();

    private PollerGroup(ProtectionDomain domain, List<Poller> pollers) {
        this.domain = domain;
        this.pollers = List.copyOf(pollers);
    }

    /**
     * Starts pollers, each with a thread of its own.
     *
     * @param adapter the device
     * @param count how many pollers, at least 1; with {@link IdleStrategy#busySpin} no more than
     *     there are processors for them
     * @param idle what each thread does while there is nothing to poll
     * @return the group, to be closed by the caller
     * @throws dev.verbena.VerbenaException if a poller cannot be created; those before it are
     *     closed
     */
    @CheckReturnValue
    public static PollerGroup start(Adapter adapter, int count, IdleStrategy idle) {
        if (count < 1) {
            throw new IllegalArgumentException("A group has 1 or more pollers, not " + count);
        }
        ProtectionDomain domain = Arguments.notNull(adapter, "adapter").createProtectionDomain();
        List<Poller> started = new ArrayList<>(count);
        try {
            for (int i = 0; i < count; i++) {
                Poller poller = new Poller(adapter, domain, idle, null, new PollerClock());
                started.add(poller);
                poller.thread.setName(poller.thread.getName() + "-" + i);
            }
            return new PollerGroup(domain, started);
        } catch (Throwable t) {
            PollerGroup begun = new PollerGroup(domain, started);
            try (begun) { // closes them, whatever else fails
                throw t;
            }
        }
    }

    @Override
    @CheckReturnValue
    public Adapter adapter() {
        return domain.adapter();
    }

    @Override
    @CheckReturnValue
    public ProtectionDomain domain() {
        return domain;
    }

    /** {@inheritDoc} Those that have the same number take turns. */
    @Override
    @CheckReturnValue
    public Poller next() {
        int first = Math.floorMod(turn.getAndIncrement(), pollers.size());
        Poller least = pollers.get(first);
        for (int i = 1; i < pollers.size(); i++) {
            Poller other = pollers.get((first + i) % pollers.size());
            if (other.connections().load() < least.connections().load()) {
                least = other;
            }
        }
        return least;
    }

    @Override
    @CheckReturnValue
    public List<Poller> all() {
        return pollers;
    }

    @Override
    @CheckReturnValue
    public PollerCounters counters() {
        return pollers.stream().map(Poller::counters).reduce(PollerCounters::plus).orElseThrow();
    }

    /**
     * Closes its pollers one after the other, as {@link Poller#close} does. If one fails, the
     * others are closed all the same.
     *
     * @throws MessagingException IO_TIMEOUT when a thread is still busy after 10 s: a handler does
     *     not return
     * @throws IllegalStateException in a handler or callback of one of them: then none is closed
     */
    @Override
    public void close() {
        pollers.forEach(Poller::checkMayWait);
        try (domain) { // last
            close(pollers);
        }
    }

    private static void close(List<Poller> left) {
        if (!left.isEmpty()) {
            Poller last = left.getLast();
            try (last) { // after those before it, whatever they throw
                close(left.subList(0, left.size() - 1));
            }
        }
    }

    @Override
    public String toString() {
        return "PollerGroup of %,d: %s".formatted(pollers.size(), pollers.getFirst());
    }
}
