package dev.verbena.internal.connect;

import dev.verbena.VerbenaException;
import dev.verbena.internal.runtime.Timers;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** A call of NDK's that waits for the peer: its future and its deadline. */
final class ConnectionStep {
    /** A wait for a step of another caller: to fail it ends only the wait. */
    static final class Joined extends CompletableFuture<Void> {}

    // How often a drain is looked at: the interval doubles from one to the other.
    private static final long FIRST_INTERVAL = TimeUnit.MICROSECONDS.toNanos(200);
    private static final long LAST_INTERVAL = TimeUnit.MILLISECONDS.toNanos(20);

    private final Timers timers;
    private final ConnectionStateMachine connection;
    private final CompletableFuture<Void> future = new CompletableFuture<>();
    private final Duration timeout;
    private final long nanoseconds; // the longest that there is where the timeout is longer
    private final long deadline;
    private final Timers.Timer timer;
    private long drainInterval = FIRST_INTERVAL;

    /**
     * Begins a step.
     *
     * @param connection notified by the event thread when the deadline has passed, unless {@link
     *     #cancelDeadline} was called before
     */
    ConnectionStep(Timers timers, Duration timeout, ConnectionStateMachine connection) {
        this.timers = timers;
        this.connection = connection;
        this.timeout = timeout;
        this.nanoseconds = TimeUnit.NANOSECONDS.convert(timeout);
        this.deadline = System.nanoTime() + nanoseconds;
        this.timer = timers.after(nanoseconds, () -> connection.deadline(this));
    }

    CompletableFuture<Void> future() {
        return future;
    }

    Duration timeout() {
        return timeout;
    }

    /**
     * Fires {@link ConnectionTrigger#DRAIN_TIMER} soon, and later each time. Returns false, and
     * does not, when half of the time is over.
     */
    boolean checkDrainLater() {
        if (deadline - System.nanoTime() <= nanoseconds / 2) {
            return false;
        }
        timers.after(drainInterval, () -> connection.signal(ConnectionTrigger.DRAIN_TIMER));
        drainInterval = Math.min(2 * drainInterval, LAST_INTERVAL);
        return true;
    }

    /** Whether the deadline is still to come. */
    boolean hasTimeLeft() {
        return System.nanoTime() - deadline < 0;
    }

    /** Milliseconds until the deadline, for calls that want a limit too. */
    int millisecondsLeft() {
        long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        return Math.clamp(left, 1, Integer.MAX_VALUE);
    }

    /**
     * The future of a further caller that waits for this step.
     *
     * @param late what the future fails with when the caller's own timeout is over
     */
    Joined join(Duration limit, Supplier<VerbenaException> late) {
        Joined joined = new Joined();
        Timers.Timer end =
                timers.after(
                        TimeUnit.NANOSECONDS.convert(limit),
                        () -> joined.completeExceptionally(late.get()));
        var _ = joined.whenComplete((nothing, thrown) -> end.cancel());
        var _ =
                future.whenComplete(
                        (nothing, thrown) -> {
                            if (thrown == null) {
                                joined.complete(null);
                            } else {
                                joined.completeExceptionally(thrown);
                            }
                        });
        return joined;
    }

    void cancelDeadline() {
        timer.cancel();
    }

    /** Completes the future, with a failure if there is one: what depends on it runs now. */
    void complete(@Nullable VerbenaException failure) {
        if (failure == null) {
            future.complete(null);
        } else {
            future.completeExceptionally(failure);
        }
    }
}
