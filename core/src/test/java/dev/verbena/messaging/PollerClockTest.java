package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.time.Duration;

/** What a poller measures, and when it looks at deadlines. */
class PollerClockTest {
    private static final long TICK = PollerClock.TICK_NANOSECONDS;

    private long time = Long.MAX_VALUE - TICK / 2; // the clock of a JVM may wrap around
    private final PollerClock clock = new PollerClock(() -> time);

    @Test
    void aTickIsDueAfterItsTimeAndCountsAllThatPassed() {
        assertThat(clock.isTickDue(clock.now())).isFalse();
        time += TICK;
        assertThat(clock.isTickDue(clock.now())).isTrue();
        assertThat(clock.isTickLate(clock.now())).isFalse();
        clock.tick(clock.now());
        assertThat(clock.tick()).isOne();
        assertThat(clock.isTickDue(clock.now())).isFalse();
        time += 7 * TICK + 1;
        assertThat(clock.isTickLate(clock.now())).isTrue();
        clock.tick(clock.now());
        assertThat(clock.tick()).isEqualTo(8);
        assertThat(clock.isTickDue(clock.now())).as("once for all that passed").isFalse();
    }

    /** Otherwise a round of a microsecond during which the kernel's clock ticks would be slow. */
    @Test
    void noMoreTimeHasPassedThanIsCertain() {
        PollerClock kernels = new PollerClock();
        for (int i = 0; i < 10; i++) {
            long before = kernels.precise();
            long then = kernels.now();
            long passed;
            do {
                passed = kernels.since(then);
                assertThat(passed).isLessThanOrEqualTo(kernels.precise() - before);
            } while (passed <= 0);
        }
    }

    @Test
    void aTimeHasAtLeastOneTickAndIsRoundedUp() {
        assertThat(PollerClock.ticks(Duration.ofNanos(1))).isOne();
        assertThat(PollerClock.ticks(Duration.ofMillis(100))).isOne();
        assertThat(PollerClock.ticks(Duration.ofMillis(101))).isEqualTo(2);
        assertThat(PollerClock.ticks(Duration.ofDays(100_000))).isPositive();
    }
}
