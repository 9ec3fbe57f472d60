package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;

/** The life of a completion queue and its callback's thread. */
@Timeout(60)
class CompletionQueueTest {
    private static final int TRIES = 50;

    /** As where pids.max or ulimit -u is reached; but JUnit gives up at an OutOfMemoryError. */
    private static final class NoThread extends Error {
        private static final long serialVersionUID = 1;

        NoThread() {
            super("unable to create native thread, for a test");
        }
    }

    private static final ThreadFactory NO_THREADS =
            task ->
                    new Thread(task) {
                        @Override
                        public void start() {
                            throw new NoThread();
                        }
                    };

    private static long descriptors() throws IOException {
        try (Stream<Path> open = Files.list(Path.of("/proc/self/fd"))) {
            return open.count();
        }
    }

    @Test
    void oneWhoseThreadCannotStartLeavesNothingBehind() throws IOException {
        FakeDevice device = new FakeDevice();
        Adapter adapter = FakeAdapters.open(device);
        adapter.createCompletionQueue(8, status -> {}).close(); // what is made once is there now
        int objects = device.objects();
        long descriptors = descriptors();
        for (int i = 0; i < TRIES; i++) {
            assertThatThrownBy(
                            () ->
                                    new CompletionQueue(
                                            adapter,
                                            CompletionQueueOptions.depth(8).callback(status -> {}),
                                            NO_THREADS))
                    .isInstanceOf(NoThread.class);
        }
        assertThat(device.objects()).isEqualTo(objects);
        // Threads of other tests may still be closing theirs; a leak is of one or more each time.
        assertThat(descriptors()).isLessThan(descriptors + TRIES / 2);
        adapter.createCompletionQueue(8, status -> {}).close();
        adapter.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    /** The thread that calls back meets something that it cannot do anything about. */
    @Nested
    class WhatGoesWrongInTheThread {
        private final LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        private final LinkedBlockingQueue<Throwable> reported = new LinkedBlockingQueue<>();
        private final AtomicReference<Error> ofCallback = new AtomicReference<>();
        private final AtomicReference<Error> ofHandler = new AtomicReference<>();
        private final Thread.UncaughtExceptionHandler usual =
                Thread.getDefaultUncaughtExceptionHandler();
        private Rig rig;

        @BeforeEach
        void open() {
            Thread.setDefaultUncaughtExceptionHandler(
                    (thread, thrown) -> {
                        reported.add(thrown);
                        throwOnce(ofHandler);
                    });
            rig =
                    new Rig(
                                    QueuePairLimits.depths(16, 16),
                                    device -> {},
                                    status -> {
                                        called.add(status);
                                        throwOnce(ofCallback);
                                    })
                            .connect();
        }

        @AfterEach
        void close() {
            rig.close();
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }

        private void throwOnce(AtomicReference<Error> error) {
            Error thrown = error.getAndSet(null);
            if (thrown != null) {
                throw thrown;
            }
        }

        private void armAndReceive() {
            rig.queue.arm(NotifyType.ANY);
            rig.b.receive(1, rig.bytes(8)).orThrow();
            rig.a.send(2, rig.bytes(8), OpFlags.SILENT_SUCCESS).orThrow();
            rig.device.run();
        }

        private void expectReport(Class<? extends Throwable> type) throws InterruptedException {
            assertThat(reported.poll(30, TimeUnit.SECONDS)).isInstanceOf(type);
        }

        private void expectCall() throws InterruptedException {
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).hasSize(1);
        }

        private void expectNextCall() throws InterruptedException {
            armAndReceive();
            expectCall();
            assertThat(reported).isEmpty();
        }

        @Test
        void anErrorOfTheCallbackAndOfTheHandlerOfThat() throws InterruptedException {
            ofCallback.set(new OutOfMemoryError("Java heap space"));
            ofHandler.set(new OutOfMemoryError("Java heap space"));
            armAndReceive();
            expectCall();
            expectReport(OutOfMemoryError.class);
            expectNextCall();
        }

        @Test
        void anErrorAfterAnEventWasTaken() throws InterruptedException {
            rig.device.takingCompletionEvent.set(new OutOfMemoryError("Java heap space"));
            armAndReceive();
            expectReport(OutOfMemoryError.class);
            expectCall(); // for the event that was taken in vain
            expectNextCall();
        }

        @Test
        void waitsThatFail() throws InterruptedException {
            rig.device.waits.add(() -> -Errno.ENOMEM);
            rig.device.waits.add(() -> -Errno.EINVAL);
            rig.device.waits.add(
                    () -> {
                        throw new OutOfMemoryError("Java heap space");
                    });
            expectNextCallAfterAWait();
            for (String errno : List.of("ENOMEM", "EINVAL")) {
                assertThat(reported.poll(30, TimeUnit.SECONDS))
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContainingAll("poll", errno, "CompletionQueue of fake0");
            }
            expectReport(OutOfMemoryError.class);
            expectNextCall();
        }

        private void expectNextCallAfterAWait() throws InterruptedException {
            armAndReceive();
            expectCall();
            armAndReceive();
            expectCall();
        }

        @Test
        void closingWhileWaitsGoOnFailing() throws InterruptedException {
            for (int i = 0; i < 5; i++) {
                rig.device.waits.add(() -> -Errno.ENOMEM);
            }
            armAndReceive();
            expectReport(VerbenaException.class);
            rig.close(); // looks whether anything was left behind
        }
    }

