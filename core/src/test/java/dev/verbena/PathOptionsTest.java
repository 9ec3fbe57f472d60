package dev.verbena;

import static dev.verbena.PathSteps.NONE;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Which values path options take, and what they are rounded to. */
class PathOptionsTest {
    private static void refused(ThrowingCallable call, String... parts) {
        assertThatThrownBy(call)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContainingAll(parts);
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 1 << 20})
    void valuesOutOfRangeAreRefused(int value) {
        String number = String.valueOf(value);
        refused(() -> NONE.withTrafficClass(value), "traffic class", "0 to 255", number);
        refused(() -> NONE.withDscp(value), "DSCP", "0 to 63", number, "withTrafficClass");
        refused(() -> NONE.withServiceLevel(value), "service level", "0 to 15", number);
        refused(() -> NONE.withFlowLabel(value), "flow label", "0 to 1048575", number);
        refused(() -> NONE.withPkeyIndex(value), "P_Key index", "0 to 65535", number);
        refused(() -> NONE.withRetries(value), "retries", "0 to 7", number);
        refused(() -> NONE.withRnrRetries(value), "RNR retries", "0 to 7", number);
    }

    @Test
    void oneTooManyIsRefusedAndTheMostIsNot() {
        refused(() -> NONE.withTrafficClass(256), "not 256");
        refused(() -> NONE.withDscp(64), "not 64");
        refused(() -> NONE.withServiceLevel(16), "not 16");
        refused(() -> NONE.withPkeyIndex(65536), "not 65536");
        refused(() -> NONE.withRetries(8), "not 8");
        refused(() -> NONE.withRnrRetries(8), "not 8");
        assertThat(
                        NONE.withTrafficClass(255)
                                .withServiceLevel(15)
                                .withFlowLabel(0xFFFFF)
                                .withPkeyIndex(65535)
                                .withRetries(7)
                                .withRnrRetries(7))
                .hasToString(
                        "PathOptions(traffic class 255, service level 15, flow label 1048575, P_Key index 65535, retries 7, RNR retries unlimited)");
        assertThat(NONE.withDscp(63)).isEqualTo(NONE.withTrafficClass(252));
    }

    @ParameterizedTest
    @CsvSource({
        "PT0.000008192S, 1",
        "PT0.000008193S, 2",
        "PT0.0671S, 14",
        "PT0.0672S, 15",
        "PT1S, 18",
        "PT2H, 31",
        "PT9999999H, 31"
    })
    void ackTimeoutsAreStepsOfTwo(Duration timeout, int exponent) {
        try (StateChange change = new StateChange(StateChange.READY_TO_SEND)) {
            NONE.withAckTimeout(timeout).applyTo(change);
            assertThat(change.get(StateChange.Attribute.ACK_TIMEOUT)).isEqualTo(exponent);
        }
    }

    @Test
    void timesOutOfRangeAreRefused() {
        refused(
                () -> NONE.withAckTimeout(Duration.ofNanos(8191)),
                "8.192 us or longer, not 8.191 us");
        refused(() -> NONE.withMinRnrTimer(Duration.ZERO), "longer than zero");
        refused(() -> NONE.withMinRnrTimer(Duration.ofNanos(-1)), "not -1 ns");
        refused(() -> NONE.withMinRnrTimer(Duration.ofNanos(655_360_001)), "at most 655.36 ms");
    }

    /** The table of the InfiniBand specification, also in rdma/ib_verbs.h. */
    @Test
    void rnrTimersAreThoseOfTheTable() {
        int[] hundredths = { // of a millisecond, by their code
            65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
            1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152
        };
        for (int code = 0; code < 32; code++) {
            Duration time = Duration.ofNanos(10_000L * hundredths[code]);
            assertThat(timer(time)).isEqualTo(code);
            assertThat(timer(time.minusNanos(1))).isEqualTo(code);
            if (code != 0) {
                assertThat(timer(time.plusNanos(1))).isEqualTo((code + 1) % 32);
            }
            assertThat(NONE.withMinRnrTimer(time))
                    .hasToString("PathOptions(minimum RNR timer %s)".formatted(Text.time(time)));
        }
    }

    private static int timer(Duration time) {
        try (StateChange change = new StateChange(StateChange.READY_TO_RECEIVE)) {
            NONE.withMinRnrTimer(time).applyTo(change);
            assertThat(FakeDevice.mask(change)).isEqualTo(Verbs.IBV_QP_MIN_RNR_TIMER);
            return FakeDevice.bytes(change)[(int) ibv_qp_attr.min_rnr_timer$offset()];
        }
    }

    @Test
    void optionsAreEqualByWhatTheyAskFor() {
        List<PathOptions> all =
                List.of(
                        NONE,
                        NONE.withTrafficClass(1),
                        NONE.withTrafficClass(0),
                        NONE.withServiceLevel(1),
                        NONE.withFlowLabel(1),
                        NONE.withPkeyIndex(1),
                        NONE.withRetries(1),
                        NONE.withRnrRetries(1),
                        NONE.withMinRnrTimer(Duration.ofMillis(1)),
                        NONE.withAckTimeout(Duration.ofMillis(1)));
        Set<PathOptions> set = new HashSet<>(all);
        assertThat(set).hasSize(all.size());
        assertThat(set).contains(NONE.withTrafficClass(2).withTrafficClass(1));
        assertThat(NONE.withAckTimeout(Duration.ofMillis(60)))
                .isEqualTo(NONE.withAckTimeout(Duration.ofMillis(50))) // both are 67 ms
                .hasSameHashCodeAs(NONE.withAckTimeout(Duration.ofMillis(50)))
                .isNotEqualTo("67 ms")
                .hasToString("PathOptions(acknowledged within 67.108864 ms)");
        assertThat(NONE).hasToString("PathOptions()");
    }

    @Test
    void aChangedCopyLeavesTheOriginal() {
        PathOptions one = NONE.withRetries(1);
        assertThat(one.withRetries(2)).isNotEqualTo(one);
        assertThat(one).hasToString("PathOptions(retries 1)");
        assertThat(NONE).hasToString("PathOptions()");
    }
}
