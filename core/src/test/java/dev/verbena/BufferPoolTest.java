package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.LogRecord;

class BufferPoolTest {
    private static final Duration SOON = Duration.ofSeconds(30);

    private final Rig rig = Rig.connected(QueuePairLimits.depths(8, 8).withInlineBytes(64));
    private final BufferPool pool = pool(BufferPoolOptions.of(4, 100));

    private BufferPool pool(BufferPoolOptions options) {
        return rig.domain.createBufferPool(options, Access.REMOTE_READ, Access.REMOTE_WRITE);
    }

    @AfterEach
    void close() {
        pool.close();
        rig.close();
    }

    private List<PooledBuffer> takeAll() {
        List<PooledBuffer> all = new ArrayList<>();
        for (PooledBuffer b = pool.tryTake(); b != null; b = pool.tryTake()) {
            all.add(b);
        }
        return all;
    }

    @Test
    void itHasSoManyBuffersOfItsSizeAndNoneOverlap() {
        List<PooledBuffer> all = takeAll();
        assertThat(all).extracting(PooledBuffer::index).containsExactlyInAnyOrder(0, 1, 2, 3);
        for (PooledBuffer buffer : all) {
            assertThat(buffer.memory().byteSize()).isEqualTo(100);
            assertThat(buffer.memory().address() % 64).isZero();
            assertThat(buffer.region().start() + buffer.offset())
                    .isEqualTo(buffer.memory().address());
            assertThat(buffer.remoteMemory())
                    .isEqualTo(
                            new RemoteMemory(
                                    buffer.memory().address(), buffer.region().remoteToken(), 100));
            buffer.memory().fill((byte) buffer.index());
        }
        for (PooledBuffer buffer : all) {
            assertThat(buffer.memory().toArray(JAVA_BYTE)).containsOnly(buffer.index());
            assertThat(pool.buffer(buffer.index())).isSameAs(buffer);
            buffer.giveBack();
        }
    }

    @Test
    void aPoolThatFindsNoMemoryForItsBuffersLeavesNothing() {
        int before = rig.device.objects();
        assertThatThrownBy(
                        () ->
                                new BufferPool(
                                        rig.domain,
                                        BufferPoolOptions.of(3, 100),
                                        (of, index, memory) -> {
                                            if (index == 1) {
                                                throw new OutOfMemoryError("Java heap space");
                                            }
                                            return new PooledBuffer(of, index, memory);
                                        },
                                        Access.LOCAL_WRITE))
                .isInstanceOf(OutOfMemoryError.class);
        assertThat(rig.device.objects()).isEqualTo(before);
    }

    /** Tracking allocates; where it finds no memory the buffer stays in the pool. */
    @Test
    void aTakeThatCannotBeTrackedLosesNoBuffer() throws Exception {
        int[] failures = {2};
        BufferPool tracked =
                new BufferPool(
                        rig.domain,
                        BufferPoolOptions.of(1, 100).withTracking(true),
                        (of, index, memory) -> {
                            if (failures[0]-- > 0) {
                                throw new OutOfMemoryError("Java heap space");
                            }
                            return PooledBuffer.tracked(of, index, memory);
                        },
                        Access.LOCAL_WRITE);
        assertThatThrownBy(tracked::tryTake).isInstanceOf(OutOfMemoryError.class);
        assertThatThrownBy(() -> tracked.take(SOON)).isInstanceOf(OutOfMemoryError.class);
        assertThat(tracked.counters().free()).isOne();
        try (PooledBuffer buffer = tracked.take(Duration.ZERO)) {
            assertThat(buffer.index()).isZero();
        }
        tracked.close();
        tracked.awaitClosed(Duration.ZERO); // no take holds it
    }

    @Test
    void aBufferIsSentAsAWholeOrInPart() throws InterruptedException {
        try (PooledBuffer buffer = pool.take(SOON)) {
            rig.a.send(1, buffer.buffers()).orThrow();
            assertThat(length()).isEqualTo(100);
            rig.a.send(2, buffer.buffers(10, 5)).orThrow();
            assertThat(length()).isEqualTo(5);
            for (long[] part : new long[][] {{-1, 1}, {100, 1}, {0, 101}, {1, -1}}) {
                assertThatThrownBy(() -> buffer.buffers(part[0], part[1]))
                        .isInstanceOf(IndexOutOfBoundsException.class);
            }
        }
    }

