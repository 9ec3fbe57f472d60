package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * What a poller has counted since it was made: a snapshot from {@link Poller#counters}. Immutable.
 */
@CheckReturnValue
public final class PollerCounters {
    private final int channels;
    private final long completions;
    private final long failed;
    private final long slowRounds;

    PollerCounters(int channels, long completions, long failed, long slowRounds) {
        this.channels = channels;
        this.completions = completions;
        this.failed = failed;
        this.slowRounds = slowRounds;
    }

    /**
     * How many channels it polls for.
     *
     * @return those that are open
     */
    public int channels() {
        return channels;
    }

    /**
     * How many completions it has dispatched, of all its channels.
     *
     * @return completions, of sends and of receives
     */
    public long completions() {
        return completions;
    }

    /**
     * How many completions reported a failure. Each has ended a channel.
     *
     * @return completions, without those that were cancelled
     */
    public long failed() {
        return failed;
    }

    /**
     * How many rounds of handlers and callbacks took longer than {@link Poller#SLOW}.
     *
     * @return 0 while all are quick
     */
    public long slowRounds() {
        return slowRounds;
    }

    @Override
    public String toString() {
        return "%,d channels, %,d completions, %,d failed, %,d slow rounds"
                .formatted(channels, completions, failed, slowRounds);
    }
}
