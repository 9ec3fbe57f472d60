package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Provider;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

@Timeout(60)
class QueueTest {
    private static final Endpoint ENDPOINT = new Endpoint("owner", new WindowTable(), () -> {});

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 1000})
    void aFifoTakesAsManyAsItIsDeepAndKeepsTheirContexts(int depth) {
        RequestFifo fifo = new RequestFifo(ENDPOINT, 0, depth, 1);
        int[] sequences = new int[depth];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < depth; i++) {
                assertThat(fifo.full()).isFalse();
                sequences[i] = fifo.add(round * 10_000L + i, RequestType.WRITE, false, true);
            }
            assertThat(fifo.full()).isTrue();
            for (int i = 0; i < depth; i++) {
                assertThat(fifo.context(sequences[i])).isEqualTo(round * 10_000L + i);
                fifo.look();
                assertThat(fifo.end(sequences[i], true)).isTrue();
                assertThat(fifo.full()).isEqualTo(i == 0);
                fifo.told();
                assertThat(fifo.full()).isFalse();
            }
            assertThat(fifo.underWay()).isZero();
        }
    }

    @Test
    void whatIsOwedAcrossTheWrapIsToldInOrder() {
        RequestFifo fifo = new RequestFifo(ENDPOINT, 0, 64, 1);
        int last = fifo.last();
        while (last < Integer.MAX_VALUE - 2) {
            last = fifo.add(0, RequestType.WRITE, false, true);
            fifo.look();
            assertThat(fifo.end(last, true)).isTrue();
            fifo.told();
        }
        for (int i = 1; i <= 6; i++) {
            fifo.add(i, RequestType.WRITE, false, true);
        }
        assertThat(fifo.last()).isNegative();
        fifo.owe(last + 1, fifo.last(), 21, 5);
        for (int i = 1; i <= 6; i++) {
            assertThat(fifo.nextOwed()).isTrue();
            assertThat(fifo.context(fifo.owedSequence())).isEqualTo(i);
            assertThat(fifo.owedStatus()).isEqualTo(i == 1 ? 21 : 5);
            fifo.told();
        }
        assertThat(fifo.nextOwed()).isFalse();
        assertThat(fifo.underWay()).isZero();
    }

    @Test
    void whatWasTakenBackLeavesRoom() {
        RequestFifo fifo = new RequestFifo(ENDPOINT, 0, 1, 1);
        for (boolean silent : new boolean[] {false, true}) {
            fifo.add(1, RequestType.WRITE, silent, true);
            assertThat(fifo.full()).isTrue();
            fifo.takeBack();
            assertThat(fifo.full()).isFalse();
        }
        assertThat(fifo.context(fifo.add(2, RequestType.WRITE, false, true))).isEqualTo(2);
    }

    @Test
    void aSharedQueuesIdIsNoQueuePairs() {
        SharedQueues queues = new SharedQueues();
        long id = queues.reserve();
        assertThat(WorkId.isShared(id)).isTrue();
        assertThat(WorkId.isReceive(id)).isTrue();
        assertThat(WorkId.isShared(WorkId.queue(3, 9, true))).isFalse();
        SharedReceives first = new SharedReceives(id, 1, 1, null);
        queues.enter(first);
        assertThat(queues.find(WorkId.of(id, 0))).isSameAs(first);
        SharedReceives second = new SharedReceives(queues.reserve(), 2, 1, null);
        queues.enter(second);
        queues.remove(first);
        assertThat(queues.find(WorkId.of(id, 0))).isNull();
        long again = queues.reserve(); // the same slot, another generation
        queues.enter(new SharedReceives(again, 3, 1, null));
        assertThat(WorkId.slot(again)).isEqualTo(WorkId.slot(id));
        assertThat(queues.find(WorkId.of(id, 0))).isNull();
        assertThat(queues.find(WorkId.sharedQueue(77, 1))).isNull();
    }

    @Test
    void aPumpThatIsShutAnswersThatItIs() {
        FakeDevice device = new FakeDevice();
        CompletionPump pump =
                new CompletionPump(
                        device.open(), Provider.of(0, 0), new SharedQueues(), 0, () -> {});
        for (int i = 0; i < WorkId.SLOTS; i++) {
            assertThat(WorkId.slot(pump.reserve(i % 2 == 0))).isEqualTo(i);
        }
        assertThat(pump.reserve(false)).isEqualTo(CompletionPump.NO_SLOT);
        long again = WorkId.queue(5, 1, false);
        pump.release(again);
        assertThat(WorkId.slot(pump.reserve(false))).isEqualTo(5);
        pump.shut();
        assertThat(pump.reserve(false)).isEqualTo(CompletionPump.CLOSED);
        assertThat(pump.poll(new CompletionRecords(1))).isFalse();
        assertThat(pump.drain()).isFalse();
        assertThat(pump.waiting(-1)).isFalse();
        device.dispose();
    }

    @Test
    void aMapOfIntsKeepsWhatAHashMapKeeps() {
        Random random = new Random(20261120);
        for (int spread : new int[] {8, 64, Integer.MAX_VALUE}) {
            IntMap<String> map = new IntMap<>();
            Map<Integer, String> expected = new HashMap<>();
            for (int i = 0; i < 20_000; i++) {
                int key = random.nextInt(spread) - spread / 2;
                if (random.nextInt(3) > 0 && expected.size() < 500) {
                    map.put(key, "v" + i);
                    expected.put(key, "v" + i);
                } else if (!expected.isEmpty()) {
                    int gone = random.nextBoolean() ? key : expected.keySet().iterator().next();
                    map.remove(gone);
                    expected.remove(gone);
                }
                assertThat(map.get(key)).isEqualTo(expected.get(key));
            }
            expected.forEach((key, value) -> assertThat(map.get(key)).isEqualTo(value));
        }
    }

    @Test
    void keptCompletionsGrowAndComeOutInOrder() {
        Backlog kept = new Backlog(2);
        CompletionRecords out = new CompletionRecords(3);
        int[] told = {0};
        int next = 0;
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < 4; i++) {
                assertThat(kept.makeRoom()).isTrue();
                kept.next(i % 2 == 0 ? () -> told[0]++ : null)
                        .add(ENDPOINT, RequestType.SEND, 4L * round + i, i, 0, 0, i, false);
            }
            out.clear();
            kept.moveTo(out);
            for (int i = 0; i < out.size(); i++) {
                assertThat(out.context(i)).isEqualTo(next++);
                assertThat(out.owner(i)).isEqualTo("owner");
            }
        }
        while (!kept.isEmpty()) {
            out.clear();
            kept.moveTo(out);
            for (int i = 0; i < out.size(); i++) {
                assertThat(out.context(i)).isEqualTo(next++);
            }
        }
        assertThat(next).isEqualTo(80);
        assertThat(told[0]).isEqualTo(40);
    }

    @Test
    void workIdsKeepTheirParts() {
        for (boolean receive : new boolean[] {true, false}) {
            for (int slot : new int[] {0, 1, WorkId.SLOTS - 1}) {
                for (int sequence : new int[] {0, -1, Integer.MIN_VALUE, 77}) {
                    long queue = WorkId.queue(slot, 40_000, receive);
                    long id = WorkId.of(queue, sequence);
                    assertThat(WorkId.isReceive(id)).isEqualTo(receive);
                    assertThat(WorkId.slot(id)).isEqualTo(slot);
                    assertThat(WorkId.sequence(id)).isEqualTo(sequence);
                    assertThat(WorkId.belongsTo(id, queue)).isTrue();
                    assertThat(WorkId.belongsTo(id, WorkId.queue(slot, 40_001, receive))).isFalse();
                    assertThat(WorkId.belongsTo(id, WorkId.queue(slot, 40_000, !receive)))
                            .isFalse();
                }
            }
        }
    }

    @Test
    void aGateLetsOneInAtATimeAndNoneAfterItWasShut() throws InterruptedException {
        Gate gate = new Gate();
        int[] unguarded = {0};
        AtomicInteger entered = new AtomicInteger();
        Thread[] threads = new Thread[3];
        for (int i = 0; i < threads.length; i++) {
            threads[i] =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        while (gate.enter()) {
                                            unguarded[0]++;
                                            entered.incrementAndGet();
                                            gate.leave();
                                        }
                                    });
        }
        while (entered.get() < 100_000) {
            Thread.onSpinWait();
        }
        gate.shut();
        gate.shut(); // again does nothing
        for (Thread thread : threads) {
            thread.join();
        }
        assertThat(gate.enter()).isFalse();
        assertThat(unguarded[0]).isEqualTo(entered.get());
    }
}
