package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A completion queue that is too small for its requests: what the device drops is synthesized, so
 * that each request that asked for a completion has one.
 */
@Timeout(60)
class OverrunTest {
    private static final OpFlags SILENT = OpFlags.SILENT_SUCCESS;
    private static final Duration LONG = Duration.ofSeconds(30);

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final Rig rig = new Rig(QueuePairLimits.depths(1, 1));
    private final CompletionQueue small = rig.adapter.createCompletionQueue(1); // holds 2
    private final CompletionQueue large = rig.adapter.createCompletionQueue(64);
    private final QueuePair a =
            rig.domain.createQueuePair(small, small, QueuePairLimits.depths(8, 8));
    private final QueuePair b =
            rig.domain.createQueuePair(large, large, QueuePairLimits.depths(8, 8));

    OverrunTest() {
        a.connect(b.address());
        b.connect(a.address());
    }

    @AfterEach
    void close() {
        a.close();
        b.close();
        small.close();
        large.close();
        rig.device.overruns = 0;
        rig.close();
    }

    private void write(long context, OpFlags flags) {
        a.write(context, rig.bytes(8), Rig.REMOTE, 1, flags).orThrow();
    }

    private List<String> poll() {
        List<String> seen = new ArrayList<>();
        Completions completions = new Completions(3);
        while (small.poll(completions) > 0) {
            for (int i = 0; i < completions.size(); i++) {
                Status status = completions.status(i);
                seen.add(completions.type(i) + " " + completions.context(i) + " " + status.name());
                if (status == Status.BUFFER_OVERFLOW) {
                    assertThat(completions.providerCode(i)).isEqualTo(255L << 32);
                }
            }
        }
        return seen;
    }

    @Test
    void aSuccessBehindLostCompletionsSynthesizesThemAndRetiresWhatWasSilent() {
        write(0, OpFlags.NONE);
        write(1, SILENT); // with a signal, or without
        write(2, OpFlags.NONE);
        write(3, OpFlags.NONE);
        write(4, SILENT);
        write(5, OpFlags.NONE);
        rig.device.run();
        assertThat(rig.device.overruns).isPositive();
        assertThat(poll()).containsExactly("WRITE 0 SUCCESS", "WRITE 2 SUCCESS");
        write(6, OpFlags.NONE);
        assertThat(poll())
                .containsExactly(
                        "WRITE 3 BUFFER_OVERFLOW", "WRITE 5 BUFFER_OVERFLOW", "WRITE 6 SUCCESS");
        assertThat(a.connected()).isFalse();
        assertThat(poll()).isEmpty();
    }

    @Test
    void receivesWhoseCompletionsAreLostEndInTheirOrder() {
        for (int i = 0; i < 5; i++) {
            a.receive(i, rig.bytes(8)).orThrow();
        }
        for (int i = 0; i < 4; i++) {
            b.send(i, new BufferList(1)).orThrow();
        }
        rig.device.run();
        assertThat(poll()).containsExactly("RECEIVE 0 SUCCESS", "RECEIVE 1 SUCCESS");
        b.send(4, new BufferList(1)).orThrow();
        assertThat(poll())
                .containsExactly(
                        "RECEIVE 2 BUFFER_OVERFLOW",
                        "RECEIVE 3 BUFFER_OVERFLOW",
                        "RECEIVE 4 SUCCESS");
    }

    @Test
    void aWindowIsFreeAgainWhenTheEndOfItsRequestIsLost() {
        try (MemoryWindow window = rig.domain.createMemoryWindow()) {
            write(0, OpFlags.NONE);
            write(1, OpFlags.NONE);
            a.bind(2, window, rig.memory, 0, 8, OpFlags.ALLOW_REMOTE_READ).orThrow();
            a.invalidate(3, window, SILENT).orThrow();
            rig.device.run();
            assertThat(poll()).hasSize(2);
            write(4, OpFlags.NONE);
            assertThat(poll()).containsExactly("BIND 2 BUFFER_OVERFLOW", "WRITE 4 SUCCESS");
        }
    }

    @Test
    void aCloseReportsWhatIsLost() {
        for (int i = 0; i < 5; i++) {
            write(i, OpFlags.NONE);
        }
        rig.device.run();
        assertThat(poll()).hasSize(2);
        long start = System.nanoTime();
        a.close();
        assertThat(System.nanoTime() - start).as("no waiting").isLessThan(900_000_000);
        assertThat(poll())
                .containsExactly(
                        "WRITE 2 BUFFER_OVERFLOW",
                        "WRITE 3 BUFFER_OVERFLOW",
                        "WRITE 4 BUFFER_OVERFLOW");
    }

