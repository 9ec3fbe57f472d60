package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.PostedRequest;
import dev.verbena.internal.verbs.SendChain;

import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;

/** How requests end that nobody carries out: by a flush, by the close, by a failure. */
@Timeout(60)
class FlushTest {
    private static final OpFlags SILENT = OpFlags.SILENT_SUCCESS;
    private static final OpFlags DEFER = OpFlags.DEFER;

    private static Rig rig() {
        return Rig.connected(QueuePairLimits.depths(16, 16));
    }

    @Test
    void everyOutstandingRequestIsCancelledOnce() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.receive(2, rig.bytes(8)).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(4, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            rig.a.write(5, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(6, rig.bytes(8), Rig.REMOTE, 1, DEFER.and(SILENT)).orThrow();
            rig.a.flush();
            rig.a.flush(); // again does nothing
            assertThat(rig.poll())
                    .containsExactlyInAnyOrder(
                            "RECEIVE 1 CANCELLED",
                            "RECEIVE 2 CANCELLED",
                            "WRITE 3 CANCELLED",
                            "WRITE 4 CANCELLED",
                            "WRITE 5 CANCELLED",
                            "WRITE 6 CANCELLED");
            assertThat(rig.a.connected()).isFalse();
            assertThat(rig.a.write(7, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll()).isEmpty();
        }
    }

    private static void isSignaledAndHasNoBytes(PostedRequest posted, int opcode) {
        assertThat(posted.opcode()).isEqualTo(opcode);
        assertThat(posted.flags()).isEqualTo(SendChain.SIGNALED);
        assertThat(posted.sges()).isEmpty();
        byte[] behindFlags = Arrays.copyOfRange(posted.request(), 36, posted.request().length);
        assertThat(behindFlags).as("immediate data, remote memory").containsOnly(0);
    }

    /** They are built where the request before them was. */
    @Test
    void requestsOfTheLibrarysOwnHaveNothingOfThoseBefore() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, SILENT).orThrow();
            rig.a.handle().sends().drain();
            isSignaledAndHasNoBytes(rig.device.sends.getLast(), SendChain.WRITE);
            rig.a.handle().sends().drain();
            rig.b.send(2, rig.bytes(8), SILENT).orThrow();
            rig.b.close();
            isSignaledAndHasNoBytes(rig.device.sends.getLast(), SendChain.WRITE);
            assertThat(rig.device.chains).hasSize(5).containsOnly(1);
        }
    }

    /** The device is still connected then, and carries out what the close posts. */
    @Test
    void aCloseThatCannotMoveTheQueuePairToTheErrorStateSendsThePeerNothing() {
        try (Rig rig = rig()) {
            rig.b.receive(1, rig.bytes(8)).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, Rig.TOKEN, SILENT).orThrow();
            rig.device.errorStepError = 12;
            rig.a.close();
            rig.device.errorStepError = 0;
            assertThat(rig.poll()).isEmpty();
        }
    }

    @Test
    void whatWasOverIsNotCancelled() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            rig.device.run();
            rig.a.flush();
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
        }
    }

    @Test
    void aQueuePairThatNeverConnectedIsFlushedToo() {
        try (Rig rig = new Rig(QueuePairLimits.depths(4, 4))) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.receive(2, rig.bytes(8)).orThrow();
            rig.a.flush();
            assertThat(rig.poll()).containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
            assertThatThrownBy(() -> rig.a.connect(rig.b.address()))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("flushed");
        }
    }

    @Test
    void receivesPostedAfterAFlushAreCancelledInOrder() {
        try (Rig rig = rig()) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.flush();
            for (int i = 2; i < 17; i++) {
                rig.a.receive(i, rig.bytes(8)).orThrow();
            }
            assertThat(rig.a.receive(17, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(rig.device.receives).hasSize(1); // the others never reached the device
            List<String> expected = new ArrayList<>();
            for (int i = 1; i < 17; i++) {
                expected.add("RECEIVE " + i + " CANCELLED");
            }
            assertThat(rig.poll()).isEqualTo(expected);
            expected.clear();
            for (int i = 18; i < 34; i++) { // each has its slot back
                rig.a.receive(i, rig.bytes(8)).orThrow();
                expected.add("RECEIVE " + i + " CANCELLED");
            }
            assertThat(rig.a.receive(34, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(rig.poll()).isEqualTo(expected);
        }
    }

    @Test
    void receivesPostedAfterAFailureAreCancelled() {
        try (Rig rig = rig()) {
            rig.device.failAt = 0;
            rig.device.failStatus = 12; // RETRY_EXC_ERR
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            Completions failed = new Completions(2);
            assertThat(rig.queue.poll(failed)).isEqualTo(1);
            assertThat(failed.status(0)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(failed.providerCode(0)).isEqualTo(12L << 32 | 0x77); // with vendor_err
            rig.a.receive(2, rig.bytes(8)).orThrow();
            assertThat(rig.device.receives).isEmpty();
            assertThat(rig.poll()).containsExactly("RECEIVE 2 CANCELLED");
        }
    }

    @Test
    void afterAPolledFailureAQueuePairThatWasConnectedByAddressesTakesNoRequests() {
        try (Rig rig = rig()) {
            rig.device.failAt = 0;
            rig.device.failStatus = 12; // RETRY_EXC_ERR
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            rig.a
                    .write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE)
                    .orThrow(); // nobody has seen it yet
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            assertThat(rig.poll())
                    .containsExactly(
                            "WRITE 1 IO_TIMEOUT", "WRITE 2 CANCELLED", "WRITE 3 CANCELLED");
            assertThat(rig.a.connected()).isFalse();
            assertThat(rig.a.write(4, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll()).isEmpty();
            assertThat(rig.b.connected()).isTrue();
        }
    }

    /** The peer may end the connection while nothing is outstanding here that could report it. */
    @Test
    void receivesPostedAfterAnUnreportedFailureAreCancelled() {
        for (boolean armed : new boolean[] {true, false}) {
            try (Rig rxe =
                    new Rig(
                                    QueuePairLimits.depths(4, 4),
                                    device -> device.vendorId = 0xFFFFFF,
                                    null)
                            .connect()) {
                rxe.device.failQueuePair(rxe.a.address().queuePairNumber());
                rxe.a.receive(1, rxe.bytes(8)).orThrow();
                rxe.a.receive(2, rxe.bytes(8)).orThrow();
                assertThat(rxe.poll()).isEmpty();
                if (armed) {
                    rxe.queue.arm(NotifyType.ANY);
                    assertThat(rxe.queue.await(java.time.Duration.ofSeconds(30)))
                            .isEqualTo(Status.SUCCESS);
                    assertThat(rxe.poll())
                            .containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
                } else {
                    Completions one = new Completions(1);
                    Until.holds(() -> rxe.queue.poll(one) > 0);
                    assertThat(one.status(0)).isEqualTo(Status.CANCELLED);
                }
            }
        }
    }

    /** Of what ends a queue pair, the peer's mistake is the one that nothing else tells. */
    @ParameterizedTest
    @CsvSource({
        "nothing, false",
        "the peer, true",
        "a flush, false",
        "a flush that is not over, false",
        "a request, false"
    })
    void aQueuePairThatThePeerHasEndedKnowsThat(String ended, boolean byPeer) {
        try (Rig rig = rig()) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            switch (ended) {
                case "the peer" -> rig.device.failQueuePair(rig.a.address().queuePairNumber());
                case "a flush" -> rig.a.flush();
                case "a flush that is not over" -> {
                    rig.device.beforeErrorStep =
                            () -> {
                                rig.device.failQueuePair(rig.a.address().queuePairNumber());
                                assertThat(rig.a.failedByPeer()).isFalse();
                            };
                    rig.a.flush();
                }
                case "a request" -> {
                    rig.device.failAt = 0;
                    rig.device.failStatus = 12; // RETRY_EXC_ERR
                    rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                    assertThat(rig.poll()).contains("WRITE 2 IO_TIMEOUT");
                }
                default -> {}
            }
            assertThat(rig.a.failedByPeer()).isEqualTo(byPeer);
            assertThat(rig.poll()).hasSize(byPeer || ended.startsWith("a flush") ? 1 : 0);
            assertThat(rig.a.failedByPeer()).as("polled").isEqualTo(byPeer);
        }
    }

    /** There it cannot be told from an ordinary disconnect. */
    @Test
    void onIwarpThatIsNotKnown() {
        try (Rig iwarp =
                new Rig(QueuePairLimits.depths(4, 4), device -> device.iwarp = true, null)
                        .connect()) {
            iwarp.device.failQueuePair(iwarp.a.address().queuePairNumber());
            assertThat(iwarp.a.failedByPeer()).isFalse();
        }
    }

    @Test
    void closingEndsOutstandingRequests() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            rig.a.write(4, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.close();
            Completions completions = new Completions(8);
            assertThat(rig.queue.poll(completions)).isEqualTo(4);
            assertThat(completions.queuePair(0)).isSameAs(rig.a);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
            assertThat(rig.poll()).isEmpty();
        }
    }

    /** The provider does not say which; each post had returned SUCCESS. */
    @Test
    void deferredOnesThatTheProviderRefusesAreReported() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 22;
            // A request that this library refuses has them posted.
            assertThat(
                            rig.a
                                    .write(
                                            3,
                                            rig.bytes(8),
                                            Rig.REMOTE,
                                            1,
                                            OpFlags.ALLOW_REMOTE_READ)
                                    .status())
                    .isEqualTo(Status.INVALID_PARAMETER);
            rig.device.answer = 0;
            assertThat(rig.poll()).containsExactly("WRITE 1 INTERNAL_ERROR", "WRITE 2 CANCELLED");
            assertThat(rig.a.connected()).isFalse();
        }
    }

    /** What no completion ever comes for is no reason to wait. */
    @Test
    void oneThatTheProviderRefusedLateIsReportedThoughSilentOnesAreBeforeIt() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            rig.device.run();
            rig.device.running = false; // says nothing more
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 0;
            assertThat(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll()).containsExactly("WRITE 2 INTERNAL_ERROR");
        }
    }

    /** What was deferred goes first; behind it, in the error state, a write that shows the end. */
    @Test
    void closingPostsWhatWasDeferredAndThenOneOfItsOwn() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.send(1, rig.bytes(8), DEFER).orThrow();
            List<Integer> errorsAskedFor = new ArrayList<>();
            rig.device.beforePost =
                    () -> {
                        errorsAskedFor.add(rig.device.errorsAskedFor);
                        rig.device.beforePost = () -> errorsAskedFor.add(rig.device.errorsAskedFor);
                    };
            long start = System.nanoTime();
            rig.a.close();
            assertThat(System.nanoTime() - start).as("no waiting").isLessThan(900_000_000);
            assertThat(errorsAskedFor).containsExactly(0, 1);
            assertThat(rig.device.chains).endsWith(1, 1);
            PostedRequest last = rig.device.sends.getLast();
            assertThat(last.opcode()).isEqualTo(SendChain.WRITE);
            assertThat(last.flags()).isEqualTo(2); // IBV_SEND_SIGNALED
            assertThat(last.sges()).isEmpty();
            assertThat(rig.poll()).containsExactly("SEND 1 CANCELLED");
        }
    }

    /** Its completion is due as soon as the device has flushed the one before it. */
    @Test
    void closingDoesNotWaitForOneThatTheProviderRefusedLate() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = 1;
            assertThat(rig.a.write(3, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            rig.device.answer =
                    22; // nor does it take the last one, which shows that all have ended
            rig.device.refused = 0;
            long start = System.nanoTime();
            rig.a.close();
            assertThat(System.nanoTime() - start).as("no waiting").isLessThan(900_000_000);
            assertThat(rig.poll()).containsExactly("WRITE 1 CANCELLED", "WRITE 2 INTERNAL_ERROR");
        }
    }

    @Test
    void closingHasTheDeviceFlushReceives() {
        try (Rig rig = rig()) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.receive(2, rig.bytes(8)).orThrow();
            int asked = rig.device.errorsAskedFor;
            rig.a.close();
            assertThat(rig.device.errorsAskedFor).isEqualTo(asked + 1);
            assertThat(rig.poll()).containsExactly("RECEIVE 1 CANCELLED", "RECEIVE 2 CANCELLED");
            rig.b.close(); // nothing is outstanding there
            assertThat(rig.device.errorsAskedFor).isEqualTo(asked + 1);
        }
    }

    @Test
    void closingDeliversNothingForSilentRequestsThatSucceeded() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 5; i++) { // fewer than the signals' interval
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            }
            rig.device.run();
            rig.a.close();
            assertThat(rig.poll()).isEmpty();
        }
    }

    @Test
    void closingAfterAFlushDeliversNothingForSilentRequestsThatSucceeded() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 5; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            }
            rig.device.run();
            rig.a.flush();
            assertThat(rig.poll()).isEmpty();
            long start = System.nanoTime();
            rig.a.close();
            assertThat(System.nanoTime() - start).as("no waiting").isLessThan(900_000_000);
            assertThat(rig.poll()).isEmpty();
        }
    }

    @Test
    void closingCancelsWhatADeviceNeverEnds() {
        try (Rig rig = rig()) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.forgetful = true; // loses outstanding requests
            rig.a.close();
            rig.device.forgetful = false;
            assertThat(rig.poll())
                    .containsExactlyInAnyOrder("RECEIVE 1 CANCELLED", "WRITE 2 CANCELLED");
        }
    }

    @Test
    void closingEndsOutstandingRequestsEvenIfTheDeviceTakesNothingMore() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, SILENT).orThrow();
            rig.device.answer = 22; // to the request that close posts
            rig.device.refused = 0;
            rig.a.close();
            assertThat(rig.poll()).containsExactly("WRITE 1 CANCELLED", "WRITE 2 CANCELLED");
        }
    }

    @Test
    void aClosedQueuePairRefusesEverything() {
        try (Rig rig = rig();
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            rig.a.close();
            assertThat(rig.a.send(1, rig.bytes(8)).status()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.a.receive(1, rig.bytes(8)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.a.fetchAndAdd(1, rig.bytes(8), 8, 1, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.a.bind(1, window, rig.memory, 0, 8, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.a.invalidate(1, window, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThatThrownBy(rig.a::flush).isInstanceOf(IllegalStateException.class);
        }
    }

    @Test
    void aCompletionQueueClosedFirstDoesNotHoldUpItsQueuePairs() {
        try (Rig rig = rig()) {
            rig.device.running = false;
            rig.a.receive(1, rig.bytes(8)).orThrow();
            rig.a.write(2, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.queue.close();
            long start = System.nanoTime();
            rig.a.close();
            assertThat(System.nanoTime() - start).isLessThan(900_000_000);
        }
    }

    /** Posts beside a flush: whatever was accepted ends once, whatever was refused never. */
    @RepeatedTest(20)
    void postsBesideAFlush() throws InterruptedException {
        try (Rig rig = rig()) {
            Queue<String> accepted = new ConcurrentLinkedQueue<>();
            CountDownLatch started = new CountDownLatch(2);
            Thread initiator =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        long context = 0;
                                        Status status;
                                        do {
                                            OpFlags flags = context % 3 == 1 ? DEFER : OpFlags.NONE;
                                            status =
                                                    rig.a
                                                            .write(
                                                                    context,
                                                                    rig.bytes(8),
                                                                    Rig.REMOTE,
                                                                    1,
                                                                    flags)
                                                            .status();
                                            if (status == Status.SUCCESS) {
                                                accepted.add("WRITE " + context++);
                                            }
                                            started.countDown();
                                        } while (status == Status.SUCCESS
                                                || status == Status.NO_MORE_ENTRIES);
                                    });
            Thread receiver =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        for (int i = 0; i < 16; i++) {
                                            if (rig.a.receive(i, rig.bytes(8)).status()
                                                    == Status.SUCCESS) {
                                                accepted.add("RECEIVE " + i);
                                            }
                                            started.countDown();
                                        }
                                    });
            started.await();
            List<String> ended = new ArrayList<>(rig.poll());
            rig.a.flush();
            receiver.join();
            while (initiator.isAlive()) {
                ended.addAll(rig.poll());
            }
            initiator.join();
            ended.addAll(rig.poll());
            assertThat(ended.stream().map(e -> e.substring(0, e.lastIndexOf(' '))))
                    .containsExactlyInAnyOrderElementsOf(accepted);
        }
    }
}
