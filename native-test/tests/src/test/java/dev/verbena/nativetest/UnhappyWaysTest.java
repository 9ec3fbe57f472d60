package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.Gid;
import dev.verbena.MemoryRegion;
import dev.verbena.OperationType;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairAddress;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;

/**
 * What a user gets wrong, and what a network does: always a status or a sentence, never a hang and
 * never a crash.
 */
@NeedsDevices
@Timeout(120)
class UnhappyWaysTest {
    @Test
    void sendingBeforeConnectingIsRefusedAndLeavesNoTrace() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1))) {
            MemoryRegion source = pair.left.memory(8);
            MemoryRegion target = pair.right.memory(8);
            assertThat(pair.left.queuePair.send(1, whole(source)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(pair.left.queuePair.send(2, whole(source)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            // Receives are welcome before the connection, and get the first message after it.
            pair.right.queuePair.receive(3, whole(target)).orThrow();
            pair.connect();
            pair.left.queuePair.send(4, whole(source)).orThrow();
            assertThat(pair.right.completion().context(0)).isEqualTo(3);
            assertThat(pair.left.completion().context(0)).isEqualTo(4);
            assertThat(pair.left.completionQueue.poll(new Completions(1))).isZero();
        }
    }

    @Test
    void aFullQueueSaysSoAndTakesMoreAfterACompletion() {
        try (Pair pair = Pair.connected(2)) {
            MemoryRegion source = pair.left.memory(8);
            MemoryRegion target = pair.right.memory(8);
            QueuePair receiver = pair.right.queuePair;
            receiver.receive(1, whole(target)).orThrow();
            receiver.receive(2, whole(target)).orThrow();
            assertThat(receiver.receive(3, whole(target)).status())
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            pair.left.queuePair.send(4, whole(source)).orThrow();
            assertThat(pair.right.completion().context(0)).isEqualTo(1);
            receiver.receive(5, whole(target)).orThrow();

            // The initiator's completion has come too, but as long as nobody polls it, its place is
            // taken.
            pair.left.queuePair.send(6, whole(source)).orThrow();
            assertThat(pair.right.completion().context(0)).isEqualTo(2);
            assertThat(pair.left.queuePair.send(7, whole(source)).status())
                    .isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(pair.left.completion().context(0)).isEqualTo(4);
            pair.left.queuePair.send(8, whole(source)).orThrow();
            assertThat(pair.right.completion().context(0)).isEqualTo(5);
        }
    }

    @Test
    void tooManyBuffersAreRefusedByWhatWasAskedFor() {
        try (Pair pair = Pair.connected(1)) {
            MemoryRegion memory = pair.left.memory(8);
            BufferList two = new BufferList(2).add(memory, 0, 4).add(memory, 4, 4);
            assertThat(pair.left.queuePair.send(1, two).status())
                    .isEqualTo(Status.INVALID_PARAMETER);
            assertThat(pair.left.queuePair.receive(1, two).status())
                    .isEqualTo(Status.INVALID_PARAMETER);
        }
    }

    @Test
    void buffersOutsideTheirRegionAreRefusedBeforeAnyPost() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1))) {
            MemoryRegion memory = pair.left.memory(8);
            BufferList list = new BufferList(1);
            assertThatThrownBy(() -> list.add(memory, 4, 5))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> list.add(memory, -1, 1))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            list.add(memory, 0, 8);
            assertThatThrownBy(() -> list.add(memory, 0, 8))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(list.size()).isEqualTo(1);
            assertThat(list.bytes()).isEqualTo(8);
        }
    }

    @Test
    void aMessageLongerThanItsReceiveFailsAtBothEndsAndCancelsWhatFollows() {
        try (Pair pair = Pair.connected(2)) {
            MemoryRegion source = pair.left.memory(9);
            MemoryRegion target = pair.right.memory(8);
            pair.right.queuePair.receive(1, whole(target)).orThrow();
            pair.right.queuePair.receive(2, whole(target)).orThrow();
            pair.left.queuePair.send(3, whole(source)).orThrow();

            Completions received = pair.right.completion();
            assertThat(received.context(0)).isEqualTo(1);
            assertThat(received.type(0)).isEqualTo(OperationType.RECEIVE);
            assertThat(received.status(0)).isEqualTo(Status.BUFFER_OVERFLOW);
            // IBV_WC_LOC_LEN_ERR; Soft-RoCE says LOC_QP_OP_ERR. Seen on Linux 6.1 with 1 to 5
            // packets, and on 6.12.
            assertThat(received.providerCode(0) >>> 32)
                    .isEqualTo(RdmaDevices.isSoftRoce(pair.right.adapter.name()) ? 2 : 1);
            assertThat(received.bytes(0)).isZero();
            Completions sent = pair.left.completion();
            assertThat(sent.context(0)).isEqualTo(3);
            assertThat(sent.type(0)).isEqualTo(OperationType.SEND);
            assertThat(sent.status(0)).isEqualTo(Status.REMOTE_RESOURCES);

            Completions cancelled = pair.right.completion();
            assertThat(cancelled.context(0)).isEqualTo(2);
            assertThat(cancelled.status(0)).isEqualTo(Status.CANCELLED);
        }
    }

    @Test
    void aReceiveIntoMemoryThatMayNotBeWrittenIsRefused() {
        try (Pair pair = Pair.connected(1);
                MemoryRegion readOnly = pair.right.domain.register(pair.right.arena.allocate(8))) {
            assertThat(pair.right.queuePair.receive(1, whole(readOnly)).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(pair.right.queuePair.receive(1, whole(pair.right.memory(8))).status())
                    .isEqualTo(Status.SUCCESS);
        }
    }

    @Test
    void aSendThatNobodyReceivesEndsInATimeout() {
        try (Pair pair = Pair.connected(1)) {
            pair.left.queuePair.send(1, whole(pair.left.memory(8))).orThrow();
            Completions completions = pair.left.completion();
            assertThat(completions.status(0)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(completions.context(0)).isEqualTo(1);
        }
    }

    @Test
    void oneCompletionQueueServesManyQueuePairsAndForgetsTheClosedOnes() {
        try (Pair pair = new Pair(QueuePairLimits.depths(4, 4))) {
            CompletionQueue queue = pair.left.adapter.createCompletionQueue(256);
            MemoryRegion memory = pair.left.memory(8);
            List<QueuePair> others = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                others.add(
                        pair.left.domain.createQueuePair(
                                queue, queue, QueuePairLimits.depths(1, 1)));
            }
            for (int round = 0; round < 2; round++) {
                for (int i = 0; i < others.size(); i += 2) {
                    QueuePair a = others.get(i);
                    QueuePair b = others.get(i + 1);
                    a.connect(b.address());
                    b.connect(a.address());
                    b.receive(i, whole(memory)).orThrow();
                    a.send(i + 1, whole(memory)).orThrow();
                }
                Completions completions = new Completions(7);
                int seen = 0;
                long deadline = System.nanoTime() + 30_000_000_000L;
                while (seen < others.size() && System.nanoTime() < deadline) {
                    int count = queue.poll(completions);
                    for (int i = 0; i < count; i++) {
                        assertThat(completions.status(i)).isEqualTo(Status.SUCCESS);
                        int context = (int) completions.context(i);
                        boolean receive = completions.type(i) == OperationType.RECEIVE;
                        assertThat(completions.queuePair(i))
                                .isSameAs(others.get(receive ? context + 1 : context - 1));
                    }
                    seen += count;
                }
                assertThat(seen).isEqualTo(others.size());
                // Receives of a closed queue pair end cancelled, and the next one does not inherit
                // them.
                for (int i = 0; i < others.size(); i++) {
                    others.get(i).receive(1000, whole(memory)).orThrow();
                    others.get(i).close();
                    others.set(
                            i,
                            pair.left.domain.createQueuePair(
                                    queue, queue, QueuePairLimits.depths(1, 1)));
                }
                int cancelled = 0;
                for (int count = queue.poll(completions);
                        count > 0;
                        count = queue.poll(completions)) {
                    for (int i = 0; i < count; i++) {
                        assertThat(completions.status(i)).isEqualTo(Status.CANCELLED);
                        assertThat(completions.context(i)).isEqualTo(1000);
                    }
                    cancelled += count;
                }
                assertThat(cancelled).isEqualTo(others.size());
            }
            others.forEach(QueuePair::close);
            queue.close();
        }
    }

    @Test
    void noOrderOfClosingBreaksAnything() {
        Random random = new Random(20261120);
        for (int i = 0; i < 30; i++) {
            Pair pair = Pair.connected(2);
            MemoryRegion memory = pair.left.memory(8);
            pair.left.queuePair.receive(1, whole(memory)).orThrow();
            List<AutoCloseable> objects =
                    new ArrayList<>(
                            List.of(
                                    pair.left.adapter,
                                    pair.left.domain,
                                    pair.left.completionQueue,
                                    pair.left.queuePair,
                                    memory));
            Collections.shuffle(objects, random);
            for (AutoCloseable object : objects) {
                close(object);
                close(object);
            }
            assertThat(pair.left.queuePair.send(1, new BufferList(1)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(pair.left.queuePair.receive(1, new BufferList(1)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThatThrownBy(() -> pair.left.completionQueue.poll(new Completions(1)))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is closed");
            assertThatThrownBy(() -> pair.left.adapter.createProtectionDomain())
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is closed");
            pair.right.close();
        }
    }

    private static void close(AutoCloseable object) {
        try {
            object.close();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void closingBesidePostsPollsAndQueriesIsSafe() throws InterruptedException {
        for (int i = 0; i < 10; i++) {
            Pair pair = Pair.connected(4);
            MemoryRegion memory = pair.left.memory(8);
            CountDownLatch underWay = new CountDownLatch(4);
            Queue<Throwable> surprises = new ConcurrentLinkedQueue<>();
            List<Thread> threads =
                    List.of(
                            untilClosed(
                                    underWay,
                                    surprises,
                                    list -> pair.left.queuePair.receive(1, list).status(),
                                    memory),
                            untilClosed(
                                    underWay,
                                    surprises,
                                    list -> pair.left.queuePair.send(1, list).status(),
                                    memory),
                            untilClosed(
                                    underWay,
                                    surprises,
                                    list -> {
                                        pair.left.completionQueue.poll(new Completions(4));
                                        return Status.SUCCESS;
                                    },
                                    memory),
                            untilClosed(
                                    underWay,
                                    surprises,
                                    list -> {
                                        pair.left.adapter.ports();
                                        return Status.SUCCESS;
                                    },
                                    memory));
            underWay.await();
            memory.close();
            pair.close();
            for (Thread thread : threads) {
                thread.join();
            }
            assertThat(surprises).isEmpty();
        }
    }

    /**
     * Repeats a call until it says that its object is closed; anything else thrown is a surprise.
     */
    private static Thread untilClosed(
            CountDownLatch underWay,
            Queue<Throwable> surprises,
            Function<BufferList, Status> call,
            MemoryRegion memory) {
        BufferList list = whole(memory);
        return Thread.ofPlatform()
                .start(
                        () -> {
                            try {
                                Status status = call.apply(list);
                                underWay.countDown();
                                while (status != Status.CONNECTION_INVALID) {
                                    status = call.apply(list);
                                }
                            } catch (IllegalStateException e) {
                                if (!e.getMessage().endsWith("is closed")) {
                                    surprises.add(e);
                                }
                            } catch (Throwable t) {
                                surprises.add(t);
                            }
                        });
    }

    @Test
    void whatWasMadeFromAClosedObjectStaysUsable() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1))) {
            pair.left.adapter.close();
            pair.right.adapter.close();
            try (QueuePair late =
                    pair.left.domain.createQueuePair(
                            pair.left.completionQueue,
                            pair.left.completionQueue,
                            QueuePairLimits.depths(1, 1))) {
                late.connect(pair.right.queuePair.address());
                pair.right.queuePair.connect(late.address());
                pair.right.queuePair.receive(1, whole(pair.right.memory(8))).orThrow();
                late.send(2, whole(pair.left.memory(8))).orThrow();
                assertThat(pair.right.completion().status(0)).isEqualTo(Status.SUCCESS);
            }
        }
    }

    @Test
    void connectingTwiceOrToNowhereIsRefusedWithAReason() {
        try (Pair pair = Pair.connected(1)) {
            assertThatThrownBy(() -> pair.left.queuePair.connect(pair.right.queuePair.address()))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("already");
        }
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1))) {
            QueuePairAddress there = pair.right.queuePair.address();
            // 240.0.0.1 is in a block that is never routed.
            QueuePairAddress nowhere =
                    QueuePairAddress.of(
                                    there.queuePairNumber(),
                                    there.firstSequenceNumber(),
                                    new Gid(0, 0xFFFF_F000_0001L),
                                    there.mtuBytes())
                            .withLid(there.lid());
            assertThatThrownBy(() -> pair.left.queuePair.connect(nowhere))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("240.0.0.1");
        }
    }

    @Test
    void limitsBeyondTheDeviceAreRefusedWithTheLimit() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1))) {
            assertThatThrownBy(() -> pair.left.adapter.createCompletionQueue(Integer.MAX_VALUE))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER))
                    .hasMessageContaining("deep");
            CompletionQueue queue = pair.left.completionQueue;
            assertThatThrownBy(
                            () ->
                                    pair.left.domain.createQueuePair(
                                            queue,
                                            queue,
                                            QueuePairLimits.depths(Integer.MAX_VALUE, 1)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER))
                    .hasMessageContaining("at most");
        }
    }

    @Test
    @SuppressWarnings("restricted") // to name an address that is not mapped
    void memoryThatCannotBeRegisteredIsRefusedByName() {
        try (Pair pair = new Pair(QueuePairLimits.depths(1, 1));
                Arena arena = Arena.ofConfined()) {
            assertThatThrownBy(() -> pair.left.domain.register(MemorySegment.ofArray(new byte[8])))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("Java heap");
            assertThatThrownBy(() -> pair.left.domain.register(arena.allocate(8).asSlice(0, 0)))
                    .isInstanceOf(IllegalArgumentException.class);
            Arena closed = Arena.ofConfined();
            MemorySegment gone = closed.allocate(8);
            closed.close();
            assertThatThrownBy(() -> pair.left.domain.register(gone))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("arena was closed");
            MemorySegment confined =
                    CompletableFuture.supplyAsync(() -> Arena.ofConfined().allocate(8)).join();
            assertThatThrownBy(() -> pair.left.domain.register(confined))
                    .isInstanceOf(WrongThreadException.class)
                    .hasMessageContaining("Arena.ofShared()");
            MemoryRegion region = pair.left.memory(8);
            region.close();
            assertThatThrownBy(() -> new BufferList(1).add(region, 0, 8))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is closed");
            MemorySegment unmapped = MemorySegment.ofAddress(4096).reinterpret(8);
            assertThatThrownBy(() -> pair.left.domain.register(unmapped, Access.LOCAL_WRITE))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> {
                                assertThat(e.verb()).startsWith("ibv_reg_mr");
                                assertThat(e.errno()).isNotZero();
                            })
                    .hasMessageContaining("ulimit -l");
        }
    }

    @Test
    void anUnknownDeviceIsAnsweredWithThoseThereAre() {
        assertThatThrownBy(() -> Adapter.open("mlx5_77"))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining("mlx5_77")
                .hasMessageContaining(RdmaDevices.active().getFirst());
    }
}
