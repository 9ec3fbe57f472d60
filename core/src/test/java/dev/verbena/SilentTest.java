package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

/**
 * Silent requests on a device that frees places in its send queue only with polled completions, as
 * NICs do: Soft-RoCE would pass these without any of the work.
 */
class SilentTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 7, 64, 200})
    void silentRequestsForEverAndOneSignaledAreOneCompletion(int depth) {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(depth, 1))) {
            BufferList bytes = rig.bytes(8);
            for (int i = 0; i < 10 * depth; i++) {
                assertThat(rig.a.write(i, bytes, Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).status())
                        .as("request %d", i)
                        .isEqualTo(Status.SUCCESS);
            }
            rig.a.write(-1, bytes, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.poll()).containsExactly("WRITE -1 SUCCESS");
            assertThat(rig.queue.counters().internalSignals()).isPositive();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 8, 100})
    void aQueueTakesWhatItIsDeepEvenWhenNothingEnds(int depth) {
        for (OpFlags flags : new OpFlags[] {OpFlags.NONE, OpFlags.SILENT_SUCCESS}) {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(depth, 1))) {
                rig.device.running = false;
                BufferList bytes = rig.bytes(8);
                int taken = 0;
                Status status;
                while ((status = rig.a.write(taken, bytes, Rig.REMOTE, 1, flags).status())
                        == Status.SUCCESS) {
                    taken++;
                }
                assertThat(status).isEqualTo(Status.NO_MORE_ENTRIES);
                if (flags == OpFlags.NONE) {
                    assertThat(taken).isEqualTo(depth);
                } else {
                    // Of those since the last signal nobody knows whether they are over.
                    assertThat(taken).isBetween(depth, depth + Math.max(1, depth / 2));
                }
                rig.device.running = true;
                assertThat(rig.poll()).hasSize(flags == OpFlags.NONE ? depth : 0);
                for (int i = 0; i < depth; i++) {
                    rig.a.write(i, bytes, Rig.REMOTE, 1, flags).orThrow();
                }
            }
        }
    }

    @Test
    void aSlotIsFreeWhenItsCompletionWasDeliveredAndNotBefore() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 1))) {
            BufferList bytes = rig.bytes(8);
            for (int i = 0; i < 4; i++) {
                rig.a.write(i, bytes, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            }
            for (int i = 0; i < 10; i++) { // each looks at the completions, and keeps them
                assertThat(rig.a.write(9, bytes, Rig.REMOTE, 1, OpFlags.NONE).status())
                        .isEqualTo(Status.NO_MORE_ENTRIES);
            }
            Completions one = new Completions(1);
            assertThat(rig.queue.poll(one)).isEqualTo(1);
            assertThat(one.context(0)).isZero();
            rig.a.write(4, bytes, Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(rig.a.write(9, bytes, Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(rig.poll())
                    .containsExactly(
                            "WRITE 1 SUCCESS",
                            "WRITE 2 SUCCESS",
                            "WRITE 3 SUCCESS",
                            "WRITE 4 SUCCESS");
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 8})
    void aSilentRequestThatFailsIsReported(int depth) {
        for (int failing = 0; failing < depth; failing++) {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(depth, 1))) {
                rig.device.failAt = failing;
                rig.device.failStatus = 10; // IBV_WC_REM_ACCESS_ERR
                BufferList bytes = rig.bytes(8);
                List<String> expected = new ArrayList<>();
                rig.device.running = false;
                for (int i = 0; i < depth; i++) {
                    rig.a.write(i, bytes, Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
                    if (i >= failing) {
                        expected.add(
                                "WRITE " + i + (i == failing ? " ACCESS_VIOLATION" : " CANCELLED"));
                    }
                }
                rig.device.running = true;
                assertThat(rig.poll()).isEqualTo(expected);
            }
        }
    }

    @Test
    void theCompletionQueueHasSpaceForInternalSignals() {
        // Depth 1: every silent request is signaled. The completion queue is made for its requests
        // and not one more; Rig looks for overruns when it closes.
        try (Rig rig = Rig.connected(QueuePairLimits.depths(1, 1))) {
            for (int i = 0; i < 100; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
                rig.b.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
            }
        }
    }

    @Test
    void silentAndSignaledMixedKeepTheirOrderAndCount() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(6, 1))) {
            List<String> expected = new ArrayList<>();
            List<String> seen = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                boolean signaled = i % 7 == 0 || i % 11 == 3;
                rig.a
                        .write(
                                i,
                                rig.bytes(8),
                                Rig.REMOTE,
                                1,
                                signaled ? OpFlags.NONE : OpFlags.SILENT_SUCCESS)
                        .orThrow();
                if (signaled) {
                    expected.add("WRITE " + i + " SUCCESS");
                }
                if (i % 5 == 4) {
                    seen.addAll(rig.poll());
                }
            }
            seen.addAll(rig.poll());
            assertThat(seen).isEqualTo(expected);
        }
    }
}
