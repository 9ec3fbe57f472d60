package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A device that stops without a completion or an event, and the watchdog of a queue pair. */
@Timeout(60)
class StallTest {
    private static final Duration SOON = Duration.ofMillis(100);
    private static final Duration LATE = Duration.ofDays(1000);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(16, 16);

    private static void write(Rig rig, long context, OpFlags flags) {
        rig.a.write(context, rig.bytes(8), Rig.REMOTE, 1, flags).orThrow();
    }

    private static List<String> pollUntil(Rig rig, int count) {
        List<String> seen = new ArrayList<>();
        Until.holds(() -> seen.addAll(rig.poll()) && seen.size() >= count);
        return seen;
    }

    /** With a device that flushes when it is told to, and with one that does not even do that. */
    @ParameterizedTest
    @ValueSource(strings = {"flushes", "forgets", "confined"})
    void requestsThatDoNotCompleteFailWithTheirQueuePair(String device) {
        try (Rig rig = device.equals("confined") ? Rig.confined(LIMITS) : Rig.connected(LIMITS)) {
            rig.device.running = false;
            rig.device.forgetful = device.equals("forgets");
            rig.a.failIfStalled(SOON);
            rig.a.receive(1, rig.bytes(8)).orThrow();
            write(rig, 2, OpFlags.SILENT_SUCCESS);
            write(rig, 3, OpFlags.NONE);
            write(rig, 4, OpFlags.DEFER);
            assertThat(pollUntil(rig, 4))
                    .containsExactlyInAnyOrder(
                            "RECEIVE 1 CANCELLED",
                            "WRITE 2 IO_TIMEOUT",
                            "WRITE 3 IO_TIMEOUT",
                            "WRITE 4 IO_TIMEOUT");
            assertThat(rig.a.state()).isEqualTo(QueuePairState.FAILED);
            assertThat(rig.a.write(5, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(rig.b.connected()).isTrue();
            assertThat(rig.poll()).isEmpty();
        }
    }

    /** The later watchdog finishes what the first has failed. */
    @Test
    void aLaterCallAfterTheFailureChangesNothing() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.forgetful = true;
            write(rig, 1, OpFlags.NONE);
            rig.a.failIfStalled(SOON.multipliedBy(8));
            Until.holds(() -> rig.a.state() == QueuePairState.FAILED);
            rig.a.failIfStalled(SOON);
            assertThat(pollUntil(rig, 1)).containsExactly("WRITE 1 IO_TIMEOUT");
        }
    }

    /** Its completion waits to be polled when the rest is finished. */
    @Test
    void aRequestThatCompletesAtTheLastMomentHasSucceeded() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.running = false;
            rig.device.beforeErrorStep =
                    () -> {
                        rig.device.beforeErrorStep = () -> {};
                        rig.device.runOne();
                        rig.device.forgetful = true;
                    };
            write(rig, 1, OpFlags.NONE);
            write(rig, 2, OpFlags.NONE);
            rig.a.failIfStalled(SOON);
            Until.holds(() -> rig.a.outstandingRequests() == 0);
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS", "WRITE 2 IO_TIMEOUT");
        }
    }

    @Test
    void theFailureSaysWhy() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.running = false;
            rig.a.failIfStalled(SOON);
            rig.queue.arm(NotifyType.ANY);
            write(rig, 1, OpFlags.NONE);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            Completions one = new Completions(1);
            assertThat(rig.queue.poll(one)).isEqualTo(1);
            assertThat(one.failure(0))
                    .hasMessageContaining("IO_TIMEOUT")
                    .hasMessageContaining("completed no request for the time that failIfStalled");
        }
    }

    @Test
    void aThreadThatWaitsIsWoken() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.forgetful = true;
            rig.a.failIfStalled(SOON);
            rig.queue.arm(NotifyType.ANY);
            write(rig, 1, OpFlags.NONE);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(pollUntil(rig, 1)).containsExactly("WRITE 1 IO_TIMEOUT");
        }
    }

    /**
     * Receives, silent requests and completions that nobody has polled yet do not count. The
     * watchdog of another queue pair on the same event thread shows that the time has passed.
     */
    @Test
    void aQueuePairThatOnlyWaitsGoesOn() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.a.receive(1, rig.bytes(8)).orThrow();
            write(rig, 2, OpFlags.SILENT_SUCCESS);
            write(rig, 3, OpFlags.NONE);
            rig.device.run(); // not polled
            rig.a.failIfStalled(SOON);
            letTheTimePass(rig);
            assertThat(rig.a.connected()).isTrue();
            assertThat(rig.poll()).containsExactly("WRITE 3 SUCCESS");
            write(rig, 4, OpFlags.SILENT_SUCCESS);
            letTheTimePass(rig);
            assertThat(rig.a.connected()).isTrue();
            assertThat(rig.poll()).isEmpty();
        }
    }

    /** As long as one request completes now and then, the others may take longer. */
    @Test
    void progressKeepsItGoing() throws InterruptedException {
        Duration timeout = Duration.ofSeconds(4);
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.running = false;
            for (int i = 0; i < 5; i++) {
                write(rig, i, OpFlags.NONE);
            }
            rig.a.failIfStalled(timeout);
            long start = System.nanoTime();
            for (int i = 0; i < 4; i++) {
                TimeUnit.MILLISECONDS.sleep(1200); // what is tested is that time passes
                rig.device.runOne();
                assertThat(rig.poll()).containsExactly("WRITE " + i + " SUCCESS");
            }
            assertThat(System.nanoTime() - start).isGreaterThan(timeout.toNanos());
            assertThat(rig.a.connected()).isTrue();
        }
    }

    @Test
    void aLaterCallReplacesTheTimeout() {
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.device.running = false;
            write(rig, 1, OpFlags.NONE);
            rig.a.failIfStalled(SOON);
            rig.a.failIfStalled(LATE);
            letTheTimePass(rig);
            assertThat(rig.a.connected()).isTrue();
            assertThatThrownBy(() -> rig.a.failIfStalled(Duration.ofMillis(9)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("9 ms");
        }
        try (Rig rig = Rig.connected(LIMITS)) {
            rig.a.close();
            assertThatThrownBy(() -> rig.a.failIfStalled(SOON))
                    .isInstanceOf(IllegalStateException.class);
        }
    }

    /** Twice as long as a watchdog of {@link #SOON} takes. */
    private static void letTheTimePass(Rig rig) {
        boolean ran = rig.device.running;
        try (CompletionQueue queue = rig.adapter.createCompletionQueue(4);
                QueuePair other =
                        rig.domain.createQueuePair(queue, queue, LIMITS.withReceiveDepth(1))) {
            other.connect(rig.b.address());
            other.failIfStalled(SOON.multipliedBy(2));
            rig.device.running = false;
            queue.arm(NotifyType.ANY);
            other.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            assertThat(queue.await(LONG)).isEqualTo(Status.SUCCESS);
            Completions one = new Completions(1);
            assertThat(queue.poll(one)).isEqualTo(1);
            assertThat(one.status(0)).isEqualTo(Status.IO_TIMEOUT);
        }
        rig.device.running = ran;
    }
}
