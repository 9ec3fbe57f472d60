package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.WorkId;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What a second pair of eyes found: one thing beside another, and things in an unkind order. */
@Timeout(60)
class EdgeTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);

    private static Rig rig() {
        return Rig.connected(QueuePairLimits.depths(16, 16));
    }

    @Test
    void aWornOutWindowThatCannotBeRenewedIsRefusedAndFreedOnce() {
        try (Rig rig = rig();
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            for (int i = 0; i < 255; i++) {
                rig.a.bind(1, window, rig.memory, 0, 8, RW).orThrow();
                rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
                rig.poll();
            }
            rig.device.controlError = 12;
            assertThat(rig.a.bind(1, window, rig.memory, 0, 8, RW).status())
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(rig.device.windowCount()).isEqualTo(1);
            rig.a.bind(1, window, rig.memory, 0, 8, RW).orThrow();
            assertThat(rig.poll()).containsExactly("BIND 1 SUCCESS");
            assertThat(rig.device.windowCount()).isEqualTo(1);
        }
    }

    @Test
    void anOwnLoopWakesForWhatOnlyThisLayerKnows() {
        try (Rig rig = rig()) {
            int descriptor = rig.queue.eventDescriptor();
            rig.a.flush();
            rig.queue.arm(NotifyType.ANY);
            assertThat(Descriptors.await(0, descriptor)).isZero();
            rig.a.receive(1, rig.bytes(8)).orThrow(); // ends cancelled, without the device
            assertThat(Descriptors.await(30_000, descriptor)).isNotZero();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).hasSize(1);
            assertThat(Descriptors.await(0, descriptor)).isZero();

            rig.queue.arm(NotifyType.ERRORS);
            rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            assertThat(Descriptors.await(30_000, descriptor)).isNotZero();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.BUFFER_OVERFLOW);
        }
    }

    @Test
    void aSynthesizedFailureBehindAnUnpolledSuccessWakesUnderSolicited() {
        try (Rig rig = rig()) {
            rig.queue.arm(NotifyType.SOLICITED);
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            rig.failADeferredWrite(2);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 INTERNAL_ERROR");
        }
    }

    @Test
    void whatACloseCancelsItselfWakes() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.forgetful = true;
            rig.queue.arm(NotifyType.ANY);
            rig.a.close();
            rig.device.forgetful = false;
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).containsExactly("WRITE 1 CANCELLED");
        }
    }

    @Test
    void eachArmThatFiredCallsBackEvenWhenTheLastCallIsStillRunning() throws Exception {
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        CountDownLatch first = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    first.countDown();
                                    Until.reached(go);
                                    called.add(status);
                                })
                        .connect()) {
            int fired = 0;
            for (int i = 0; i < 3; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                rig.device.run();
                fired += rig.queue.arm(NotifyType.ANY) ? 1 : 0;
                first.await();
            }
            go.countDown();
            for (int i = 0; i < fired; i++) {
                assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            }
            assertThat(fired).isEqualTo(3);
        }
        assertThat(called).isEmpty();
    }

    @Test
    void aWindowOutlivesAQueuePairWhoseCompletionsNobodyPolls() {
        Rig rig = rig();
        MemoryWindow window = rig.domain.createMemoryWindow();
        CompletionQueue other = rig.adapter.createCompletionQueue(8);
        QueuePair c = rig.domain.createQueuePair(other, other, QueuePairLimits.depths(2, 2));
        QueuePair d = rig.domain.createQueuePair(other, other, QueuePairLimits.depths(2, 2));
        c.connect(d.address());
        d.connect(c.address());
        c.bind(1, window, rig.memory, 0, 8, RW).orThrow();
        other.close();
        c.close();
        d.close();
        rig.a.bind(2, window, rig.memory, 0, 8, RW).orThrow();
        assertThat(rig.poll()).containsExactly("BIND 2 SUCCESS");
        window.close();
        rig.close();
    }

    @Test
    void aFlushIsNotUndoneByAConnect() {
        try (Rig rig = new Rig(QueuePairLimits.depths(4, 4))) {
            rig.a.flush();
            assertThatThrownBy(() -> rig.a.connect(rig.b.address()))
                    .isInstanceOf(IllegalStateException.class);
            assertThat(rig.a.connected()).isFalse();
            assertThat(rig.a.send(1, rig.bytes(8)).status()).isEqualTo(Status.CONNECTION_INVALID);
        }
    }

    @Test
    void aCloseThatTimesOutStillCloses() throws Exception {
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch leave = new CountDownLatch(1);
        Rig rig =
                new Rig(
                                QueuePairLimits.depths(4, 4),
                                device -> {},
                                status -> {
                                    entered.countDown();
                                    Until.reached(leave);
                                })
                        .connect();
        rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
        rig.device.run();
        rig.queue.arm(NotifyType.ANY);
        entered.await();
        assertThatThrownBy(rig.queue::close)
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT))
                .hasMessageContaining("callback");
        leave.countDown();
        rig.a.close();
        rig.b.close();
        int rest = 3; // a domain and a region are left
        rig.device.until(() -> rig.device.objects() < rest);
        rig.close();
    }

    /** Random programs found this: seed 3772314044071754131. */
    @Test
    void aBindThatFindsItsChainRefusedIsRefusedAndTheRestIsSynthesized() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4));
                MemoryWindow window = rig.domain.createMemoryWindow()) {
            OpFlags silent = OpFlags.SILENT_SUCCESS;
            rig.b.receive(9, rig.bytes(8)).orThrow();
            rig.a.bind(1, window, rig.memory, 0, 8, RW.and(silent)).orThrow();
            rig.a.invalidate(2, window, silent).orThrow();
            rig.a.send(3, new BufferList(1), OpFlags.DEFER).orThrow();
            rig.device.answer = 22;
            rig.device.refused = -1;
            assertThat(rig.a.bind(4, window, rig.memory, 0, 8, RW).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.poll())
                    .contains("SEND 3 INTERNAL_ERROR")
                    .noneMatch(end -> end.contains(" 4 "));
        }
    }

    /**
     * The request that a close posts comes after synthesized completions, and must not hide them.
     */
    @Test
    void aCloseDeliversSynthesizedCompletionsBeforeItsOwnRequest() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(8, 4))) {
            rig.device.running = false;
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.failADeferredWrite(2);
            rig.a.close();
            assertThat(rig.poll()).containsExactly("WRITE 1 CANCELLED", "WRITE 2 INTERNAL_ERROR");
        }
    }

    @Test
    void whatAClosedQueuePairLeftBehindIsNobodys() {
        try (Rig rig = rig()) {
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            long late = rig.device.sends.getLast().id();
            rig.a.receive(2, rig.bytes(8)).orThrow();
            long lateReceive = rig.device.receives.getLast().receiveId();
            rig.a.close();
            rig.poll();

            // Nobody has its place, and then somebody else.
            rig.device.complete(late, 0);
            rig.device.complete(lateReceive, 0);
            assertThat(rig.poll()).isEmpty();
            try (QueuePair next =
                    rig.domain.createQueuePair(
                            rig.queue, rig.queue, QueuePairLimits.depths(16, 16))) {
                next.connect(rig.b.address());
                next.write(4, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                next.receive(5, rig.bytes(8)).orThrow();
                rig.device.complete(late, 0);
                rig.device.complete(lateReceive, 0);
                assertThat(rig.poll()).isEmpty();
                next.write(6, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
                assertThat(rig.poll()).containsExactly("WRITE 4 SUCCESS", "WRITE 6 SUCCESS");
            }
        }
    }

    @Test
    void aRegistrationThatFailsHalfwayLeavesNothingBehind() {
        try (Rig rig = rig()) {
            int before = rig.device.objects();
            rig.device.keysCannotBeRead = true;
            assertThatThrownBy(() -> rig.domain.register(rig.arena.allocate(64)))
                    .hasMessage("no key");
            assertThat(rig.device.objects()).isEqualTo(before);
        }
    }

    @Test
    void aQueuePairThatFailsHalfwayLeavesNothingBehind() {
        try (Rig rig = rig()) {
            int before = rig.device.objects();
            List<Integer> slots = nextSlots(rig);

            rig.device.initError = Errno.ENOMEM;
            assertThatThrownBy(() -> makeQueuePair(rig))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("ibv_modify_qp(INIT)");
            assertThat(rig.device.objects()).isEqualTo(before);
            assertThat(nextSlots(rig)).isEqualTo(slots);

            rig.device.initError = 0;
            rig.device.numbersCannotBeRead = true;
            assertThatThrownBy(() -> makeQueuePair(rig)).hasMessage("no number");
            assertThat(rig.device.objects()).isEqualTo(before);
            assertThat(nextSlots(rig)).isEqualTo(slots);

            rig.device.numbersCannotBeRead = false;
            makeQueuePair(rig).close();
        } // and nothing holds the domain and the queue, which the rig closes
    }

    private static QueuePair makeQueuePair(Rig rig) {
        return rig.domain.createQueuePair(rig.queue, rig.queue, QueuePairLimits.depths(4, 4));
    }

    /**
     * The slots of the completion queue that the next queue pair would have, for its two queues.
     */
    private static List<Integer> nextSlots(Rig rig) {
        CompletionPoller poller = rig.queue.events().poller();
        long[] reserved = {poller.reserve(false), poller.reserve(true)};
        for (long queue : reserved) {
            poller.release(queue);
        }
        return List.of(WorkId.slot(reserved[0]), WorkId.slot(reserved[1]));
    }

    @Test
    void aSmallDeviceHasAllItCan() {
        try (Rig rig =
                new Rig(QueuePairLimits.depths(1, 1), device -> device.maxDepth = 48, null)) {
            assertThat(rig.adapter.info().maxInitiatorDepth()).isBetween(16, 47);
        }
    }
}
