package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Failures that Soft-RoCE raises no event for, however the program waits. */
@Timeout(60)
class SoftRoceQuirksTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(60);

    private static Rig rig(int vendor) {
        return new Rig(QueuePairLimits.depths(16, 16), d -> d.vendorId = vendor, null).connect();
    }

    /** The queue pair fails, and the device forgets a receive that is posted afterwards. */
    private static void forget(Rig rig) {
        rig.device.failQueuePair(rig.b.address().queuePairNumber());
        rig.b.receive(7, rig.bytes(8)).orThrow();
    }

    private static void failASend(Rig rig) {
        rig.device.failAt = 0;
        rig.device.failStatus = 4; // IBV_WC_LOC_PROT_ERR
        rig.a.send(2, rig.bytes(8)).orThrow();
        rig.device.run();
    }

    @Test
    void aThreadThatPollsGetsAForgottenReceive() {
        try (Rig rig = rig(FakeDevice.RXE)) {
            forget(rig);
            Completions completions = new Completions(4);
            Until.holds(() -> rig.queue.poll(completions) > 0);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
            assertThat(rig.b.state()).isEqualTo(QueuePairState.FAILED);
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = NotifyType.class,
            names = {"ANY", "SOLICITED"})
    void aThreadThatWaitsGetsAForgottenReceive(NotifyType type) {
        try (Rig rig = rig(FakeDevice.RXE)) {
            rig.queue.arm(type);
            forget(rig);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).containsExactly("RECEIVE 7 CANCELLED");
        }
    }

    @Test
    void aLoopIsWokenForAForgottenReceive() {
        try (Rig rig = rig(FakeDevice.RXE)) {
            int descriptor = rig.queue.eventDescriptor();
            rig.queue.arm(NotifyType.ANY);
            forget(rig);
            assertThat(Descriptors.await(30_000, descriptor)).isNotZero();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).containsExactly("RECEIVE 7 CANCELLED");
        }
    }

    /** Its completion is polled by the owner, which sleeps meanwhile. */
    @Test
    void theOwnerOfAConfinedQueueIsWokenForAFailedSend() throws Exception {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.RXE;
        try (Adapter adapter = FakeAdapters.open(device);
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(64);
                QueuePair a = domain.createQueuePair(queue, queue, QueuePairLimits.depths(8, 8));
                QueuePair b = domain.createQueuePair(queue, queue, QueuePairLimits.depths(8, 8))) {
            a.connect(b.address());
            b.connect(a.address());
            device.running = false;
            device.failAt = 0;
            device.failStatus = 4; // IBV_WC_LOC_PROT_ERR
            a.write(2, new BufferList(1), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            queue.arm(NotifyType.SOLICITED);
            FutureTask<Void> later =
                    new FutureTask<>(
                            () -> {
                                device.running = true;
                                device.run();
                                return null;
                            });
            device.waits.add(
                    () -> {
                        Thread.ofPlatform().daemon().start(later);
                        return 0;
                    });
            assertThat(queue.await(LONG)).isEqualTo(Status.SUCCESS);
            later.get(30, TimeUnit.SECONDS);
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isOne();
            assertThat(device.arms).containsOnly(true);
        }
        device.dispose();
    }

    /** What was polled before the look notifies nobody. */
    @Test
    void aFailureThatWasPolledDoesNotFire() {
        try (Rig rig = rig(FakeDevice.RXE)) {
            rig.queue.arm(NotifyType.SOLICITED);
            failASend(rig);
            assertThat(rig.poll()).hasSize(1);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {FakeDevice.PLAIN, FakeDevice.SIW, FakeDevice.MELLANOX})
    void otherDevicesAreNotLookedAt(int vendor) {
        try (Rig rig = rig(vendor)) {
            forget(rig);
            rig.queue.arm(NotifyType.SOLICITED);
            assertThat(rig.queue.await(SHORT)).isNotEqualTo(Status.INTERNAL_ERROR);
            assertThat(rig.device.statesAskedFor).isZero();
        }
    }

    @Test
    void nothingIsLookedAtWithoutReceives() {
        try (Rig rig = rig(FakeDevice.RXE)) {
            rig.queue.arm(NotifyType.ANY);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(rig.device.statesAskedFor).isZero();
        }
    }
}
