package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Status;
import dev.verbena.internal.util.OptionValues;
import dev.verbena.internal.util.Text;

import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.random.RandomGenerator;

/**
 * When a {@link MessageClient} connects again, and when it gives up. Start from {@link #DEFAULTS}
 * and change what differs: {@code DEFAULTS.withPauses(Duration.ofMillis(50),
 * Duration.ofSeconds(2)).withAttempts(20)}.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class ReconnectOptions extends OptionValues<ReconnectOptions> {
    private static final int MOST_DOUBLINGS = 40; // a shift that cannot overflow

    /**
     * Pauses of 100 ms to 10 s, no limit on attempts, and no further attempt after a status that
     * another attempt cannot change: NOT_SUPPORTED (the peer is no channel of this version),
     * INVALID_PARAMETER, INVALID_PARAMETER_MIX, INVALID_BUFFER_SIZE, IMPLEMENTATION_LIMIT,
     * DEVICE_REMOVED.
     */
    public static final ReconnectOptions DEFAULTS = new ReconnectOptions();

    private Duration firstPause = Duration.ofMillis(100);
    private Duration longestPause = Duration.ofSeconds(10);
    private int attempts = Integer.MAX_VALUE;
    private Set<Status> last =
            EnumSet.of(
                    Status.NOT_SUPPORTED,
                    Status.INVALID_PARAMETER,
                    Status.INVALID_PARAMETER_MIX,
                    Status.INVALID_BUFFER_SIZE,
                    Status.IMPLEMENTATION_LIMIT,
                    Status.DEVICE_REMOVED);

    private ReconnectOptions() {
        super(o -> List.of(o.firstPause, o.longestPause, o.attempts, o.last));
    }

    /**
     * Changes the pauses before attempts. The pause doubles from the first to the longest, with
     * each attempt that fails and each channel that ends before the longest pause has passed. The
     * client waits for a random part of each pause, at least half of it, so that the clients of a
     * server that stopped do not all reconnect at once.
     *
     * @param first the first pause, longer than zero
     * @param longest the longest pause, no shorter than the first and up to a day
     * @return a changed copy of these options
     */
    public ReconnectOptions withPauses(Duration first, Duration longest) {
        if (!first.isPositive()
                || longest.compareTo(first) < 0
                || longest.compareTo(Duration.ofDays(1)) > 0) {
            throw new IllegalArgumentException(
                    "The first pause must be longer than zero, the longest no shorter than the first and at most a day: these are %s and %s"
                            .formatted(Text.time(first), Text.time(longest)));
        }
        return with(
                changed -> {
                    changed.firstPause = first;
                    changed.longestPause = longest;
                });
    }

    /**
     * Changes how many attempts in a row may fail before the client gives up. There is no limit by
     * default.
     *
     * @param count 1 or more
     * @return a changed copy of these options
     */
    public ReconnectOptions withAttempts(int count) {
        if (count < 1) {
            throw new IllegalArgumentException(
                    "A client makes at least one attempt, not %,d".formatted(count));
        }
        return with(changed -> changed.attempts = count);
    }

    /**
     * Changes which statuses, of a failed attempt or of a channel that ended, end the client for
     * good. They replace those of {@link #DEFAULTS}.
     *
     * @param statuses such as CONNECTION_REFUSED, if the client should not wait for a server that
     *     is not running or has no room; may be empty
     * @return a changed copy of these options
     */
    public ReconnectOptions withLastStatuses(Status... statuses) {
        Set<Status> set = EnumSet.noneOf(Status.class);
        set.addAll(List.of(statuses));
        return with(changed -> changed.last = set);
    }

    boolean isLast(Status status) {
        return last.contains(status);
    }

    int attempts() {
        return attempts;
    }

    long longestPauseNanoseconds() {
        return longestPause.toNanos();
    }

    /**
     * Chooses how long to wait before the next attempt.
     *
     * @param doublings how many attempts failed before
     */
    long pauseNanoseconds(int doublings, RandomGenerator random) {
        long first = firstPause.toNanos();
        long longest = longestPause.toNanos();
        int shift = Math.min(doublings, MOST_DOUBLINGS);
        long whole = first > longest >> shift ? longest : first << shift;
        return whole - random.nextLong(whole / 2 + 1);
    }

    @Override
    public String toString() {
        return "ReconnectOptions(pauses of %s to %s, %s, ended by %s)"
                .formatted(
                        Text.time(firstPause),
                        Text.time(longestPause),
                        attempts == Integer.MAX_VALUE
                                ? "unlimited attempts"
                                : Text.count(attempts, "attempt"),
                        last.stream().map(Status::name).toList());
    }
}
