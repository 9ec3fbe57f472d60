package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.concurrent.atomic.AtomicInteger;

@Timeout(60)
class QueueTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 1000})
    void aFifoTakesAsManyAsItIsDeepAndKeepsTheirContexts(int depth) {
        RequestFifo fifo = new RequestFifo(depth);
        int[] sequences = new int[depth];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < depth; i++) {
                assertThat(fifo.full()).isFalse();
                sequences[i] = fifo.add(round * 10_000L + i);
            }
            assertThat(fifo.full()).isTrue();
            for (int i = 0; i < depth; i++) {
                assertThat(fifo.context(sequences[i])).isEqualTo(round * 10_000L + i);
            }
            fifo.retire(sequences[0]);
            assertThat(fifo.full()).isFalse();
            fifo.retire(sequences[depth - 1]); // with all before it
        }
    }

    @Test
    void whatWasTakenBackLeavesRoom() {
        RequestFifo fifo = new RequestFifo(1);
        fifo.add(1);
        assertThat(fifo.full()).isTrue();
        fifo.takeBack();
        assertThat(fifo.full()).isFalse();
        assertThat(fifo.context(fifo.add(2))).isEqualTo(2);
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
