package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.Thread.State;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Arming a completion queue: what fires, when, and how often. */
@Timeout(60)
class ArmTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(60);
    private static final OpFlags SOLICIT = OpFlags.SEND_AND_SOLICIT_EVENT;

    private static Rig rig(int vendor) {
        return new Rig(QueuePairLimits.depths(16, 16), d -> d.vendorId = vendor, null).connect();
    }

    /** A message from a to b, carried out at once. */
    private static void message(Rig rig, OpFlags flags) {
        rig.b.receive(1, rig.bytes(8)).orThrow();
        rig.a.send(2, rig.bytes(8), flags.and(OpFlags.SILENT_SUCCESS)).orThrow();
        rig.device.run();
    }

    private static void failure(Rig rig) {
        rig.device.failAt = 0;
        rig.device.failStatus = 4; // IBV_WC_LOC_PROT_ERR
        rig.a.send(2, rig.bytes(8)).orThrow();
        rig.device.run();
    }

    @ParameterizedTest
    @EnumSource(NotifyType.class)
    void whatEachTypeFiresFor(NotifyType type) {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            assertThat(rig.queue.arm(type)).isFalse();
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(SHORT))
                    .isEqualTo(type == NotifyType.ANY ? Status.SUCCESS : Status.IO_TIMEOUT);
            if (type == NotifyType.ANY) {
                return;
            }
            message(rig, SOLICIT);
            assertThat(rig.queue.await(type == NotifyType.SOLICITED ? LONG : SHORT))
                    .isEqualTo(type == NotifyType.SOLICITED ? Status.SUCCESS : Status.IO_TIMEOUT);
        }
    }

    /** Armed twice before anything comes, with all nine pairs: fires once, and as the join says. */
    @ParameterizedTest
    @CsvSource({"0,0", "0,1", "0,2", "1,0", "1,1", "1,2", "2,0", "2,1", "2,2"})
    void twice(int first, int second) {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(NotifyType.values()[first]);
            rig.queue.arm(NotifyType.values()[second]);
            boolean any = first == 1 || second == 1;
            boolean solicited = first == 2 || second == 2;
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(any ? LONG : SHORT))
                    .isEqualTo(any ? Status.SUCCESS : Status.IO_TIMEOUT);
            if (!any) {
                message(rig, SOLICIT);
                assertThat(rig.queue.await(solicited ? LONG : SHORT))
                        .isEqualTo(solicited ? Status.SUCCESS : Status.IO_TIMEOUT);
            }
            if (any || solicited) {
                message(rig, SOLICIT);
                assertThatThrownBy(() -> rig.queue.await(SHORT))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessageContaining("Arm");
            }
        }
    }

    @Test
    void completionsThatAreThereAndNeverFiredFireAtOnce() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            assertThat(rig.queue.await(Duration.ZERO)).isEqualTo(Status.SUCCESS);
            // Not polled, and nothing new: seen completions do not fire again.
            assertThat(rig.queue.arm(NotifyType.ANY)).isFalse();
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).hasSize(2);
            assertThat(rig.queue.arm(NotifyType.SOLICITED)).isFalse();
        }
    }

    /** What is there and has no event is not what is waited for, and not looked at all the time. */
    @Test
    void sleepsWhereWhatIsThereIsNotSolicited() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            assertThat(rig.queue.arm(NotifyType.SOLICITED)).isFalse();
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(rig.device.eventsAskedFor).isLessThan(5);
            message(rig, SOLICIT);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).hasSize(2);
        }
    }

    /** On hardware: the completion is seen first, and an interrupt makes the event. */
    @Test
    void anEventMayComeAfterItsCompletion() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.device.eventsAreLate = true;
            rig.queue.arm(NotifyType.ANY);
            message(rig, OpFlags.NONE);
            CompletableFuture<Status> fired =
                    CompletableFuture.supplyAsync(() -> rig.queue.await(LONG));
            rig.device.until(() -> rig.device.eventsAskedFor > 0); // in vain, for what it has seen
            assertThat(fired).isNotDone();
            rig.device.bringLateEvents();
            assertThat(fired.join()).isEqualTo(Status.SUCCESS);
            assertThat(rig.device.eventsAskedFor).isEqualTo(2);
            assertThat(rig.poll()).hasSize(1);
            rig.queue.arm(NotifyType.ANY);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
        }
    }

    @Test
    void waitsForNoTimeAndForEver() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(NotifyType.ANY);
            assertThat(rig.queue.await(Duration.ZERO)).isEqualTo(Status.IO_TIMEOUT);
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(Duration.ZERO)).isEqualTo(Status.SUCCESS);
            rig.queue.poll(new Completions(4));
            rig.queue.arm(NotifyType.ANY);
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(ChronoUnit.FOREVER.getDuration())).isEqualTo(Status.SUCCESS);
        }
    }

    @Test
    void internalSignalsWakeNoThread() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(NotifyType.ANY);
            for (int i = 0; i < 100; i++) {
                rig.a.write(i, rig.bytes(8), Rig.REMOTE, 1, OpFlags.SILENT_SUCCESS).orThrow();
                rig.device.run();
            }
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(rig.queue.counters().internalSignals()).isPositive();
            message(rig, OpFlags.NONE); // still armed
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {FakeDevice.PLAIN, FakeDevice.RXE})
    void aFailureMatchesSolicited(int vendor) {
        try (Rig rig = rig(vendor)) {
            rig.queue.arm(NotifyType.SOLICITED);
            message(rig, OpFlags.NONE);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            failure(rig);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(rig.device.arms).containsOnly(true); // solicited only, for both
        }
    }

    /** How a consumer may wait. */
    private enum Wait {
        AWAIT,
        CALLBACK,
        OWN_LOOP
    }

    /** What a receive ends with that no message of the peer's ends. */
    private enum Mishap {
        /** Its message was too long. */
        FAILED,
        /** The connection ended. */
        FLUSHED
    }

    @ParameterizedTest
    @CsvSource({
        "PLAIN, FAILED, AWAIT", "PLAIN, FAILED, CALLBACK", "PLAIN, FAILED, OWN_LOOP",
        "PLAIN, FLUSHED, AWAIT", "PLAIN, FLUSHED, CALLBACK", "PLAIN, FLUSHED, OWN_LOOP",
        "RXE, FAILED, AWAIT", "RXE, FAILED, CALLBACK", "RXE, FAILED, OWN_LOOP",
        "RXE, FLUSHED, AWAIT", "RXE, FLUSHED, CALLBACK", "RXE, FLUSHED, OWN_LOOP",
    })
    void aReceiveThatFailsOrIsFlushedMatchesSolicited(String vendor, Mishap mishap, Wait wait)
            throws InterruptedException {
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        int vendorId = vendor.equals("RXE") ? FakeDevice.RXE : FakeDevice.PLAIN;
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> device.vendorId = vendorId,
                                wait == Wait.CALLBACK ? called::add : null)
                        .connect()) {
            rig.b.receive(1, rig.bytes(8)).orThrow();
            int descriptor = wait == Wait.OWN_LOOP ? rig.queue.eventDescriptor() : -1;
            assertThat(rig.queue.arm(NotifyType.SOLICITED)).isFalse();
            int number = rig.b.address().queuePairNumber();
            if (mishap == Mishap.FAILED) {
                rig.device.failReceive(number, 1); // IBV_WC_LOC_LEN_ERR
            } else {
                rig.device.failQueuePair(number);
            }
            Status woken =
                    switch (wait) {
                        case AWAIT -> rig.queue.await(LONG);
                        case CALLBACK -> called.poll(30, TimeUnit.SECONDS);
                        case OWN_LOOP -> {
                            assertThat(Descriptors.await(30_000, descriptor)).isNotZero();
                            yield rig.queue.takeEvent();
                        }
                    };
            assertThat(woken).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll())
                    .containsExactly(
                            mishap == Mishap.FAILED
                                    ? "RECEIVE 1 BUFFER_OVERFLOW"
                                    : "RECEIVE 1 CANCELLED");
        }
    }

    /** siw looks for the flag where it never is: only an arm for everything is woken. */
    @ParameterizedTest
    @ValueSource(ints = {FakeDevice.PLAIN, FakeDevice.RXE, FakeDevice.SIW})
    void aSolicitedMessageMatchesSolicited(int vendor) {
        try (Rig rig = rig(vendor)) {
            rig.queue.arm(NotifyType.SOLICITED);
            message(rig, OpFlags.SEND_AND_SOLICIT_EVENT);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
        }
    }

    @Test
    void synthesizedCompletionsFireToo() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.a.flush();
            for (NotifyType type : new NotifyType[] {NotifyType.ANY, NotifyType.SOLICITED}) {
                assertThat(rig.queue.arm(type)).isFalse();
                rig.a.receive(1, rig.bytes(8)).orThrow(); // ends cancelled
                assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(rig.poll()).hasSize(1);
            }
        }
    }

    @Test
    void anOwnLoopSeesTheDescriptorBecomeReadable() {
        for (int vendor : new int[] {FakeDevice.PLAIN, FakeDevice.RXE}) {
            try (Rig rig = rig(vendor)) {
                int descriptor = rig.queue.eventDescriptor();
                rig.queue.arm(NotifyType.SOLICITED);
                assertThat(rig.queue.takeEvent()).isEqualTo(Status.PENDING);
                failure(rig);
                assertThat(Descriptors.await(30_000, descriptor)).isNotZero();
                assertThat(rig.queue.takeEvent()).isEqualTo(Status.SUCCESS);
                assertThat(rig.device.arms).containsOnly(true); // no other message wakes it
            }
        }
    }

    @ParameterizedTest
    @EnumSource(NotifyType.class)
    void aBrokenQueueFiresUnderEveryType(NotifyType type) {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(type);
            rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
            assertThat(rig.queue.arm(type)).isTrue();
            assertThatThrownBy(() -> rig.queue.poll(new Completions(1)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.BUFFER_OVERFLOW));
        }
    }

    /** The callback is busy while the queue breaks and is armed twice. */
    @Test
    void eachCallbackOfABrokenQueueSaysSo() throws Exception {
        CountDownLatch first = new CountDownLatch(1);
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    called.add(status);
                                    Until.reached(first);
                                })
                        .connect()) {
            rig.queue.arm(NotifyType.ANY);
            message(rig, OpFlags.NONE);
            assertThat(Until.next(called)).isEqualTo(Status.SUCCESS);
            rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            Until.holds(() -> rig.queue.events().broken() != null);
            assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            first.countDown();
            assertThat(Until.next(called, 2)).containsOnly(Status.BUFFER_OVERFLOW);
        }
    }

    @Test
    void aBrokenQueueTakesItsQueuePairsWithIt() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
            Until.holds(() -> !rig.a.connected() && !rig.b.connected());
        }
    }

    @Test
    void aDeviceThatFailsFires() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.INTERNAL_ERROR);
        }
    }

    @Test
    void aQueueThatIsMadeAfterTheDeviceHasFailedFires() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            Until.holds(rig.adapter.device()::failed);
            try (CompletionQueue late = rig.adapter.createCompletionQueue(4)) {
                assertThat(late.arm(NotifyType.ERRORS)).isTrue();
                assertThat(late.await(LONG)).isEqualTo(Status.INTERNAL_ERROR);
            }
        }
    }

    @Test
    void aPollThatFailsIsAnOverrun() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            rig.device.pollAnswer = -1; // mlx5
            assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
            assertThatThrownBy(() -> rig.queue.poll(new Completions(1)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("broken");
            rig.device.pollAnswer = 0;
        }
    }

    @Test
    void anOverrunThatOnlyWaitingFindsIsReportedAtOnce() {
        try (Rig rig = rig(FakeDevice.PLAIN)) {
            assertThat(rig.queue.arm(NotifyType.ANY)).isFalse();
            rig.device.pollAnswer = -1;
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.BUFFER_OVERFLOW);
            rig.device.pollAnswer = 0;
        }
    }

    @Test
    void aCallbackComesOncePerArmAndOneAfterTheOther() throws InterruptedException {
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        LinkedBlockingQueue<Throwable> reported = new LinkedBlockingQueue<>();
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    Thread.currentThread()
                                            .setUncaughtExceptionHandler((t, e) -> reported.add(e));
                                    called.add(status);
                                    throw new IllegalStateException("a callback that fails");
                                })
                        .connect()) {
            for (int i = 0; i < 3; i++) {
                rig.queue.arm(NotifyType.ANY);
                rig.queue.arm(NotifyType.ANY);
                message(rig, OpFlags.NONE);
                assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
                assertThat(reported.poll(30, TimeUnit.SECONDS)).hasMessage("a callback that fails");
                message(rig, OpFlags.NONE);
                assertThat(rig.poll()).hasSize(2);
            }
            assertThat(called).isEmpty();
            assertThatThrownBy(() -> rig.queue.await(SHORT))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("callback");
            assertThatThrownBy(rig.queue::eventDescriptor)
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(rig.queue::takeEvent).isInstanceOf(IllegalStateException.class);
        }
    }

    @Test
    void aCallbackMayCloseEverything() throws InterruptedException {
        AtomicReference<Rig> all = new AtomicReference<>();
        LinkedBlockingQueue<String> done = new LinkedBlockingQueue<>();
        Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    Rig it = all.get();
                                    it.a.close();
                                    it.b.close();
                                    it.memory.close();
                                    it.queue.close();
                                    it.domain.close();
                                    it.adapter.close();
                                    done.add("closed");
                                })
                        .connect();
        all.set(rig);
        rig.queue.arm(NotifyType.ANY);
        message(rig, OpFlags.NONE);
        assertThat(done.poll(30, TimeUnit.SECONDS)).isEqualTo("closed");
        // The queue itself goes when its callback has returned.
        rig.device.until(() -> rig.device.objects() == 0);
        rig.close();
    }

    @Test
    void closingWaitsForARunningCallbackAndNoneComesAfter() throws InterruptedException {
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch leave = new CountDownLatch(1);
        AtomicReference<String> order = new AtomicReference<>("");
        Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    entered.countDown();
                                    Until.reached(leave);
                                    order.updateAndGet(s -> s + "callback ");
                                })
                        .connect();
        rig.queue.arm(NotifyType.ANY);
        message(rig, OpFlags.NONE);
        entered.await();
        rig.queue.arm(NotifyType.ANY);
        message(rig, OpFlags.NONE);
        Thread closer =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    rig.queue.close();
                                    order.updateAndGet(s -> s + "closed");
                                });
        Until.isIn(closer, State.BLOCKED, State.WAITING, State.TIMED_WAITING);
        leave.countDown();
        closer.join();
        assertThat(order.get()).isEqualTo("callback closed");
        rig.close();
    }

    @Test
    void closingEndsAWait() throws InterruptedException {
        Rig rig = rig(FakeDevice.PLAIN);
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        rig.queue.arm(NotifyType.ANY);
        CountDownLatch waits = firstLookOfAWait(rig);
        Thread waiting =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    try {
                                        rig.queue.await(Duration.ofHours(1));
                                    } catch (Throwable t) {
                                        thrown.set(t);
                                    }
                                });
        waits.await();
        rig.queue.close();
        waiting.join();
        assertThat(thrown.get())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("closed");
        rig.close();
    }

    /** Counted down by the first look of the next wait, which finds nothing. */
    static CountDownLatch firstLookOfAWait(Rig rig) {
        CountDownLatch looked = new CountDownLatch(1);
        rig.device.waits.add(
                () -> {
                    looked.countDown();
                    return 0;
                });
        return looked;
    }

    /** Of completions that this library synthesizes the device gives no event. */
    @Nested
    class SynthesizedCompletionsWakeAWaiter {
        private String whoWaitsSees(Rig rig, Runnable what) throws Exception {
            rig.queue.arm(NotifyType.ANY);
            CountDownLatch waits = firstLookOfAWait(rig);
            FutureTask<Status> waiting =
                    new FutureTask<>(() -> rig.queue.await(Duration.ofSeconds(20)));
            Thread thread = Thread.ofPlatform().daemon().start(waiting);
            waits.await();
            what.run();
            assertThat(waiting.get()).isEqualTo(Status.SUCCESS);
            thread.join();
            return String.join(", ", rig.poll());
        }

        @Test
        void whenTheProviderRefusesLate() throws Exception {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4))) {
                rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.DEFER).orThrow();
                rig.device.answer = 22;
                rig.device.refused = 0;
                String seen =
                        whoWaitsSees(
                                rig,
                                () ->
                                        assertThat(
                                                        rig.a
                                                                .write(
                                                                        2,
                                                                        rig.bytes(8),
                                                                        Rig.REMOTE,
                                                                        1,
                                                                        OpFlags.NONE)
                                                                .status())
                                                .isEqualTo(Status.CONNECTION_INVALID));
                assertThat(seen).isEqualTo("WRITE 1 INTERNAL_ERROR");
            }
        }

        @Test
        void whenAReceiveIsPostedToAFlushedQueuePair() throws Exception {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4))) {
                rig.a.flush();
                String seen = whoWaitsSees(rig, () -> rig.a.receive(1, rig.bytes(8)).orThrow());
                assertThat(seen).isEqualTo("RECEIVE 1 CANCELLED");
            }
        }

        @Test
        void whenACloseGivesUpOnTheDevice() throws Exception {
            try (Rig rig = Rig.connected(QueuePairLimits.depths(4, 4))) {
                rig.device.forgetful = true;
                rig.a.receive(1, rig.bytes(8)).orThrow();
                String seen = whoWaitsSees(rig, rig.a::close);
                rig.device.forgetful = false;
                assertThat(seen).isEqualTo("RECEIVE 1 CANCELLED");
            }
        }
    }
}
