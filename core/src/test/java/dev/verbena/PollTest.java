package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/** What a poll delivers, by each of its code paths: one by one, in rows, with immediate data. */
class PollTest {
    private static final int MESSAGES = 6;
    private static final int SPECIAL = 3; // this one brings immediate data

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4, 16})
    void eachReceiveHasItsOwnContextAndLength(int capacity) {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(MESSAGES, MESSAGES))) {
            Completions completions = new Completions(capacity);
            for (long first = 0; first < 10L * MESSAGES; first += MESSAGES) {
                for (int i = 0; i < MESSAGES; i++) {
                    rig.b.receive(first + i, rig.bytes(64)).orThrow();
                }
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < MESSAGES; i++) {
                    int length = (int) (first + i) % 50 + 1;
                    OpFlags flags = OpFlags.SILENT_SUCCESS;
                    Status status =
                            i == SPECIAL
                                    ? rig.a
                                            .sendWithImmediate(-1, rig.bytes(length), 77, flags)
                                            .status()
                                    : rig.a.send(-1, rig.bytes(length), flags).status();
                    assertThat(status).isEqualTo(Status.SUCCESS);
                    expected.add(line(first + i, length, i == SPECIAL ? 77 : 0));
                }
                List<String> delivered = new ArrayList<>();
                while (rig.queue.poll(completions) > 0) {
                    for (int i = 0; i < completions.size(); i++) {
                        assertThat(completions.queuePair(i)).isSameAs(rig.b);
                        assertThat(completions.type(i)).isEqualTo(OperationType.RECEIVE);
                        assertThat(completions.status(i)).isEqualTo(Status.SUCCESS);
                        assertThat(completions.providerCode(i)).isZero();
                        delivered.add(
                                line(
                                        completions.context(i),
                                        completions.bytes(i),
                                        completions.hasImmediate(i)
                                                ? completions.immediate(i)
                                                : 0));
                    }
                }
                assertThat(delivered).isEqualTo(expected);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 16})
    void completionsOfSeveralQueuePairsAreEachItsOwn(int capacity) {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(MESSAGES, MESSAGES))) {
            Completions completions = new Completions(capacity);
            // Alone, in turns, and in rows, so that a poll of one queue pair comes after one of
            // two, and the other way round.
            for (String order : List.of("a", "b", "ab", "aabb", "b", "babab", "aaaaa", "abbba")) {
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < order.length(); i++) {
                    boolean a = order.charAt(i) == 'a';
                    QueuePair peer = a ? rig.b : rig.a;
                    peer.receive(-1, rig.bytes(64)).orThrow();
                    (a ? rig.a : rig.b).send(i, rig.bytes(8), OpFlags.NONE).orThrow();
                    expected.add("%d of %s".formatted(i, a ? "a" : "b"));
                }
                List<String> delivered = new ArrayList<>();
                while (rig.queue.poll(completions) > 0) {
                    for (int i = 0; i < completions.size(); i++) {
                        boolean a = completions.queuePair(i) == rig.a;
                        if (completions.type(i) == OperationType.SEND) {
                            delivered.add(
                                    "%d of %s".formatted(completions.context(i), a ? "a" : "b"));
                        } else {
                            assertThat(completions.context(i)).isEqualTo(-1);
                        }
                    }
                }
                assertThat(delivered).containsExactlyInAnyOrderElementsOf(expected);
            }
        }
    }

    private static String line(long context, long bytes, int immediate) {
        return "%d: %d bytes, %d".formatted(context, bytes, immediate);
    }
}