    @Test
    void anAwaitThatFailsSaysWhyAndLosesNothing() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(16, 16))) {
            rig.queue.arm(NotifyType.ANY);
            rig.device.waits.add(() -> -Errno.ENOMEM);
            assertThatThrownBy(() -> rig.queue.await(Duration.ofSeconds(30)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContainingAll("poll", "ENOMEM", "CompletionQueue of fake0");
            rig.device.takingCompletionEvent.set(new NoThread());
            CountDownLatch waits = ArmTest.firstLookOfAWait(rig);
            Thread sender =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        Until.reached(waits);
                                        rig.a
                                                .write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE)
                                                .orThrow();
                                        rig.device.run();
                                    });
            assertThatThrownBy(() -> rig.queue.await(Duration.ofSeconds(30)))
                    .isInstanceOf(NoThread.class);
            assertThat(rig.queue.await(Duration.ofSeconds(30))).isEqualTo(Status.SUCCESS);
            assertThat(rig.poll()).containsExactly("WRITE 1 SUCCESS");
            join(sender);
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** What a callback does with its queue until that is closed. */
    private enum Use {
        POLL {
            @Override
            void use(CompletionQueue queue) {
                queue.poll(new Completions(1));
            }
        },
        ARM {
            @Override
            void use(CompletionQueue queue) {
                queue.arm(NotifyType.ERRORS);
            }
        };

        abstract void use(CompletionQueue queue);
    }

    @ParameterizedTest
    @EnumSource(Use.class)
    void closingItWhileItsCallbackUsesItIsNoErrorOfTheCallback(Use use) throws Exception {
        LinkedBlockingQueue<Throwable> reported = new LinkedBlockingQueue<>();
        AtomicReference<CompletionQueue> used = new AtomicReference<>();
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch left = new CountDownLatch(1);
        Rig rig =
                new Rig(
                        QueuePairLimits.depths(16, 16),
                        device -> {},
                        status -> {
                            Thread.currentThread()
                                    .setUncaughtExceptionHandler((t, e) -> reported.add(e));
                            entered.countDown();
                            try {
                                while (true) {
                                    use.use(used.get());
                                }
                            } finally {
                                left.countDown();
                            }
                        });
        used.set(rig.queue);
        rig.connect();
        rig.queue.arm(NotifyType.ANY);
        rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
        rig.device.run();
        Until.reached(entered);
        rig.queue.close();
        assertThat(left.getCount()).isZero();
        rig.close();
        assertThat(reported).isEmpty();
    }

    @Test
    void whatElseIsClosedIsReportedAsAnyException() throws Exception {
        LinkedBlockingQueue<Throwable> reported = new LinkedBlockingQueue<>();
        AtomicReference<Rig> made = new AtomicReference<>();
        try (Rig rig =
                new Rig(
                        QueuePairLimits.depths(16, 16),
                        device -> {},
                        status -> {
                            Thread.currentThread()
                                    .setUncaughtExceptionHandler((t, e) -> reported.add(e));
                            made.get().memory.close();
                            made.get().bytes(8);
                        })) {
            made.set(rig);
            rig.connect();
            rig.queue.arm(NotifyType.ANY);
            rig.a.write(1, rig.bytes(8), Rig.REMOTE, 1, OpFlags.NONE).orThrow();
            rig.device.run();
            assertThat(reported.poll(30, TimeUnit.SECONDS)).hasMessageContaining("is closed");
        }
    }

    @Test
    void interruptsAreModeratedWhereTheDeviceCan() {
        try (Rig rig =
                new Rig(
                        QueuePairLimits.depths(4, 4),
                        device -> device.moderationCount = 500,
                        null)) {
            rig.queue.moderate(32, Duration.ofNanos(40_000));
            rig.queue.moderate(0, Duration.ZERO);
            rig.queue.moderate(2, ChronoUnit.FOREVER.getDuration()); // the count alone
            rig.queue.moderate(Integer.MAX_VALUE, Duration.ofMillis(66)); // the interval alone
            assertThat(rig.device.moderations)
                    .containsExactly(
                            "32 after 40 us", "0 after 0 us", "2 after 500 us", "500 after 500 us");
            AdapterInfo info = rig.adapter.info();
            assertThat(info.maxModerationCount()).isEqualTo(500);
            assertThat(info.maxModerationInterval()).isEqualTo(Duration.ofNanos(500_000));
            assertThat(info.flags() & AdapterInfo.CQ_INTERRUPT_MODERATION).isNotZero();
            int depth = rig.queue.depth();
            Duration forever = ChronoUnit.FOREVER.getDuration();
            rig.queue.moderate(depth, forever);
            assertThatThrownBy(() -> rig.queue.moderate(depth + 1, forever))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER_MIX))
                    .hasMessageContaining("%d completions", depth);
            assertThatThrownBy(() -> rig.queue.moderate(-1, Duration.ZERO))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> rig.queue.moderate(1, Duration.ofNanos(-1)))
                    .isInstanceOf(IllegalArgumentException.class);
        }
    }

    @Test
    void aDeviceWithoutModerationSaysSo() {
        try (Rig rig = new Rig(QueuePairLimits.depths(4, 4))) {
            assertThat(rig.adapter.info().maxModerationCount()).isZero();
            assertThat(rig.adapter.info().flags() & AdapterInfo.CQ_INTERRUPT_MODERATION).isZero();
            assertThatThrownBy(() -> rig.queue.moderate(8, Duration.ofMillis(1)))
                    .isInstanceOf(VerbenaException.class)
                    .extracting(e -> ((VerbenaException) e).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
        }
    }
}
