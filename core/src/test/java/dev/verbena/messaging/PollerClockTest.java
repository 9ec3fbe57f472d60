package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

import java.time.Duration;

/** When a poller reads its clock, and when it looks at deadlines. */
class PollerClockTest {
    private static final long TICK = PollerClock.TICK_NANOSECONDS;

    private long time = Long.MAX_VALUE - TICK / 2; // the clock of a JVM may wrap around
    private int reads;
    private final PollerClock clock =
            new PollerClock(
                    () -> {
                        reads++;
                        return time;
                    });

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

    @Test
    void theEndOfWorkIsTheBeginOfTheNext() {
        long began = clock.workBegins();
        time += 5;
        assertThat(clock.workEnds() - began).isEqualTo(5);
        assertThat(clock.isAtEndOfWork()).isTrue();
        int before = reads;
        assertThat(clock.workBegins()).isEqualTo(clock.lastWork());
        assertThat(reads).as("no read of the clock").isEqualTo(before);
        clock.timePassed();
        time += 3;
        assertThat(clock.workBegins()).isEqualTo(time);
        assertThat(reads).isEqualTo(before + 1);
    }

    @Test
    void whatATickTakesIsNotPartOfTheNextWork() {
        clock.workEnds();
        clock.tick(clock.now());
        time += 5;
        assertThat(clock.workBegins()).isEqualTo(time);
    }

    @Test
    void pollsThatFindNothingReadItSeldom() {
        int due = 0;
        for (int i = 0; i < 640; i++) {
            due += clock.isToBeRead() ? 1 : 0;
        }
        assertThat(due).isEqualTo(10);
    }

    @Test
    void aTimeHasAtLeastOneTickAndIsRoundedUp() {
        assertThat(PollerClock.ticks(Duration.ofNanos(1))).isOne();
        assertThat(PollerClock.ticks(Duration.ofMillis(100))).isOne();
        assertThat(PollerClock.ticks(Duration.ofMillis(101))).isEqualTo(2);
        assertThat(PollerClock.ticks(Duration.ofDays(100_000))).isPositive();
    }
}
