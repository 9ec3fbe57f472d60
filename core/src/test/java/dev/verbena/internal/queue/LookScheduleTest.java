package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** When to look for failures: by a clock that only the test moves. */
class LookScheduleTest {
    private static final long MILLISECOND = 1_000_000;

    private long now = Long.MAX_VALUE - 50 * MILLISECOND; // which wraps on the way
    private int looks;
    private final SoftRoceQuirks.LookSchedule schedule = new SoftRoceQuirks.LookSchedule(() -> now);

    private void after(long nanoseconds) {
        now += nanoseconds;
        schedule.look(() -> looks++);
    }

    @Test
    void looksEverLessOften() {
        int looked = 0;
        for (int gap : new int[] {20, 40, 80, 160, 320, 640, 1280, 1280, 1280}) {
            after(gap * MILLISECOND - 1);
            assertThat(looks).as("before %d ms are over", gap).isEqualTo(looked);
            after(1);
            looked++;
            assertThat(looks).as("after %d ms", gap).isEqualTo(looked);
        }
    }

    @Test
    void anEventPutsTheLookOffAndHasItComeSoon() {
        after(20 * MILLISECOND);
        after(40 * MILLISECOND);
        assertThat(looks).isEqualTo(2);
        now += 79 * MILLISECOND;
        schedule.trafficSeen(() -> looks++);
        after(20 * MILLISECOND - 1);
        assertThat(looks).isEqualTo(2);
        after(1);
        assertThat(looks).isEqualTo(3);
    }

    /** One queue pair works; another may have failed. */
    @Test
    void whileEventsComeItLooksAsSeldomAsAtLast() {
        for (int i = 0; i < 1279; i++) {
            now += MILLISECOND;
            schedule.trafficSeen(() -> looks++);
        }
        assertThat(looks).isZero();
        for (int i = 0; i < 3 * 1280; i++) {
            now += MILLISECOND;
            schedule.trafficSeen(() -> looks++);
        }
        assertThat(looks).isEqualTo(3);
        after(20 * MILLISECOND);
        assertThat(looks).isEqualTo(4);
    }
}
