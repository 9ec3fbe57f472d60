package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Explorer;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.Collections;
import java.util.List;
import java.util.Set;

/**
 * Every order of what two programs, their channels and the device do, with few messages: nothing is
 * lost or comes twice, credits add up, and no order ends with messages that wait for ever.
 */
@Tag("trust")
@Timeout(3600)
class ChannelExplorationTest {
    private static final int SMALL = 3; // bytes
    private static final int EAGER = 64;
    private static final int LARGE = 100;

    private static MessagingOptions options(int receives) {
        return MessagingOptions.DEFAULTS
                .withMaxMessage(EAGER)
                .withOutstanding(2)
                .withReceives(receives)
                .withExposures(0);
    }

    private static List<Integer> messages(int count, int length) {
        return Collections.nCopies(count, length);
    }

    private static void explore(
            String what,
            boolean shares,
            MessagingOptions options,
            List<Integer> fromA,
            List<Integer> fromB,
            boolean keeps,
            int asks,
            int exposures,
            int closes,
            String... not) {
        try (TwoChannels two = new TwoChannels(shares)) {
            two.explore(
                    what,
                    new TwoChannels.Scope(
                            options, fromA, fromB, keeps, asks, exposures, closes, Set.of(not)));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void creditsAddUpAndAllMessagesArrive(int receives) {
        explore(
                "credits, %d receives".formatted(receives),
                false,
                options(receives),
                messages(2 + Explorer.MORE, SMALL),
                messages(1 + Explorer.MORE, SMALL),
                true,
                0,
                0,
                0);
    }

    @Test
    void keepAlivesNeedNoCreditOfMessages() {
        explore(
                "keep-alives",
                false,
                options(1),
                messages(1, SMALL),
                messages(Explorer.MORE, SMALL),
                false,
                1,
                0,
                0);
    }

    @Test
    void aCloseEndsEverything() {
        explore(
                "close",
                true,
                options(1),
                messages(2, SMALL),
                messages(Explorer.MORE, SMALL),
                true,
                0,
                0,
                2);
    }

    private static void exposures(String what, int most, int budget, int closes, String... not) {
        explore(
                what,
                true,
                options(1).withExposures(most),
                messages(0, SMALL),
                messages(0, SMALL),
                false,
                0,
                budget,
                closes,
                not);
    }

    @Test
    void anExposureEndsOnce() {
        exposures("revoked or taken", 1, 1, 0, "late", "write");
        exposures("late or written", 1, 1, 0, "take", "revoke");
        if (Explorer.MORE > 0) {
            exposures("exposures", Explorer.MORE, Explorer.MORE, 0);
        }
    }

    @Test
    void anExposureEndsOnceAlsoByAClose() {
        exposures("taken, and a close", 1, 1, 1, "late", "write", "revoke");
        exposures("revoked, and a close", 1, 1, 1, "late", "write", "take");
        if (Explorer.MORE > 0) {
            exposures("exposures and a close", 1, Explorer.MORE, 1);
        }
    }

    /** What is compared of a state decides what may follow. */
    @Test
    void comparingStatesLosesNone() {
        TwoChannels.Scope scope =
                new TwoChannels.Scope(
                        options(1).withExposures(1),
                        messages(1, SMALL),
                        messages(1, SMALL),
                        true,
                        0,
                        1,
                        0,
                        Set.of());
        int depth = 6 + Explorer.MORE;
        try (TwoChannels two = new TwoChannels(true)) {
            assertThat(two.states(scope, depth, true)).isEqualTo(two.states(scope, depth, false));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void largeMessagesArriveInOrder(int limit) {
        explore(
                "large messages, %d at once".formatted(limit),
                true,
                options(limit)
                        .withEagerLimit(EAGER)
                        .withMaxMessage(LARGE)
                        .withOutstanding(limit)
                        .withLargeMemory(limit * LargeMemory.bytesOf(LargeMemory.sizeOf(LARGE))),
                List.of(LARGE, SMALL),
                messages(Explorer.MORE, LARGE),
                true,
                0,
                0,
                0);
    }

    @Test
    void aLargeMessageWaitsForMemory() {
        explore(
                "large messages, memory for one",
                true,
                options(4) // one release is not reported at once
                        .withEagerLimit(EAGER)
                        .withMaxMessage(LARGE)
                        .withOutstanding(2)
                        .withLargeMemory(0),
                messages(2, LARGE),
                messages(0, LARGE),
                true,
                0,
                0,
                0);
    }

    @Test
    void aCloseEndsLargeMessages() {
        explore(
                "large messages and a close",
                true,
                options(1)
                        .withEagerLimit(EAGER)
                        .withMaxMessage(LARGE)
                        .withOutstanding(1)
                        .withLargeMemory(0),
                messages(1 + Explorer.MORE, LARGE),
                messages(0, LARGE),
                true,
                0,
                0,
                1);
    }
}
