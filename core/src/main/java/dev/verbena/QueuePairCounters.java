package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of a queue pair since it was created: a snapshot from {@link QueuePair#counters}.
 * Immutable.
 */
@CheckReturnValue
public final class QueuePairCounters {
    private final RequestCounters requests;
    private final RequestCounters receives;

    QueuePairCounters(RequestCounters requests, RequestCounters receives) {
        this.requests = requests;
        this.receives = receives;
    }

    /**
     * The counters of its send queue (NDK: initiator queue).
     *
     * @return sends, writes, reads, binds, invalidates, atomics
     */
    public RequestCounters requests() {
        return requests;
    }

    /**
     * The counters of its receives.
     *
     * @return those of its own receive queue, or of the receives that it took from a {@link
     *     SharedReceiveQueue}
     */
    public RequestCounters receives() {
        return receives;
    }

    @Override
    public String toString() {
        return "requests: %s; receives: %s".formatted(requests, receives);
    }
}