    /** For threads that nobody interrupts. */
    private PooledBuffer taken() {
        try {
            return pool.take(SOON);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private int length() {
        return MemorySegment.ofArray(rig.device.sends.getLast().sges())
                .get(JAVA_INT.withByteAlignment(1), 8);
    }

    @Test
    void aBufferThatWasGivenBackIsNotUsed() throws InterruptedException {
        PooledBuffer buffer = pool.take(SOON);
        buffer.giveBack();
        for (Runnable use :
                List.<Runnable>of(
                        buffer::memory,
                        buffer::buffers,
                        () -> assertThat(buffer.remoteMemory()).isNotNull(),
                        buffer::giveBack,
                        () -> pool.buffer(buffer.index()))) {
            assertThatIllegalStateException()
                    .isThrownBy(use::run)
                    .withMessageContaining("not taken");
        }
        assertThat(takeAll()).hasSize(4).doesNotHaveDuplicates().allSatisfy(PooledBuffer::giveBack);
    }

    @Test
    void anEmptyPoolRefusesOrMakesWait() throws Exception {
        List<PooledBuffer> all = takeAll();
        assertThat(pool.tryTake()).isNull();
        assertThatThrownBy(() -> pool.take(Duration.ofMillis(1)))
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT))
                .hasMessageContaining("withTracking");
        AtomicReference<PooledBuffer> waited = new AtomicReference<>();
        Thread waiter = Thread.ofVirtual().start(() -> waited.set(taken()));
        Until.holds(() -> pool.counters().waits() == 2);
        assertThat(waited).hasValue(null);
        all.getFirst().giveBack();
        waiter.join();
        assertThat(waited.get().index()).isEqualTo(all.getFirst().index());
        assertThat(pool.counters()).isEqualTo(new BufferPool.Counters(5, 1, 2, 3, 0));
        all.set(0, waited.get());
        all.forEach(PooledBuffer::giveBack);
        assertThat(pool.counters().free()).isEqualTo(4);
    }

