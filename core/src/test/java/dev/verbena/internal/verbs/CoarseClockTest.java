package dev.verbena.internal.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class CoarseClockTest {
    private static final int UNKNOWN = 999;
    private static final long MILLISECOND = 1_000_000;

    @Test
    void itsTimePassesInStepsOfItsResolution() {
        CoarseClock clock = new CoarseClock();
        assertThat(clock.resolution()).isBetween(MILLISECOND / 2, 20 * MILLISECOND);
        long then = clock.getAsLong();
        long now = then;
        while (now == then) {
            now = clock.getAsLong();
        }
        assertThat(now - then).isGreaterThan(clock.resolution() / 2);
    }

    @Test
    void withoutThatClockItIsThePreciseOne() {
        CoarseClock clock = new CoarseClock(UNKNOWN);
        assertThat(clock.resolution()).isZero();
        long before = System.nanoTime();
        long now = clock.getAsLong();
        assertThat(now - before).isBetween(0L, System.nanoTime() - before);
    }
}
