package dev.verbena.messaging;

import dev.verbena.Adapter;
import dev.verbena.CompletionChannel;
import dev.verbena.CompletionQueue;
import dev.verbena.CompletionQueueCounters;
import dev.verbena.CompletionQueueOptions;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

/**
 * The completion queues of a {@link Poller}: as many as its connections need. Connections reserve
 * room for all of their completions, so that no queue overflows.
 */
final class PollerQueues implements AutoCloseable {
    private static final int DEPTH = 4096; // at least

    private final Adapter adapter;
    private final CompletionChannel events;
    private final boolean confined;
    private volatile PollerQueue[] queues = {}; // copied on change: polls need no iterator

    PollerQueues(Adapter adapter, CompletionChannel events, boolean confined) {
        this.adapter = adapter;
        this.events = events;
        this.confined = confined;
    }

    /** All queues. The array must not be changed. */
    PollerQueue[] all() {
        return queues;
    }

    /** Reserves room for completions in a queue, and creates a new queue if all are full. */
    synchronized PollerQueue reserve(int completions) {
        for (PollerQueue queue : queues) {
            if (queue.reserve(completions)) {
                return queue;
            }
        }
        CompletionQueueOptions options =
                CompletionQueueOptions.depth(depthOfNext(completions)).channel(events);
        PollerQueue made =
                new PollerQueue(
                        adapter.createCompletionQueue(confined ? options.confined() : options));
        if (!made.reserve(completions)) {
            throw new AssertionError("A new queue has room for what it was made for");
        }
        PollerQueue[] changed = Arrays.copyOf(queues, queues.length + 1);
        changed[queues.length] = made;
        queues = changed;
        return made;
    }

    /** As deep as all others together: ten thousand connections need few, and each is polled. */
    private int depthOfNext(int completions) {
        int most = adapter.info().maxCompletionQueueDepth();
        int all = 0;
        for (PollerQueue queue : queues) {
            all += queue.queue().depth();
        }
        return Math.max(Math.min(Math.max(DEPTH, all), most), completions);
    }

    synchronized void release(PollerQueue queue, int completions) {
        queue.release(completions);
    }

    /**
     * Arms the queues that are not armed.
     *
     * @return whether there is something to poll
     */
    boolean arm() {
        boolean fired = false;
        for (PollerQueue queue : queues) {
            fired |= queue.arm();
        }
        return fired;
    }

    /**
     * Notes which queue has fired, if any. If others have fired as well, they end the next wait.
     */
    void fired(@Nullable CompletionQueue which) {
        for (PollerQueue queue : queues) {
            queue.fired(which);
        }
    }

    PollerCounters counters(int channels, long slowRounds) {
        long completions = 0;
        long failed = 0;
        for (PollerQueue queue : queues) {
            CompletionQueueCounters counters = queue.queue().counters();
            completions += counters.delivered();
            failed += counters.failed();
        }
        return new PollerCounters(channels, completions, failed, slowRounds);
    }

    @Override
    public void close() {
        Throwable failure = null;
        for (PollerQueue queue : queues) {
            try {
                queue.queue().close();
            } catch (RuntimeException | Error e) { // the rest is closed all the same
                failure = e;
            }
        }
        if (failure != null) {
            throw new MessagingException(
                    Status.INTERNAL_ERROR, "A completion queue could not be closed", failure);
        }
    }
}
