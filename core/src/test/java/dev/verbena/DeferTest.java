package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** NDK's deferral: chains, copies, and which completions are synthesized after a refusal. */
class DeferTest {
    private static final OpFlags DEFER = OpFlags.DEFER;

    private static Rig rig() {
        return Rig.connected(QueuePairLimits.depths(16, 16).withBuffers(4, 1).withInlineBytes(64));
    }

    @Test
    void aChainIsPostedInOneGoWithTheFirstRequestThatDoesNotDefer() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 5; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            }
            assertThat(rig.device.sends).isEmpty();
            assertThat(rig.poll()).isEmpty();
            rig.a.write(5, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.device.chains).containsExactly(6);
            assertThat(rig.poll()).hasSize(6).first().isEqualTo("WRITE 0 SUCCESS");
            rig.a.write(6, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.device.chains).containsExactly(6, 1);
        }
    }

    @Test
    void aChainMayBeLongerOrShorterThanTheOneBefore() {
        try (Rig rig = rig()) {
            List<Integer> lengths = List.of(2, 5, 3, 4, 2, 6, 4, 5);
            for (int length : lengths) {
                for (int i = 1; i < length; i++) {
                    rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                }
                rig.a.write(length, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                assertThat(rig.poll())
                        .hasSize(length)
                        .last()
                        .isEqualTo("WRITE " + length + " SUCCESS");
            }
            assertThat(rig.device.chains).isEqualTo(lengths);
        }
    }

    @ParameterizedTest
    @CsvSource({"0, 1", "1, 1", "2, 2", "3, 3"})
    void aFullChainIsPosted(int maxDeferred, int length) {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(16, 1).withMaxDeferred(maxDeferred))) {
            for (int i = 0; i < 6; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            }
            assertThat(rig.device.chains).containsOnly(length);
            assertThat(rig.device.sends).hasSize(6);
        }
    }

    @Test
    void listsAndInlineBytesMayChangeAfterTheCall() {
        try (Rig rig = rig()) {
            BufferList list = new BufferList(2).add(rig.memory, 10, 4).add(rig.memory, 20, 2);
            rig.a.write(1, list, Rig.REMOTE, 1, DEFER).orThrow();
            list.clear().add(rig.memory, 1000, 1);
            for (int i = 0; i < 32; i++) {
                rig.memory.memory().set(ValueLayout.JAVA_BYTE, i, (byte) i);
            }
            BufferList inline = new BufferList(2).add(rig.memory, 5, 2).add(rig.memory, 8, 1);
            rig.a.send(2, inline, DEFER.and(OpFlags.INLINE)).orThrow();
            BufferList single = new BufferList(1).add(rig.memory, 7, 1);
            rig.a.send(3, single, DEFER.and(OpFlags.INLINE)).orThrow();
            rig.memory.memory().fill((byte) 0x7F);
            rig.a.write(4, list, Rig.REMOTE, 1, OpFlags.NONE).orThrow();

            var first =
                    java.nio.ByteBuffer.wrap(rig.device.sends.get(0).sges())
                            .order(java.nio.ByteOrder.nativeOrder());
            assertThat(first.remaining()).isEqualTo(32);
            assertThat(first.getLong(0)).isEqualTo(rig.memory.memory().address() + 10);
            assertThat(first.getInt(8)).isEqualTo(4);
            assertThat(first.getInt(24)).isEqualTo(2);
            assertThat(rig.device.sends.get(1).inline()).containsExactly(5, 6, 8);
            assertThat(rig.device.sends.get(2).inline()).containsExactly(7);
        }
    }

    @Test
    void whateverIsRefusedInlineSendsOffWhatWasDeferred() {
        try (Rig rig = rig();
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            List<Runnable> refusals =
                    List.of(
                            () ->
                                    refused(
                                            rig.a
                                                    .write(
                                                            9,
                                                            rig.bytes(8),
                                                            0,
                                                            0,
                                                            OpFlags.ALLOW_REMOTE_READ)
                                                    .status()),
                            () ->
                                    refused(
                                            rig.a
                                                    .send(
                                                            9,
                                                            rig.bytes(65),
                                                            OpFlags.INLINE.and(DEFER))
                                                    .status()),
                            () -> refused(rig.a.invalidate(9, window, OpFlags.NONE).status()),
                            () ->
                                    refused(
                                            rig.a
                                                    .bind(
                                                            9,
                                                            window,
                                                            rig.memory,
                                                            0,
                                                            5000,
                                                            OpFlags.NONE)
                                                    .status()),
                            () ->
                                    refused(
                                            rig.a
                                                    .fetchAndAdd(
                                                            9, rig.bytes(4), 0, 0, 0, OpFlags.NONE)
                                                    .status()));
            for (Runnable refusal : refusals) {
                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                refusal.run();
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
            }
        }
    }

    @Test
    void whateverIsRefusedByAnExceptionSendsOffWhatWasDeferred() {
        try (Rig rig = rig();
                MemoryWindow open = rig.domain.createMemoryWindow()) {
            MemoryWindow closed = rig.domain.createMemoryWindow();
            closed.close();
            MemoryRegion gone = rig.domain.register(rig.arena.allocate(8));
            gone.close();
            List<ThrowingCallable> refusals =
                    List.of(
                            () -> rig.a.bind(9, closed, rig.memory, 0, 8, DEFER),
                            () -> rig.a.invalidate(9, closed, DEFER),
                            () -> rig.a.bind(9, open, gone, 0, 8, DEFER),
                            () -> rig.a.bind(9, null, rig.memory, 0, 8, DEFER),
                            () -> rig.a.invalidate(9, (MemoryWindow) null, DEFER),
                            () -> rig.a.send(9, null, DEFER),
                            () -> rig.a.fetchAndAdd(9, null, Rig.REMOTE, 1, 1, DEFER));
            for (ThrowingCallable refusal : refusals) {
                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                assertThatThrownBy(refusal)
                        .isInstanceOfAny(IllegalStateException.class, NullPointerException.class);
                assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
            }
            rig.a.close();
            assertThatThrownBy(refusals.getFirst()).isInstanceOf(IllegalStateException.class);
        }
    }

    private static void refused(Status status) {
        assertThat(status).isNotEqualTo(Status.SUCCESS);
    }

    @Test
    void aFullQueueSendsOffWhatWasDeferred() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(2, 1).withMaxDeferred(10))) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            assertThat(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS");
        }
    }

    @Test
    void theProviderMayRefuseTheLastOfAChainWithoutHarm() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 1;
            assertThat(rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.INVALID_PARAMETER);
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
            assertThat(rig.a.connected()).isTrue();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll()).containsExactly("WRITE 3 SUCCESS");
        }
    }

    /** Errno 22, -22 (siw), and 0 with bad_wr set (siw). */
    @ParameterizedTest
    @ValueSource(ints = {22, -22, 0})
    void everyAcceptedRequestEndsOnceWhicheverOfTheChainIsRefused(int answer) {
        int length = 5;
        for (boolean silent : new boolean[] {false, true}) {
            for (int bad = 0; bad < length - 1; bad++) {
                try (Rig rig = rig()) {
                    OpFlags flags = silent ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
                    for (int i = 0; i < length - 1; i++) {
                        rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, flags.and(DEFER)).orThrow();
                    }
                    rig.device.answer = answer == 0 ? 22 : answer;
                    rig.device.answersZero = answer == 0;
                    rig.device.refused = bad;
                    // Those before it are carried out at once, as by fast hardware.
                    assertThat(rig.a.write(99, rig.bytes(8), Rig.REMOTE, 1, flags).status())
                            .isEqualTo(Status.CONNECTION_INVALID);
                    assertThat(rig.a.connected()).isFalse();
                    assertThat(rig.device.state(firstNumber(rig))).isEqualTo("ERR");
                    List<String> expected = new ArrayList<>();
                    for (int i = 0; i < length - 1; i++) {
                        // What had been posted is flushed, for nothing ran meanwhile.
                        expected.add("WRITE " + i + (i == bad ? " INTERNAL_ERROR" : " CANCELLED"));
                    }
                    assertThat(rig.poll()).containsExactlyElementsOf(expected);
                    assertThat(rig.a.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                            .isEqualTo(Status.CONNECTION_INVALID);
                    assertThat(rig.poll()).isEmpty();
                }
            }
        }
    }

    private static int firstNumber(Rig rig) {
        return rig.a.address().queuePairNumber();
    }

    /**
     * bad_wr NULL: rxe and siw do so when the doorbell fails, and the requests are in the queue.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aProviderThatDoesNotSayHowFarItGotEndsTheConnection(boolean kept) {
        for (int length = 1; length <= 4; length++) {
            try (Rig rig = rig()) {
                for (int i = 0; i < length - 1; i++) {
                    rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
                }
                rig.device.answer = -5;
                rig.device.refused = -1;
                rig.device.keepsRefused = kept;
                assertThat(rig.a.write(99, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.DEVICE_REMOVED);
                assertThat(rig.a.connected()).isFalse();
                List<String> seen = rig.poll();
                assertThat(seen).hasSize(length - 1);
                for (int i = 0; i < length - 1; i++) {
                    assertThat(seen.get(i)).startsWith("WRITE " + i + " ");
                    assertThat(seen.get(i)).doesNotEndWith("SUCCESS");
                }
            }
        }
    }

    /** Another thread polls between the provider's answer and what is made of it. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void whatHasCompletedAlreadyWasNotRefused(int length) {
        for (OpFlags flags : new OpFlags[] {OpFlags.NONE, OpFlags.SILENT_SUCCESS}) {
            // Depth 2: each silent request is signaled.
            try (Rig rig =
                    Rig.connected(QueuePairLimits.depths(flags == OpFlags.NONE ? 16 : 2, 1))) {
                List<String> seen = new ArrayList<>();
                int deferred = flags == OpFlags.NONE ? length - 1 : 0;
                List<String> expected = new ArrayList<>();
                for (int i = 0; i < deferred; i++) {
                    rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, flags.and(DEFER)).orThrow();
                    expected.add("WRITE " + i + " SUCCESS");
                }
                rig.device.answer = 5;
                rig.device.refused = -1;
                rig.device.keepsRefused = true;
                rig.device.afterPost = () -> seen.addAll(rig.poll());
                assertThat(rig.a.write(99, rig.bytes(8), Rig.REMOTE, 1, flags).status())
                        .isEqualTo(Status.SUCCESS);
                if (flags == OpFlags.NONE) {
                    expected.add("WRITE 99 SUCCESS");
                }
                assertThat(seen).isEqualTo(expected);
                assertThat(rig.poll()).isEmpty();
                rig.a.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 7 SUCCESS");
            }
        }
    }

    @Test
    void whatHasNotCompletedOfARefusedChainEndsOnce() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 5;
            rig.device.refused = -1;
            rig.device.keepsRefused = true;
            List<String> seen = new ArrayList<>();
            rig.device.afterPost =
                    () -> {
                        rig.device.runOne();
                        rig.device.running = false;
                        seen.addAll(rig.poll());
                    };
            assertThat(rig.a.write(99, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.DEVICE_REMOVED);
            assertThat(seen).containsExactly("WRITE 1 SUCCESS");
            assertThat(rig.poll()).containsExactly("WRITE 2 INTERNAL_ERROR");
            assertThat(rig.a.connected()).isFalse();
        }
    }

    @Test
    void aReceiveThatHasCompletedAlreadyWasNotRefused() {
        try (Rig rig = rig()) {
            rig.device.answer = 5;
            rig.device.keepsRefused = true;
            List<String> seen = new ArrayList<>();
            rig.device.afterPost =
                    () -> {
                        rig.b.send(1, new BufferList(1)).orThrow();
                        seen.addAll(rig.poll());
                    };
            assertThat(rig.a.receive(2, rig.bytes(8)).status()).isEqualTo(Status.SUCCESS);
            assertThat(seen).containsExactlyInAnyOrder("SEND 1 SUCCESS", "RECEIVE 2 SUCCESS");
        }
    }

    @Test
    void aRefusedReceiveThatTheProviderKeptIsNotTakenForTheNext() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 40; i++) { // its place comes back
                rig.device.answer = 5;
                rig.device.keepsRefused = true;
                assertThat(rig.a.receive(1, rig.bytes(8)).status())
                        .isEqualTo(Status.DEVICE_REMOVED);
                rig.a.receive(2, rig.bytes(8)).orThrow();
                rig.b.send(3, new BufferList(1)).orThrow();
                assertThat(rig.poll()).containsExactly("SEND 3 SUCCESS");
                rig.b.send(4, new BufferList(1)).orThrow();
                assertThat(rig.poll())
                        .containsExactlyInAnyOrder("SEND 4 SUCCESS", "RECEIVE 2 SUCCESS");
            }
        }
    }

    @Test
    void aProviderThatIsFullForAMomentIsAskedAgain() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.answer = 12; // ENOMEM, once
            rig.device.refused = 1;
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll())
                    .containsExactly("WRITE 1 SUCCESS", "WRITE 2 SUCCESS", "WRITE 3 SUCCESS");
        }
    }

    /** The second time it does not say what it refuses: not what it took the first time. */
    @Test
    void aProviderThatIsAskedAgainKeepsWhatItHasTaken() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 12; // ENOMEM
            rig.device.refused = 1;
            rig.device.afterPost =
                    () -> {
                        rig.device.runOne(); // so there is something to poll
                        rig.device.running = false;
                        rig.device.answer = 5;
                        rig.device.refused = -1;
                    };
            assertThat(rig.a.write(99, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.DEVICE_REMOVED);
            rig.device.resume();
            assertThat(rig.poll())
                    .containsExactly(
                            "WRITE 1 SUCCESS", "WRITE 2 CANCELLED", "WRITE 3 INTERNAL_ERROR");
        }
    }

    @Test
    void aFullChainThatIsRefusedRefusesItsLastAndSynthesizesTheOthers() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(8, 1).withMaxDeferred(3))) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 0;
            assertThat(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, DEFER).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll()).containsExactly("WRITE 1 INTERNAL_ERROR", "WRITE 2 CANCELLED");
        }
    }

    @Test
    void aRefusedReceiveLeavesNoTrace() {
        try (Rig rig = rig()) {
            for (int answer : new int[] {22, -22, 12}) {
                rig.device.answer = answer;
                assertThat(rig.a.receive(1, rig.bytes(8)).status())
                        .isEqualTo(VerbenaException.statusOf(Math.abs(answer)));
            }
            rig.a.receive(2, rig.bytes(8)).orThrow();
            rig.b.send(3, rig.bytes(8)).orThrow();
            assertThat(rig.poll()).containsExactlyInAnyOrder("RECEIVE 2 SUCCESS", "SEND 3 SUCCESS");
        }
    }
}
