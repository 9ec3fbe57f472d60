package dev.verbena.messaging;

import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Text;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * What the thread of a {@link Poller} does while there is nothing to poll: the choice between the
 * time until it sees the next completion, and the processor time that it takes meanwhile.
 */
public final class IdleStrategy {
    private static final IdleStrategy BUSY_SPIN = new IdleStrategy(Long.MAX_VALUE);
    private static final IdleStrategy EVENTS = new IdleStrategy(0);

    private final long spinNanoseconds;

    private IdleStrategy(long spinNanoseconds) {
        this.spinNanoseconds = spinNanoseconds;
    }

    /**
     * Polls without a pause: the least latency, and a processor that does nothing else.
     *
     * @return the strategy
     */
    public static IdleStrategy busySpin() {
        return BUSY_SPIN;
    }

    /**
     * Polls for some time after the last completion, then sleeps until an event of the device.
     *
     * @param spin how long to poll, for example 50 microseconds
     * @return the strategy
     */
    public static IdleStrategy spinThenWait(Duration spin) {
        if (Arguments.notNull(spin, "spin").isNegative()) {
            throw new IllegalArgumentException(
                    "A poller spins for 0 or longer, not " + Text.time(spin));
        }
        return new IdleStrategy(TimeUnit.NANOSECONDS.convert(spin));
    }

    /**
     * Sleeps whenever there is nothing to poll: the least processor time, and a system call and a
     * wake-up for each burst of messages.
     *
     * @return the strategy
     */
    public static IdleStrategy events() {
        return EVENTS;
    }

    boolean sleepsAfter(long idleNanoseconds) {
        return idleNanoseconds >= spinNanoseconds;
    }

    boolean alwaysSpins() {
        return spinNanoseconds == Long.MAX_VALUE;
    }

    boolean sleepsAtOnce() {
        return spinNanoseconds == 0;
    }

    @Override
    public String toString() {
        return alwaysSpins()
                ? "IdleStrategy(busy spin)"
                : "IdleStrategy(spin for %s, then wait)"
                        .formatted(Text.time(Duration.ofNanos(spinNanoseconds)));
    }
}
