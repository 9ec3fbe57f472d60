package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What a close does when the device refuses a part of it, or is gone. */
@Timeout(60)
class CloseTest {
    private static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);

    private static VerbenaException failure(AutoCloseable call) {
        return catchThrowableOfType(VerbenaException.class, call::close);
    }

    /** The kernel has freed everything then, and answers EIO to each destroy. */
    @Nested
    class WhenTheDeviceIsGone {
        private final LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();
        private final Rig rig =
                new Rig(QueuePairLimits.depths(16, 16), device -> {}, called::add).connect();
        private final MemoryWindow window = rig.domain.createMemoryWindow();
        private final SharedReceiveQueue shared =
                rig.domain.createSharedReceiveQueue(4, 1, status -> {});
        private final QueuePair sharing =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));

        private void everythingCloses() {
            List<AutoCloseable> all =
                    List.of(
                            sharing,
                            shared,
                            window,
                            rig.a,
                            rig.b,
                            rig.memory,
                            rig.queue,
                            rig.domain,
                            rig.adapter);
            assertThat(all)
                    .allSatisfy(object -> assertThatCode(object::close).doesNotThrowAnyException());
            // The adapter's thread may still hold the queue whose event it has just handled.
            rig.adapter.awaitClosed(Duration.ofSeconds(30));
            assertThat(rig.device.destroys.getLast()).isEqualTo("ibv_close_device");
            rig.arena.close();
        }

        @Test
        void everythingClosesAfterItsEvent() throws InterruptedException {
            rig.a.bind(1, window, rig.memory, 0, 64, RW).orThrow();
            rig.a.receive(2, rig.bytes(8)).orThrow();
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.gone = true;
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            everythingCloses();
        }

        @Test
        void itsEventIsEnoughAlthoughItStillAnswers() throws InterruptedException {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EIO);
            rig.memory.close();
            everythingCloses();
        }

        @Test
        void everythingClosesWithoutAnEvent() {
            rig.device.gone = true;
            everythingCloses();
        }

        @Test
        void theCallbackIsNotifiedWithoutAnEvent() throws InterruptedException {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.unplug();
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            everythingCloses();
            assertThat(rig.device.askedForAsyncEventsInVain).as("no busy loop").isEqualTo(1);
        }

        /** The event channel of a device that was removed is readable for ever, with EIO. */
        @Test
        void theThreadOfCallbacksIsNoBusyLoop() throws InterruptedException {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.unplug();
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            int before = rig.device.eventsAskedFor;
            rig.device.raiseChannels();
            Thread.sleep(500); // that nothing happens has no event
            assertThat(rig.device.eventsAskedFor - before).isLessThan(50);
            everythingCloses();
        }

        @Test
        void olderKernelsDoNotMakeItsThreadABusyLoop() throws InterruptedException {
            rig.device.hidesTheEnd = true;
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.gone = true;
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            everythingCloses();
            assertThat(rig.device.askedForAsyncEventsInVain).isLessThanOrEqualTo(1);
        }

        @Test
        void requestsThatItWillNeverEndHoldUpNobody() throws InterruptedException {
            rig.queue.arm(NotifyType.ERRORS);
            rig.device.gone = true;
            rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            List<QueuePair> pairs = new ArrayList<>();
            rig.device.gone = false; // to make them
            for (int i = 0; i < 20; i++) {
                QueuePair pair =
                        rig.domain.createQueuePair(
                                rig.queue, rig.queue, QueuePairLimits.depths(4, 4));
                pair.receive(i, rig.bytes(8)).orThrow();
                pairs.add(pair);
            }
            rig.device.gone = true;
            long start = System.nanoTime();
            pairs.forEach(QueuePair::close);
            assertThat(System.nanoTime() - start)
                    .as("not a second each")
                    .isLessThan(10_000_000_000L);
            Completions completions = new Completions(30);
            assertThat(rig.queue.poll(completions)).isEqualTo(20);
            assertThat(completions.status(19)).isEqualTo(Status.CANCELLED);
            everythingCloses();
        }

        @Test
        void aCompletionQueueKeepsNoDescriptor() throws IOException {
            CompletionQueue queue = rig.adapter.createCompletionQueue(4);
            Path descriptor = Path.of("/proc/self/fd/" + rig.device.lastChannelDescriptor());
            assertThat(Files.readSymbolicLink(descriptor)).asString().contains("eventfd");
            rig.device.gone = true;
            queue.close();
            assertThat(Files.exists(descriptor, LinkOption.NOFOLLOW_LINKS)).isFalse();
            everythingCloses();
        }

        @Test
        void anyOtherErrorIsReported() {
            rig.device.gone = true;
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            assertThat(failure(rig.memory).verb()).isEqualTo("ibv_dereg_mr");
            everythingCloses();
        }

        @Test
        void anInputOutputErrorOfADeviceThatAnswersIsReported() {
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EIO);
            assertThat(failure(rig.memory).status()).isEqualTo(Status.DEVICE_REMOVED);
            rig.device.forgetRefused(); // else the domain would be in use
            everythingCloses();
        }
    }

    /**
     * A queue pair may have taken a shared receive that is not ended yet, and some providers clean
     * its completions away as they destroy it.
     */
    @Nested
    class OfAQueuePairWithSharedReceives {
        private final Rig rig =
                new Rig(
                        QueuePairLimits.depths(8, 8),
                        device -> device.vendorId = FakeDevice.MELLANOX,
                        null);
        private final SharedReceiveQueue shared =
                rig.domain.createSharedReceiveQueue(1, 1, status -> {});

        private QueuePair sharing(Rig of, SharedReceiveQueue receives) {
            return of.domain.createQueuePair(
                    of.queue, of.queue, receives, QueuePairLimits.depths(4, 1));
        }

        private QueuePair connectedToA() {
            QueuePair sharing = sharing(rig, shared);
            rig.a.connect(sharing.address());
            sharing.connect(rig.a.address());
            return sharing;
        }

        @AfterEach
        void close() {
            shared.close();
            rig.close();
        }

        /** A message that has taken the only receive, and hangs. */
        private void takeTheReceive() {
            rig.device.messagesHang = true;
            shared.receive(7, rig.bytes(8)).orThrow();
            rig.a.send(8, rig.bytes(8)).orThrow();
            assertThat(rig.poll()).containsExactly("SEND 8 SUCCESS");
            assertThat(shared.receive(9, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
        }

        private void theReceiveEndsAndMayBePostedAgain() {
            assertThat(rig.poll()).containsExactly("RECEIVE 7 CANCELLED");
            assertThat(shared.outstanding()).isZero();
            assertThat(shared.receive(9, rig.bytes(8)).status()).isEqualTo(Status.SUCCESS);
        }

        @Test
        void waitsUntilItsLastReceiveHasEnded() throws InterruptedException {
            rig.device.lastReceive = FakeDevice.LastReceive.LATE;
            QueuePair sharing = connectedToA();
            int number = sharing.address().queuePairNumber();
            takeTheReceive();
            Thread hardware =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        rig.device.until(
                                                () -> rig.device.state(number).equals("ERR"));
                                        rig.device.bringLastReceive(number);
                                    });
            Thread.currentThread().interrupt(); // a close is not given up half way
            sharing.close();
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
            hardware.join();
            theReceiveEndsAndMayBePostedAgain();
        }

        @Test
        void waitsNoLongerThanForTheEvent() {
            long start = System.nanoTime();
            for (int i = 0; i < 8; i++) {
                QueuePair sharing = sharing(rig, shared);
                sharing.connect(rig.a.address());
                if (i % 2 == 0) {
                    sharing.flush(); // brings the event before the close
                }
                sharing.close();
            }
            assertThat(System.nanoTime() - start)
                    .as("not a second each")
                    .isLessThan(7_000_000_000L);
        }

        @Test
        void aReceiveThatAFlushHasEndedMayBePostedAgain() {
            QueuePair sharing = connectedToA();
            takeTheReceive();
            sharing.flush();
            sharing.close();
            theReceiveEndsAndMayBePostedAgain();
        }

        @Test
        void givesUpOnADeviceThatNeverSaysSo() {
            rig.device.lastReceive = FakeDevice.LastReceive.NEVER;
            QueuePair sharing = connectedToA();
            long start = System.nanoTime();
            sharing.close();
            assertThat(System.nanoTime() - start).isBetween(1_000_000_000L, 30_000_000_000L);
        }

        /** The time of each began with its flush. */
        @Test
        void givesUpOnceOnAllThatWereFlushedBefore() {
            rig.device.lastReceive = FakeDevice.LastReceive.NEVER;
            List<QueuePair> flushed = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                QueuePair sharing = sharing(rig, shared);
                sharing.connect(rig.a.address());
                sharing.flush();
                flushed.add(sharing);
            }
            long start = System.nanoTime();
            flushed.forEach(QueuePair::close);
            assertThat(System.nanoTime() - start)
                    .as("not a second each")
                    .isLessThan(7_000_000_000L);
        }

        @Test
        void doesNotWaitWhereNothingCanHaveBeenTaken() {
            rig.device.lastReceive = FakeDevice.LastReceive.NEVER;
            long start = System.nanoTime();
            for (int i = 0; i < 8; i++) {
                sharing(rig, shared).close(); // never connected
            }
            assertThat(System.nanoTime() - start)
                    .as("not a second each")
                    .isLessThan(7_000_000_000L);
        }

        @Test
        void doesNotWaitForProvidersThatDoNotSaySo() {
            for (int vendor : new int[] {FakeDevice.PLAIN, FakeDevice.RXE, FakeDevice.SIW}) {
                try (Rig other =
                                new Rig(
                                        QueuePairLimits.depths(8, 8),
                                        device -> device.vendorId = vendor,
                                        null);
                        SharedReceiveQueue receives =
                                other.domain.createSharedReceiveQueue(1, 1, status -> {})) {
                    long start = System.nanoTime();
                    for (int i = 0; i < 8; i++) {
                        try (QueuePair sharing = sharing(other, receives)) {
                            sharing.connect(other.a.address());
                        }
                    }
                    assertThat(System.nanoTime() - start)
                            .as("not a second each")
                            .isLessThan(7_000_000_000L);
                }
            }
        }
    }

    /** The native object may outlive the close: NDK's close pends. */
    @Nested
    class Waiting {
        private static final Duration LONG = Duration.ofSeconds(30);

        private final Rig rig = Rig.connected(QueuePairLimits.depths(16, 16));
        private final MemoryWindow window = rig.domain.createMemoryWindow();
        private final MemoryRegion region =
                rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);

        @AfterEach
        void close() {
            rig.device.destroyErrors.clear();
            window.close();
            region.close();
            rig.close();
        }

        private void closeRegionWhileAWindowIsBoundToIt() {
            rig.a.bind(1, window, region, 0, 64, RW).orThrow();
            assertThat(rig.poll()).hasSize(1);
            region.close();
        }

        @Test
        void whatNothingKeepsIsDestroyedByItsClose() {
            region.close();
            region.awaitClosed(Duration.ZERO);
            assertThat(region.closed()).succeedsWithin(LONG);
        }

        @Test
        void aRegionIsThereUntilItsWindowIsClosed() {
            closeRegionWhileAWindowIsBoundToIt();
            CompletableFuture<Void> closed = region.closed();
            VerbenaException late = failure(() -> region.awaitClosed(Duration.ofMillis(1)));
            assertThat(late.status()).isEqualTo(Status.IO_TIMEOUT);
            assertThat(late)
                    .hasMessageContaining("MemoryRegion of 64 bytes")
                    .hasMessageContaining("is closed, but 1 ");
            assertThat(closed).isNotDone();
            window.close();
            region.awaitClosed(Duration.ZERO);
            assertThat(closed).succeedsWithin(LONG);
        }

        @Test
        void aWaitingThreadIsWoken() throws Exception {
            closeRegionWhileAWindowIsBoundToIt();
            FutureTask<Void> waiting =
                    new FutureTask<>(
                            () -> {
                                region.awaitClosed(LONG);
                                return null;
                            });
            Thread thread = Thread.ofVirtual().start(waiting);
            Until.isIn(thread, Thread.State.TIMED_WAITING);
            assertThat(waiting).isNotDone();
            window.close();
            waiting.get(30, TimeUnit.SECONDS);
        }

        @Test
        void anObjectThatNobodyClosedSaysSo() {
            assertThat(failure(() -> rig.a.awaitClosed(Duration.ZERO)))
                    .hasMessageContaining(rig.a + " is not closed");
        }

        @Test
        void aDestroyThatFailsIsReportedToThoseWaiting() {
            closeRegionWhileAWindowIsBoundToIt();
            CompletableFuture<Void> closed = region.closed();
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            assertThat(failure(window).verb()).isEqualTo("ibv_dereg_mr");
            VerbenaException failure = failure(() -> region.awaitClosed(LONG));
            assertThat(failure.status()).isEqualTo(Status.DEVICE_BUSY);
            assertThat(failure)
                    .hasMessage(
                            "%s could not be destroyed (DEVICE_BUSY; the cause says why), and its memory must stay allocated"
                                    .formatted(region))
                    .cause()
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("ibv_dereg_mr");
            assertThat(closed)
                    .failsWithin(LONG)
                    .withThrowableOfType(ExecutionException.class)
                    .withCauseInstanceOf(VerbenaException.class);
            rig.device.destroyErrors.clear();
            rig.device.forgetRefused(); // so that nothing seems to be left behind
        }

        @Test
        void anInterruptGivesTheWaitingUp() {
            closeRegionWhileAWindowIsBoundToIt();
            Thread.currentThread().interrupt();
            VerbenaException failure = failure(() -> region.awaitClosed(LONG));
            assertThat(Thread.interrupted()).isTrue();
            assertThat(failure.status()).isEqualTo(Status.CANCELLED);
        }

        /** The destroy may be run by a thread with locks, or by one that others wait for. */
        @Test
        void whatHangsOnTheFutureRunsOnAThreadOfItsOwn() {
            closeRegionWhileAWindowIsBoundToIt();
            CompletableFuture<String> name =
                    region.closed().thenApply(nothing -> Thread.currentThread().getName());
            window.close();
            assertThat(name).succeedsWithin(LONG).asString().startsWith("verbena-callback");
            region.closed().cancel(true); // the caller's own
            assertThat(region.closed()).succeedsWithin(LONG);
        }

        @Test
        void everyKindOfObjectCanBeWaitedFor() {
            CompletionQueue queue = rig.adapter.createCompletionQueue(4, status -> {});
            QueuePair pair = rig.domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
            queue.close();
            assertThat(failure(() -> queue.awaitClosed(Duration.ZERO)).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            pair.close();
            queue.awaitClosed(LONG); // its thread has to end, too
        }

        /** What a device may still write into must not be given to somebody else. */
        @Test
        void memoryOfARegionThatCannotBeDeregisteredIsNotFreedByTheCollector() {
            region.close();
            WeakReference<MemorySegment> memory = leftRegistered();
            for (int i = 0; i < 5; i++) {
                System.gc();
            }
            assertThat(memory.get()).isNotNull();
        }

        @Test
        void norIsMemoryWhoseDeregistrationThrows() {
            WeakReference<MemorySegment> memory = leftByAnError();
            for (int i = 0; i < 5; i++) {
                System.gc();
            }
            assertThat(memory.get()).isNotNull();
        }

        private static WeakReference<MemorySegment> leftByAnError() {
            Rig other = new Rig(QueuePairLimits.depths(1, 1));
            MemorySegment memory = Arena.ofAuto().allocate(64);
            MemoryRegion region = other.domain.register(memory, Access.LOCAL_WRITE);
            other.device.beforeOther =
                    verb -> {
                        if (verb.equals("ibv_dereg_mr")) {
                            throw new OutOfMemoryError(verb);
                        }
                    };
            assertThat(catchThrowable(region::close)).isInstanceOf(OutOfMemoryError.class);
            other.device.beforeOther = verb -> {};
            other.device.deregisterMemory(region.registered().handle());
            other.close();
            return new WeakReference<>(memory);
        }

        private static WeakReference<MemorySegment> leftRegistered() {
            Rig other = new Rig(QueuePairLimits.depths(1, 1));
            MemorySegment memory = Arena.ofAuto().allocate(64);
            MemoryRegion region = other.domain.register(memory, Access.LOCAL_WRITE);
            other.device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            assertThat(failure(region)).isNotNull();
            other.device.destroyErrors.clear();
            other.device.forgetRefused();
            other.close();
            return new WeakReference<>(memory);
        }
    }

    /** Every step of a destroy is tried, and what failed is reported together. */
    @Nested
    class WhenADestroyFails {
        private final Rig rig = Rig.connected(QueuePairLimits.depths(16, 16));

        @AfterEach
        void closeTheRest() {
            rig.device.destroyErrors.clear();
            for (AutoCloseable left :
                    List.of(rig.a, rig.b, rig.memory, rig.queue, rig.domain, rig.adapter)) {
                failure(left);
            }
            rig.arena.close();
        }

        private long tried(String verb) {
            return Collections.frequency(rig.device.destroys, verb);
        }

        @Test
        void aQueuePairIsDestroyedWithTheRegionsItKept() {
            MemoryWindow first = rig.domain.createMemoryWindow();
            MemoryWindow second = rig.domain.createMemoryWindow();
            MemoryWindow third = rig.domain.createMemoryWindow();
            MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
            rig.a.bind(1, first, rig.memory, 0, 64, RW).orThrow();
            rig.a.bind(2, second, rig.memory, 0, 64, RW).orThrow();
            assertThat(rig.poll()).hasSize(2);
            rig.device.running = false;
            rig.a.bind(3, third, region, 0, 64, RW).orThrow();
            third.close(); // its bind is outstanding: freed with the queue pair
            region.close();
            int before = rig.device.objects();
            rig.device.destroys.clear(); // the adapter has tried some limits
            rig.device.destroyErrors.put("ibv_dealloc_mw", Errno.EBUSY);
            VerbenaException failure = failure(rig.a);
            assertThat(failure.verb()).isEqualTo("ibv_dealloc_mw");
            assertThat(failure.status()).isEqualTo(Status.DEVICE_BUSY);
            assertThat(failure)
                    .hasMessageContaining("EBUSY")
                    .hasMessageContaining(rig.a.describe() + " is closed");
            assertThat(failure.getSuppressed())
                    .as("the other two windows")
                    .hasSize(2)
                    .allSatisfy(other -> assertThat(other).hasMessageContaining("ibv_dealloc_mw"));
            assertThat(tried("ibv_destroy_qp")).as("queue pairs destroyed").isEqualTo(1);
            assertThat(tried("ibv_dereg_mr")).as("regions deregistered").isEqualTo(1);
            assertThat(rig.device.objects()).isEqualTo(before - 2);
            // The completion queue has lost it, too.
            rig.device.destroyErrors.clear();
            rig.b.close();
            rig.queue.close();
            assertThat(tried("ibv_destroy_cq")).isEqualTo(1);
        }

        @Test
        void aWindowLetsItsRegionGo() {
            MemoryWindow window = rig.domain.createMemoryWindow();
            MemoryRegion region = rig.domain.register(rig.arena.allocate(64), Access.REMOTE_WRITE);
            rig.a.bind(1, window, region, 0, 64, RW).orThrow();
            assertThat(rig.poll()).hasSize(1);
            region.close();
            assertThat(tried("ibv_dereg_mr")).isZero();
            rig.device.destroyErrors.put("ibv_dealloc_mw", Errno.EBUSY);
            assertThat(failure(window).verb()).isEqualTo("ibv_dealloc_mw");
            assertThat(tried("ibv_dereg_mr")).isEqualTo(1);
        }

        @Test
        void aBindDoesNotThrowForAWornOutWindowButTheCloseDoes() {
            MemoryWindow window = rig.domain.createMemoryWindow();
            rig.device.destroyErrors.put("ibv_dealloc_mw", Errno.EBUSY);
            for (int i = 0; i < 600; i++) { // a native window lasts for 255
                rig.a.bind(1, window, rig.memory, 0, 64, RW).orThrow();
                rig.a.invalidate(2, window, OpFlags.NONE).orThrow();
                assertThat(rig.poll()).hasSize(2);
            }
            rig.device.destroyErrors.clear();
            VerbenaException failure = failure(window);
            assertThat(failure.verb()).isEqualTo("ibv_dealloc_mw");
            assertThat(failure.getSuppressed()).hasSize(1);
            assertThat(rig.device.windowCount()).as("the two that failed").isEqualTo(2);
        }

        @Test
        void aCompletionQueuesChannelIsTriedToo() {
            CompletionQueue queue = rig.adapter.createCompletionQueue(4);
            rig.device.destroyErrors.put("ibv_destroy_cq", Errno.EBUSY);
            VerbenaException failure = failure(queue);
            assertThat(failure.verb()).isEqualTo("ibv_destroy_cq");
            assertThat(failure.getSuppressed()).hasSize(1);
            assertThat(tried("ibv_destroy_comp_channel")).isEqualTo(1);
        }

        @Test
        void aDomainClosedBeforeItsRegionIsTriedWithTheAdapter() {
            rig.a.close();
            rig.b.close();
            rig.queue.close();
            rig.domain.close();
            rig.adapter.close();
            rig.device.destroyErrors.put("ibv_dereg_mr", Errno.EBUSY);
            rig.device.destroyErrors.put("ibv_dealloc_pd", Errno.EBUSY);
            VerbenaException failure = failure(rig.memory);
            assertThat(failure.verb()).isEqualTo("ibv_dereg_mr");
            assertThat(failure.getSuppressed()).hasSize(1);
            assertThat(failure.getSuppressed()[0]).hasMessageContaining("ibv_dealloc_pd");
            assertThat(tried("ibv_close_device")).isEqualTo(1);
        }
    }
}