    @Test
    void aBrokenQueueReportsWhatIsLostBeforeItSaysThatItIsBroken() {
        small.arm(NotifyType.ERRORS);
        for (int i = 0; i < 4; i++) {
            write(i, OpFlags.NONE);
        }
        a.receive(9, rig.bytes(8)).orThrow();
        rig.device.run();
        rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED, small.nativeHandle().address());
        assertThat(small.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
        List<String> seen = new ArrayList<>();
        assertThatThrownBy(() -> pollInto(seen))
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.BUFFER_OVERFLOW));
        assertThat(seen.removeLast()).startsWith("RECEIVE 9 ");
        assertThat(seen)
                .containsExactly(
                        "WRITE 0 SUCCESS",
                        "WRITE 1 SUCCESS",
                        "WRITE 2 BUFFER_OVERFLOW",
                        "WRITE 3 BUFFER_OVERFLOW");
        assertThat(a.connected()).isFalse();
    }

    /** A lost completion does not say which slot it was for, so the slot stays taken. */
    @Test
    void aBrokenQueueSaysThatSharedReceivesMayBeLost() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(3, 1, status -> {});
        try (QueuePair c =
                        rig.domain.createQueuePair(
                                small, small, shared, QueuePairLimits.depths(1, 1));
                QueuePair peer =
                        rig.domain.createQueuePair(large, large, QueuePairLimits.depths(8, 1))) {
            c.connect(peer.address());
            peer.connect(c.address());
            small.arm(NotifyType.ERRORS);
            for (int i = 0; i < 3; i++) {
                shared.receive(i, rig.bytes(8)).orThrow();
                peer.send(i, new BufferList(1)).orThrow();
            }
            rig.device.run();
            rig.device.raise(
                    AdapterEvent.Type.COMPLETION_QUEUE_FAILED, small.nativeHandle().address());
            assertThat(small.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
            List<String> seen = new ArrayList<>();
            assertThatThrownBy(() -> pollInto(seen))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("queue pairs and their shared receive queues again");
            assertThat(seen).containsExactly("RECEIVE 0 SUCCESS", "RECEIVE 1 SUCCESS");
        }
        assertThat(shared.outstanding()).isOne();
        shared.close();
    }

    /** The others are ended, and the consumer is notified. */
    @Test
    void aQueuePairThatCannotBeEndedHidesNoBrokenQueue() throws Exception {
        rig.a.receive(1, rig.bytes(8)).orThrow();
        rig.b.receive(2, rig.bytes(8)).orThrow();
        rig.queue.arm(NotifyType.ERRORS);
        rig.device.beforeErrorStep =
                () -> {
                    rig.device.beforeErrorStep = () -> {};
                    throw new IllegalStateException("of the first");
                };
        rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
        assertThat(rig.queue.await(LONG)).isEqualTo(Status.INTERNAL_ERROR);
        assertThat(Until.next(uncaught.reports())).hasMessage("of the first");
        Completions completions = new Completions(4);
        assertThat(rig.queue.poll(completions)).isEqualTo(2);
        assertThat(List.of(completions.context(0), completions.context(1)))
                .containsExactlyInAnyOrder(1L, 2L);
        assertThatThrownBy(() -> rig.queue.poll(completions)).isInstanceOf(VerbenaException.class);
    }

    private void pollInto(List<String> seen) {
        Completions one = new Completions(1);
        while (small.poll(one) > 0) {
            seen.add(one.type(0) + " " + one.context(0) + " " + one.status(0).name());
        }
    }

    @Test
    void aCloseOfAQueueThatCannotBePolledReportsWhatIsLost() {
        write(0, OpFlags.NONE);
        write(1, SILENT);
        a.receive(2, rig.bytes(8)).orThrow();
        rig.device.pollAnswer = -5;
        assertThatThrownBy(this::poll).isInstanceOf(VerbenaException.class);
        long start = System.nanoTime();
        a.close();
        assertThat(System.nanoTime() - start).as("no waiting").isLessThan(900_000_000);
        List<String> seen = new ArrayList<>();
        assertThatThrownBy(() -> pollInto(seen)).isInstanceOf(VerbenaException.class);
        assertThat(seen)
                .containsExactlyInAnyOrder(
                        "WRITE 0 BUFFER_OVERFLOW",
                        "WRITE 1 BUFFER_OVERFLOW",
                        "RECEIVE 2 BUFFER_OVERFLOW");
        rig.device.pollAnswer = 0;
    }
}
