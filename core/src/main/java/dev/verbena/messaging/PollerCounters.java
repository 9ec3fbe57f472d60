package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of a poller since it was created, or the sums of a group: a snapshot from {@link
 * Pollers#counters}.
 *
 * @param channels how many open channels it polls for
 * @param completions how many completions of sends and receives it dispatched, over all its
 *     channels
 * @param failed how many completions reported a failure; each ended a channel. Cancelled
 *     completions are not included
 * @param slowRounds how many rounds of handlers and callbacks took longer than {@link Poller#SLOW}
 */
@CheckReturnValue
public record PollerCounters(int channels, long completions, long failed, long slowRounds) {
    PollerCounters plus(PollerCounters other) {
        return new PollerCounters(
                channels + other.channels,
                completions + other.completions,
                failed + other.failed,
                slowRounds + other.slowRounds);
    }
}