    @Test
    void aWaitEndsWhenItsThreadIsInterrupted() throws InterruptedException {
        List<PooledBuffer> all = takeAll();
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread waiter =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    try {
                                        thrown.set(new AssertionError(pool.take(SOON)));
                                    } catch (InterruptedException e) {
                                        thrown.set(e);
                                    }
                                });
        waiter.interrupt();
        waiter.join();
        assertThat(thrown.get()).isInstanceOf(InterruptedException.class);
        all.forEach(PooledBuffer::giveBack);
    }

    @Nested
    class Asynchronously {
        private final List<PooledBuffer> all = takeAll();

        private void giveAllBack() {
            all.forEach(PooledBuffer::giveBack);
            Until.holds(() -> pool.counters().free() == 4);
        }

        @Test
        void aFreeBufferIsTakenAtOnce() {
            all.removeFirst().giveBack();
            CompletableFuture<PooledBuffer> taken = pool.takeAsync();
            assertThat(taken).isCompleted();
            all.add(taken.join());
            giveAllBack();
        }

        @Test
        void futuresAndThreadsAreServedInOrder() throws Exception {
            List<String> order = Collections.synchronizedList(new ArrayList<>());
            CompletableFuture<PooledBuffer> first = pool.takeAsync();
            Thread second =
                    Thread.startVirtualThread(
                            () -> {
                                PooledBuffer buffer = taken();
                                order.add("thread");
                                buffer.giveBack();
                            });
            Until.holds(() -> pool.counters().waits() == 2);
            CompletableFuture<Void> third =
                    pool.takeAsync()
                            .thenAccept(
                                    buffer -> {
                                        order.add("future");
                                        buffer.giveBack();
                                    });
            assertThat(pool.tryTake()).as("others wait").isNull();
            all.removeFirst().giveBack();
            all.add(first.get(30, TimeUnit.SECONDS));
            assertThat(order).isEmpty();
            all.removeFirst().giveBack();
            third.get(30, TimeUnit.SECONDS);
            second.join();
            assertThat(order).containsExactly("thread", "future");
            giveAllBack();
        }

        /** A buffer was given back, and is not handed over yet. */
        @Test
        void nobodyOvertakesThoseThatWait() throws Exception {
            CompletableFuture<PooledBuffer> first = pool.takeAsync();
            PooledBuffer buffer = all.removeFirst();
            Thread gives = Thread.ofPlatform().unstarted(buffer::giveBack);
            synchronized (pool.waiters) {
                gives.start();
                Until.holds(() -> gives.getState() == Thread.State.BLOCKED);
                assertThat(pool.tryTake()).isNull();
            }
            gives.join();
            all.add(first.get(30, TimeUnit.SECONDS));
            giveAllBack();
        }

        /** It has found none, and waits only after one was given back. */
        @Test
        void aTakeThatIsAboutToWaitIsServed() throws Exception {
            CompletableFuture<PooledBuffer> taken = new CompletableFuture<>();
            Thread takes = Thread.ofPlatform().unstarted(() -> taken.complete(taken()));
            synchronized (pool.waiters) {
                takes.start();
                Until.holds(() -> takes.getState() == Thread.State.BLOCKED);
                all.removeFirst().giveBack();
            }
            all.add(taken.get(10, TimeUnit.SECONDS));
            giveAllBack();
        }

        /** A stage may wait for another buffer: it runs on a thread of its own. */
        @Test
        void aStageMayWait() throws Exception {
            CompletableFuture<Integer> two =
                    pool.takeAsync()
                            .thenApply(
                                    one -> {
                                        PooledBuffer other = taken();
                                        one.giveBack();
                                        other.giveBack();
                                        return 2;
                                    });
            all.removeFirst().giveBack();
            Until.holds(() -> pool.counters().waits() == 2);
            all.removeFirst().giveBack();
            assertThat(two.get(30, TimeUnit.SECONDS)).isEqualTo(2);
            giveAllBack();
        }

        @Test
        void aCancelledFutureWaitsNoMore() {
            CompletableFuture<PooledBuffer> cancelled = pool.takeAsync();
            CompletableFuture<PooledBuffer> late =
                    pool.takeAsync().orTimeout(1, TimeUnit.MILLISECONDS);
            assertThatThrownBy(late::join).hasCauseInstanceOf(TimeoutException.class);
            assertThat(cancelled.cancel(true)).isTrue();
            Until.holds(() -> pool.counters().refusals() == 3); // join may end a little earlier
            PooledBuffer free = all.removeFirst();
            free.giveBack();
            all.add(taken());
            giveAllBack();
        }

        @Test
        void whenTooManyWaitItRefuses() {
            List<CompletableFuture<PooledBuffer>> futures = new ArrayList<>();
            for (int i = 0; i < 1024; i++) {
                futures.add(pool.takeAsync());
            }
            assertThatThrownBy(() -> pool.takeAsync().join())
                    .cause()
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.NO_MORE_ENTRIES))
                    .hasMessageContaining("1,024 takes wait");
            futures.forEach(future -> future.cancel(true));
            giveAllBack();
        }

        @Test
        void theCloseFailsAllThatWait() {
            CompletableFuture<PooledBuffer> waits = pool.takeAsync();
            pool.close();
            assertThatThrownBy(() -> waits.get(30, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is closed");
            assertThatThrownBy(() -> pool.takeAsync().join())
                    .hasCauseInstanceOf(IllegalStateException.class);
            all.forEach(PooledBuffer::giveBack);
            pool.awaitClosed(SOON);
        }

        /** Futures that are cancelled just when buffers are handed to them: none is lost. */
        @Test
        void noBufferIsLost() throws InterruptedException {
            all.forEach(PooledBuffer::giveBack);
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                boolean cancels = t % 2 == 0;
                threads.add(
                        Thread.ofPlatform()
                                .start(
                                        () -> {
                                            for (int i = 0; i < 5_000; i++) {
                                                takeOrCancel(cancels);
                                            }
                                        }));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            Until.holds(() -> pool.counters().free() == 4);
            assertThat(takeAll()).hasSize(4).allSatisfy(PooledBuffer::giveBack);
        }

        private void takeOrCancel(boolean cancels) {
            List<CompletableFuture<PooledBuffer>> futures = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                futures.add(pool.takeAsync());
            }
            for (CompletableFuture<PooledBuffer> future : futures) {
                if (!cancels || !future.cancel(true)) {
                    var _ = future.thenAccept(PooledBuffer::giveBack);
                }
            }
        }
    }

    @Test
    void takingAndGivingBackAllocateNothing() throws InterruptedException {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < 20 && least > 0; round++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 10_000; i++) {
                PooledBuffer buffer = pool.take(SOON);
                buffer.buffers(0, 10);
                buffer.giveBack();
            }
            least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
        }
        assertThat(least).isZero();
    }

    @Test
    void noTwoThreadsHaveOneBuffer() throws InterruptedException {
        AtomicInteger[] users = new AtomicInteger[4];
        Arrays.setAll(users, i -> new AtomicInteger());
        ConcurrentLinkedQueue<String> problems = new ConcurrentLinkedQueue<>();
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            Runnable work =
                    () -> {
                        for (int i = 0; i < 20_000; i++) {
                            PooledBuffer buffer = taken();
                            if (users[buffer.index()].incrementAndGet() != 1) {
                                problems.add("two users of " + buffer);
                            }
                            users[buffer.index()].decrementAndGet();
                            buffer.giveBack();
                        }
                    };
            threads.add(
                    t % 2 == 0 ? Thread.startVirtualThread(work) : Thread.ofPlatform().start(work));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(problems).isEmpty();
        assertThat(pool.counters().taken()).isEqualTo(160_000);
        assertThat(pool.counters().free()).isEqualTo(4);
    }

    @Test
    void closedWhileBuffersAreTakenItKeepsTheirMemory() throws Exception {
        PooledBuffer buffer = pool.take(SOON);
        MemorySegment memory = buffer.memory();
        pool.close();
        memory.fill((byte) 7);
        rig.a.send(1, buffer.buffers()).orThrow();
        assertThatIllegalStateException().isThrownBy(() -> pool.take(SOON));
        assertThatIllegalStateException().isThrownBy(pool::tryTake);
        assertThatThrownBy(() -> pool.awaitClosed(Duration.ZERO))
                .hasMessageContaining("1 of its dependants or users is not");
        buffer.giveBack();
        pool.awaitClosed(Duration.ZERO);
        assertThat(AllocateTest.mapped(memory.address())).isFalse();
        assertThatIllegalStateException().isThrownBy(() -> memory.get(JAVA_BYTE, 0));
    }

    @Test
    void itsRegionIsClosedWithItOnly() throws Exception {
        PooledBuffer buffer = pool.take(SOON);
        for (int round = 0; round < 2; round++) {
            assertThatIllegalStateException()
                    .isThrownBy(() -> buffer.region().close())
                    .withMessageContaining("is closed with it");
            buffer.memory().set(JAVA_BYTE, 0, (byte) 1);
            pool.close(); // and still not, as the buffer is taken
        }
        buffer.giveBack();
        buffer.region().awaitClosed(Duration.ZERO);
    }

    @Test
    void closingItEndsWaits() throws InterruptedException {
        List<PooledBuffer> all = takeAll();
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread waiter =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    try {
                                        thrown.set(new AssertionError(taken()));
                                    } catch (IllegalStateException e) {
                                        thrown.set(e);
                                    }
                                });
        Until.holds(() -> pool.counters().waits() == 1);
        pool.close();
        waiter.join(SOON);
        assertThat(thrown.get()).hasMessageContaining("closed");
        all.forEach(PooledBuffer::giveBack);
        pool.awaitClosed(Duration.ZERO);
    }

    @Test
    void sizesThatCannotBeAreRefused() {
        for (int count : new int[] {0, -1, 1 << 25}) {
            assertThatIllegalArgumentException().isThrownBy(() -> BufferPoolOptions.of(count, 1));
        }
        for (long bytes : new long[] {0, -1, 1L << 32}) {
            assertThatIllegalArgumentException().isThrownBy(() -> BufferPoolOptions.of(1, bytes));
        }
        assertThat(BufferPoolOptions.of(2, 3).withTracking(true))
                .isEqualTo(BufferPoolOptions.of(2, 3).withTracking(true))
                .hasSameHashCodeAs(BufferPoolOptions.of(2, 3).withTracking(true))
                .isNotEqualTo(BufferPoolOptions.of(2, 3))
                .isNotEqualTo(BufferPoolOptions.of(2, 4).withTracking(true))
                .isNotEqualTo(BufferPoolOptions.of(1, 3).withTracking(true));
    }

    @Nested
    class WithTracking {
        private final BufferPool tracked = pool(BufferPoolOptions.of(2, 64).withTracking(true));

        @AfterEach
        void close() {
            tracked.close();
        }

        private PooledBuffer takenHere() throws InterruptedException {
            return tracked.take(SOON);
        }

        private static void givenBackHere(PooledBuffer buffer) {
            buffer.giveBack();
        }

        @Test
        void aBufferGivenBackTwiceSaysWhere() throws InterruptedException {
            PooledBuffer buffer = takenHere();
            givenBackHere(buffer);
            PooledBuffer next = tracked.take(SOON); // the same bytes
            assertThat(next.index()).isEqualTo(buffer.index());
            assertThatIllegalStateException()
                    .isThrownBy(buffer::giveBack)
                    .satisfies(
                            e -> {
                                assertPlace(e.getSuppressed()[0], "takenHere");
                                assertPlace(e.getSuppressed()[1], "givenBackHere");
                            });
            next.giveBack();
        }

        private static void assertPlace(Throwable place, String method) {
            assertThat(place.getStackTrace())
                    .extracting(StackTraceElement::getMethodName)
                    .contains(method);
        }

        @Test
        void aBufferUsedAfterItWasGivenBackIsFound() throws InterruptedException {
            PooledBuffer buffer = takenHere();
            MemorySegment memory = buffer.memory();
            BufferList list = buffer.buffers();
            rig.a.send(1, list).orThrow();
            buffer.giveBack();
            PooledBuffer next = tracked.take(SOON);
            assertThatIllegalStateException().isThrownBy(() -> memory.get(JAVA_BYTE, 0));
            assertThatIllegalStateException().isThrownBy(buffer::memory);
            assertThat(rig.a.send(2, list).status()).isEqualTo(Status.ACCESS_VIOLATION);
            next.memory().fill((byte) 1);
            assertThat(tracked.buffer(next.index())).isSameAs(next);
            next.giveBack();
        }

        @Test
        void whatWasNeverGivenBackIsListed() throws InterruptedException {
            PooledBuffer first = takenHere();
            PooledBuffer second = takenHere();
            assertThat(tracked.outstanding())
                    .hasSize(2)
                    .allSatisfy(p -> assertPlace(p, "takenHere"));
            assertThatThrownBy(() -> tracked.take(Duration.ZERO))
                    .hasMessageContaining("suppressed")
                    .satisfies(e -> assertPlace(e.getSuppressed()[0], "takenHere"));
            first.giveBack();
            assertThat(tracked.outstanding()).hasSize(1);
            second.giveBack();
            assertThat(tracked.outstanding()).isEmpty();
            assertThat(pool.outstanding()).isEmpty();
        }

        @Test
        void aCloseReportsThem() throws InterruptedException {
            try (LoggedMessages logged = new LoggedMessages("dev.verbena")) {
                PooledBuffer buffer = takenHere();
                tracked.close();
                buffer.giveBack();
                assertThat(logged.records()).hasSize(1);
                LogRecord report = logged.records().getFirst();
                assertThat(report.getMessage()).contains("was closed with 1 buffer not given back");
                assertPlace(report.getThrown(), "takenHere");
            }
        }
    }
}
