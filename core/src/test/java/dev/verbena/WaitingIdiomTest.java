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
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Arm, poll until nothing comes, wait otherwise: what the polls have taken wakes nobody later, and
 * nothing is left of it, neither here nor in the kernel.
 */
@Timeout(600)
class WaitingIdiomTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(60);

    /** {@code -Dverbena.rounds=10000000} for as many as a busy program makes in a minute. */
    private static final int ROUNDS = Integer.getInteger("verbena.rounds", 20_000);

    /** A look may come just before an event: then that one is there, and the next. */
    private static final int FEW = 2;

    /** When the message comes in a round that polls it. */
    private enum When {
        BEFORE_ARMING,
        AFTER_ARMING
    }

    private final Completions completions = new Completions(4);

    private static Rig rig() {
        return Rig.connected(QueuePairLimits.depths(16, 16));
    }

    /** A message from a to b, carried out at once. */
    private static void message(Rig rig) {
        rig.b.receive(1, rig.bytes(8)).orThrow();
        rig.a.send(2, rig.bytes(8), OpFlags.SILENT_SUCCESS).orThrow();
        rig.device.run();
    }

    private int pollAll(Rig rig) {
        int all = 0;
        int some = rig.queue.poll(completions);
        while (some > 0) {
            all += some;
            some = rig.queue.poll(completions);
        }
        return all;
    }

    /** Never waits, as there is always something to poll. */
    private boolean round(Rig rig, NotifyType type, When when) {
        if (when == When.BEFORE_ARMING) {
            message(rig);
        }
        boolean fired = rig.queue.arm(type);
        if (when == When.AFTER_ARMING) {
            message(rig);
        }
        if (pollAll(rig) != 1) {
            throw new AssertionError("the message was not polled");
        }
        return fired;
    }

    /** How many of them fired at once. */
    private int rounds(Rig rig, NotifyType type, When when) {
        int fired = 0;
        for (int i = 0; i < ROUNDS; i++) {
            fired += round(rig, type, when) ? 1 : 0;
            if (i % 1000 == 0) { // what the device has kept for tests to look at
                rig.device.sends.clear();
                rig.device.receives.clear();
                rig.device.chains.clear();
                rig.device.arms.clear();
            }
        }
        assertThat(rig.device.mostEventsNotTaken).isLessThanOrEqualTo(FEW);
        return fired;
    }

    @ParameterizedTest
    @EnumSource(When.class)
    void roundsThatNeverWaitLeaveNothingToTheNextWait(When when) {
        try (Rig rig = rig()) {
            rounds(rig, NotifyType.ANY, when);
            for (int i = 0; i < 3; i++) {
                assertThat(rig.queue.arm(NotifyType.ANY)).isFalse();
                assertThat(pollAll(rig)).isZero();
                assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            }
            message(rig);
            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
            assertThat(pollAll(rig)).isOne();
        }
    }

    @Test
    void anAwaitSleepsWhenPollsHaveTakenWhatFired() {
        try (Rig rig = rig()) {
            for (int i = 0; i < 3; i++) {
                message(rig);
                assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
                assertThat(pollAll(rig)).isOne();
                assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
                message(rig); // still armed
                assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
                assertThat(pollAll(rig)).isOne();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(When.class)
    void anOwnLoopIsNotWokenForWhatItHasPolled(When when) {
        try (Rig rig = rig()) {
            int descriptor = rig.queue.eventDescriptor();
            rounds(rig, NotifyType.ANY, when);
            assertThat(rig.queue.arm(NotifyType.ANY)).isFalse();
            assertThat(pollAll(rig)).isZero();
            assertThat(Descriptors.await(0, descriptor)).isZero();
            message(rig);
            assertThat(Descriptors.await(30_000, descriptor)).isOne();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.SUCCESS);
            assertThat(pollAll(rig)).isOne();
        }
    }

    @Test
    void anOwnLoopThatPolledBeforeItTookTheEventStaysArmed() {
        try (Rig rig = rig()) {
            int descriptor = rig.queue.eventDescriptor();
            message(rig);
            assertThat(rig.queue.arm(NotifyType.ANY)).isTrue();
            assertThat(pollAll(rig)).isOne();
            assertThat(Descriptors.await(30_000, descriptor)).isOne();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.PENDING);
            assertThat(Descriptors.await(0, descriptor)).isZero();
            message(rig);
            assertThat(Descriptors.await(30_000, descriptor)).isOne();
            assertThat(rig.queue.takeEvent()).isEqualTo(Status.SUCCESS);
        }
    }

    /** Its thread takes no events meanwhile. NDK has one callback for each arm that fired. */
    @ParameterizedTest
    @EnumSource(When.class)
    void aCallbackMayGoOnPolling(When when) throws InterruptedException {
        AtomicReference<Rig> made = new AtomicReference<>();
        LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        CompletableFuture<Integer> done = new CompletableFuture<>();
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(16, 16),
                                device -> {},
                                status -> {
                                    called.add(status);
                                    if (!done.isDone()) {
                                        try {
                                            pollAll(made.get());
                                            done.complete(rounds(made.get(), NotifyType.ANY, when));
                                        } catch (Throwable t) {
                                            done.completeExceptionally(t);
                                        }
                                    }
                                })
                        .connect()) {
            made.set(rig);
            rig.queue.arm(NotifyType.ANY);
            message(rig);
            int fired = done.orTimeout(500, TimeUnit.SECONDS).join();
            assertThat(fired).isEqualTo(when == When.BEFORE_ARMING ? ROUNDS : 0);
            for (int i = 0; i < 1 + fired; i++) {
                assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            }
            rig.queue.arm(NotifyType.ANY);
            assertThat(called.poll(60, TimeUnit.MILLISECONDS)).isNull();
            message(rig);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        }
    }

    /** Interrupts may be late, and then many events come at once. */
    @Test
    void eventsThatCameLateAreTakenInTheEnd() {
        try (Rig rig = rig()) {
            rig.device.eventsAreLate = true;
            for (int i = 0; i < 100; i++) {
                round(rig, NotifyType.ANY, When.AFTER_ARMING);
            }
            rig.device.eventsAreLate = false;
            rig.device.bringLateEvents();
            assertThat(rig.device.mostEventsNotTaken).isEqualTo(100);
            for (int i = 0; i < 100; i++) {
                round(rig, NotifyType.ANY, When.AFTER_ARMING);
            }
            assertThat(rig.device.mostEventsNotTaken).isLessThanOrEqualTo(100 + FEW);
            rig.queue.arm(NotifyType.ANY);
            assertThat(rig.queue.await(SHORT)).isEqualTo(Status.IO_TIMEOUT);
            rig.device.mostEventsNotTaken = 0;
            rounds(rig, NotifyType.ANY, When.AFTER_ARMING);
        }
    }

    /** After any sequence of calls, an event reports completions that came and were not polled. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void unpolledCompletionsAreReportedAfterAnySequence(long seed) {
        Random random = new Random(seed);
        try (Rig rig =
                new Rig(
                                QueuePairLimits.depths(64, 64),
                                d -> d.vendorId = seed % 2 == 0 ? FakeDevice.RXE : FakeDevice.PLAIN,
                                null)
                        .connect()) {
            boolean armed = false;
            int unpolled = 0;
            boolean newSinceEvent = false; // among the unpolled
            for (int i = 0; i < 3000; i++) {
                switch (random.nextInt(5)) {
                    case 0 -> {
                        if (unpolled < 10) {
                            message(rig);
                            unpolled++;
                            newSinceEvent = true;
                        }
                    }
                    case 1 -> {
                        boolean fired = rig.queue.arm(NotifyType.ANY);
                        armed = true;
                        if (newSinceEvent || unpolled == 0) { // else it may fire once more
                            assertThat(fired).isEqualTo(newSinceEvent);
                        }
                    }
                    case 2 -> {
                        assertThat(pollAll(rig)).isEqualTo(unpolled);
                        unpolled = 0;
                        newSinceEvent = false;
                    }
                    case 3 -> {
                        int some = rig.queue.poll(completions);
                        unpolled -= some;
                        newSinceEvent &= unpolled > 0;
                    }
                    default -> {
                        if (armed && newSinceEvent) {
                            assertThat(rig.queue.await(LONG)).isEqualTo(Status.SUCCESS);
                            armed = false;
                            newSinceEvent = false;
                        } else if (armed && unpolled == 0 && random.nextInt(10) == 0) {
                            assertThat(rig.queue.await(Duration.ofMillis(2)))
                                    .isEqualTo(Status.IO_TIMEOUT);
                        }
                    }
                }
            }
            assertThat(rig.device.mostEventsNotTaken).isLessThanOrEqualTo(FEW);
            pollAll(rig);
        }
    }
}
