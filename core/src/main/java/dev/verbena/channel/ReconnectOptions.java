package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Status;
import dev.verbena.internal.text.Text;

import java.time.Duration;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.random.RandomGenerator;

/**
 * When a {@link ChannelClient} connects again, and when it gives up. Start from {@link #DEFAULTS}
 * and change what differs: {@code DEFAULTS.withPauses(Duration.ofMillis(50),
 * Duration.ofSeconds(2)).withAttempts(20)}.
 *
 * <p>Immutable.
 */
@CheckReturnValue
public final class ReconnectOptions {
    /** In case of doubt. */
    private static final int MOST_DOUBLINGS = 40;

    /**
     * Pauses of 100 ms to 10 s, attempts without end, and an end where another attempt cannot
     * succeed: NOT_SUPPORTED (the peer is no channel of this version), INVALID_PARAMETER,
     * INVALID_PARAMETER_MIX, INVALID_BUFFER_SIZE, IMPLEMENTATION_LIMIT, DEVICE_REMOVED.
     */
    public static final ReconnectOptions DEFAULTS =
            new ReconnectOptions(
                    Duration.ofMillis(100),
                    Duration.ofSeconds(10),
                    Integer.MAX_VALUE,
                    EnumSet.of(
                            Status.NOT_SUPPORTED,
                            Status.INVALID_PARAMETER,
                            Status.INVALID_PARAMETER_MIX,
                            Status.INVALID_BUFFER_SIZE,
                            Status.IMPLEMENTATION_LIMIT,
                            Status.DEVICE_REMOVED));

    private final Duration firstPause;
    private final Duration longestPause;
    private final int attempts;
    private final Set<Status> last;

    private ReconnectOptions(
            Duration firstPause, Duration longestPause, int attempts, Set<Status> last) {
        this.firstPause = firstPause;
        this.longestPause = longestPause;
        this.attempts = attempts;
        this.last = Collections.unmodifiableSet(last);
    }

    /**
     * Changes the pauses before attempts. The pause doubles from the first to the longest, with
     * each attempt that fails and each channel that ends sooner than after the longest pause. Of
     * each pause, between half and all is waited, at random, so that the clients of a server that
     * has ended do not come back all at once.
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
        return new ReconnectOptions(first, longest, attempts, last);
    }

    /**
     * Changes how many attempts in a row may fail until the client gives up. Without this it never
     * does for their number.
     *
     * @param count 1 or more
     * @return a changed copy of these options
     */
    public ReconnectOptions withAttempts(int count) {
        if (count < 1) {
            throw new IllegalArgumentException(
                    "A client makes at least one attempt, not %,d".formatted(count));
        }
        return new ReconnectOptions(firstPause, longestPause, count, last);
    }

    /**
     * Changes which statuses end the client for good, instead of those of {@link #DEFAULTS}: of an
     * attempt that failed, or of a channel that ended.
     *
     * @param statuses such as CONNECTION_REFUSED, where a server that does not run or has no room
     *     is not to be waited for; none is allowed
     * @return a changed copy of these options
     */
    public ReconnectOptions withLastStatuses(Status... statuses) {
        Set<Status> set = EnumSet.noneOf(Status.class);
        set.addAll(List.of(statuses));
        return new ReconnectOptions(firstPause, longestPause, attempts, set);
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
     * How long to wait before the next attempt.
     *
     * @param doublings how many attempts have failed before
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
                                ? "attempts without end"
                                : Text.count(attempts, "attempt"),
                        last.stream().map(Status::name).toList());
    }
}
