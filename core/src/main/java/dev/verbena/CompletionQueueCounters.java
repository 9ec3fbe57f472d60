package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.CompletionCounts;

/**
 * The counters of a completion queue since it was created: a snapshot from {@link
 * CompletionQueue#counters}. Immutable.
 */
@CheckReturnValue
public final class CompletionQueueCounters {
    private final long delivered;
    private final long failed;
    private final long cancelled;
    private final long synthesized;
    private final long internalSignals;
    private final long kept;
    private final long waits;
    private final long timeouts;

    CompletionQueueCounters(CompletionCounts counts, PollCounts polls) {
        this.cancelled = counts.cancelledEver(); // first: each of these is a failure of that count
        this.failed = counts.failuresEver() - cancelled;
        this.synthesized = counts.synthesizedEver();
        this.internalSignals = counts.internalSignals();
        this.kept = counts.keptEver();
        this.delivered = polls.delivered();
        this.timeouts = polls.timeouts();
        this.waits = polls.waits();
    }

    /**
     * How many completions polls have returned.
     *
     * @return successes, failures and cancelled ones
     */
    public long delivered() {
        return delivered;
    }

    /**
     * How many completions reported a failure: any status but SUCCESS and CANCELLED. Some of them
     * may not be delivered yet.
     *
     * @return completions
     */
    public long failed() {
        return failed;
    }

    /**
     * How many completions reported CANCELLED. Some of them may not be delivered yet.
     *
     * @return completions
     */
    public long cancelled() {
        return cancelled;
    }

    /**
     * How many completions this library made because the device did not: of requests that the
     * provider refused late, of receives posted to a queue pair that had failed, or where the
     * device did not end a request in time. They are among those that failed or were cancelled.
     *
     * @return completions
     */
    public long synthesized() {
        return synthesized;
    }

    /**
     * How many completions this library asked for to free slots of silent requests, and dropped.
     *
     * @return completions that no poll returned
     */
    public long internalSignals() {
        return internalSignals;
    }

    /**
     * How many completions this library polled on its own and kept for the next poll of the
     * program: when a post found its queue full, at an arm, at a close.
     *
     * @return completions
     */
    public long kept() {
        return kept;
    }

    /**
     * How many waits ended: calls of {@link CompletionQueue#await} that returned a status.
     *
     * @return waits, those that timed out among them
     */
    public long waits() {
        return waits;
    }

    /**
     * How many waits returned IO_TIMEOUT.
     *
     * @return waits
     */
    public long timeouts() {
        return timeouts;
    }

    @Override
    public String toString() {
        return "%,d delivered, %,d failed, %,d cancelled, %,d synthesized, %,d internal signals, %,d kept, %,d waits (%,d timeouts)"
                .formatted(
                        delivered,
                        failed,
                        cancelled,
                        synthesized,
                        internalSignals,
                        kept,
                        waits,
                        timeouts);
    }
}
