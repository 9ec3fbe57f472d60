package dev.verbena.internal.runtime;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What is to be done at some time. */
class TimersTest {
    private final AtomicInteger woken = new AtomicInteger();
    private final Timers timers = new Timers(woken::incrementAndGet);
    private final List<String> done = new ArrayList<>();

    @Test
    void wakesForTheFirstOnly() {
        assertThat(timers.sleepMillis()).isEqualTo(-1);
        timers.after(TimeUnit.HOURS.toNanos(1), () -> done.add("late"));
        timers.after(TimeUnit.HOURS.toNanos(2), () -> done.add("later"));
        assertThat(woken).hasValue(1);
        timers.after(0, () -> done.add("now"));
        assertThat(woken).hasValue(2);
        timers.run();
        assertThat(done).containsExactly("now");
        assertThat(timers.sleepMillis()).isBetween(3_500_000, 3_600_001);
    }

    @Test
    void staysWithAMomentThatWasCalledOff() {
        timers.after(TimeUnit.HOURS.toNanos(1), () -> done.add("off")).cancel();
        assertThat(timers.sleepMillis()).isBetween(3_500_000, 3_600_001);
        timers.after(TimeUnit.HOURS.toNanos(2), () -> done.add("later"));
        assertThat(woken).hasValue(1);
        assertThat(timers.sleepMillis()).isBetween(7_100_000, 7_200_001);
        timers.after(TimeUnit.HOURS.toNanos(1), () -> done.add("sooner"));
        assertThat(woken).hasValue(2);
    }

    @Test
    void forEverHidesNothing() {
        timers.after(0, () -> done.add("overdue"));
        assertThat(timers.sleepMillis()).isZero();
        timers.after(Long.MAX_VALUE, () -> done.add("for ever"));
        assertThat(timers.sleepMillis()).isZero();
        timers.run();
        assertThat(done).containsExactly("overdue");
    }

    /** It may be a check that could not add its next run. */
    @Test
    void whatFindsNoMemoryIsDoneLater() {
        AtomicInteger runs = new AtomicInteger();
        timers.after(
                0,
                () -> {
                    if (runs.incrementAndGet() == 1) {
                        throw new OutOfMemoryError("Java heap space");
                    }
                    done.add("done");
                });
        assertThatThrownBy(timers::run).isInstanceOf(OutOfMemoryError.class);
        assertThat(timers.sleepMillis()).isZero();
        timers.run();
        assertThat(done).containsExactly("done");
        assertThat(timers.sleepMillis()).isEqualTo(-1);
    }

    @Test
    void whatFindsNoMemoryHoldsUpNothing() {
        timers.after(
                0,
                () -> {
                    throw new OutOfMemoryError("Java heap space");
                });
        timers.after(0, () -> done.add("done"));
        for (int i = 0; i < 2; i++) {
            assertThatThrownBy(timers::run).isInstanceOf(OutOfMemoryError.class);
            assertThat(done).containsExactly("done");
        }
        assertThat(timers.sleepMillis()).isZero();
    }

    @Test
    void whatIsCalledOffIsNotDone() {
        timers.after(0, () -> done.add("called off")).cancel();
        timers.run();
        assertThat(done).isEmpty();
        assertThat(timers.sleepMillis()).isEqualTo(-1);
    }
}
