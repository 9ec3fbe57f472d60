package dev.verbena.internal.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.OperationType;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.util.ArrayList;
import java.util.List;

@Timeout(60)
class QueueTest {
    private static final Endpoint ENDPOINT = new Endpoint(new WindowTable());

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 1000})
    void aFifoTakesAsManyAsItIsDeepAndKeepsTheirContexts(int depth) {
        RequestLedger ledger = Ledgers.withRoom(ENDPOINT, 0, depth, 1);
        int[] sequences = new int[depth];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < depth; i++) {
                assertThat(ledger.full()).isFalse();
                sequences[i] = ledger.add(round * 10_000L + i, OperationType.WRITE, false, true);
            }
            assertThat(ledger.full()).isTrue();
            for (int i = 0; i < depth; i++) {
                assertThat(ledger.context(sequences[i])).isEqualTo(round * 10_000L + i);
                ledger.readAdded();
                assertThat(ledger.end(sequences[i], true)).isTrue();
                assertThat(ledger.full()).isEqualTo(i == 0);
                ledger.delivered();
                assertThat(ledger.full()).isFalse();
            }
            assertThat(ledger.outstanding()).isZero();
        }
    }

    @Test
    void synthesizedCompletionsAcrossTheWrapAreInOrder() {
        RequestLedger ledger = Ledgers.withRoom(ENDPOINT, 0, 64, 1);
        int last = ledger.last();
        while (last < Integer.MAX_VALUE - 2) {
            last = ledger.add(0, OperationType.WRITE, false, true);
            ledger.readAdded();
            assertThat(ledger.end(last, true)).isTrue();
            ledger.delivered();
        }
        for (int i = 1; i <= 6; i++) {
            ledger.add(i, OperationType.WRITE, false, true);
        }
        assertThat(ledger.last()).isNegative();
        ledger.synthesize(last + 1, ledger.last(), 21, 5);
        for (int i = 1; i <= 6; i++) {
            assertThat(ledger.nextSynthesized()).isTrue();
            assertThat(ledger.context(ledger.synthesizedSequence())).isEqualTo(i);
            assertThat(ledger.synthesizedStatus()).isEqualTo(i == 1 ? 21 : 5);
            ledger.delivered();
        }
        assertThat(ledger.nextSynthesized()).isFalse();
        assertThat(ledger.outstanding()).isZero();
    }

    @Test
    void whatWasTakenBackLeavesRoom() {
        RequestLedger ledger = Ledgers.withRoom(ENDPOINT, 0, 1, 1);
        for (boolean silent : new boolean[] {false, true}) {
            ledger.add(1, OperationType.WRITE, silent, true);
            assertThat(ledger.full()).isTrue();
            ledger.takeBack();
            assertThat(ledger.full()).isFalse();
        }
        assertThat(ledger.context(ledger.add(2, OperationType.WRITE, false, true))).isEqualTo(2);
    }

    @Test
    void aSharedQueuesIdIsNoQueuePairs() {
        SharedQueues queues = new SharedQueues();
        long id = queues.reserve();
        assertThat(WorkId.isShared(id)).isTrue();
        assertThat(WorkId.isReceive(id)).isTrue();
        assertThat(WorkId.isShared(WorkId.queue(3, 9, true))).isFalse();
        SharedReceives first = new SharedReceives(id, 1, 1, null, null, 1);
        queues.enter(first);
        assertThat(queues.find(WorkId.of(id, 0))).isSameAs(first);
        SharedReceives second = new SharedReceives(queues.reserve(), 2, 1, null, null, 1);
        queues.enter(second);
        queues.remove(first);
        assertThat(queues.find(WorkId.of(id, 0))).isNull();
        long again = queues.reserve(); // the same slot, another generation
        queues.enter(new SharedReceives(again, 3, 1, null, null, 1));
        assertThat(WorkId.slot(again)).isEqualTo(WorkId.slot(id));
        assertThat(queues.find(WorkId.of(id, 0))).isNull();
        for (int slot : new int[] {2, 77}) { // there are two
            assertThat(queues.find(WorkId.sharedQueue(slot, 1))).isNull();
        }
    }

    private static CompletionPoller poller(FakeDevice device, Thread owner) {
        return poller(device, owner, new Unheard());
    }

    private static CompletionPoller poller(
            FakeDevice device, Thread owner, CompletionPoller.Listener listener) {
        return new CompletionPoller(
                QueueDevices.of(device), device.createCq(1, 0, 0, 0), owner, listener);
    }

    @Test
    void whatAnotherThreadLeavesWakesTheOwner() {
        FakeDevice device = new FakeDevice();
        int[] woken = {0};
        CompletionPoller.Listener listener =
                new CompletionPoller.Listener() {
                    @Override
                    public void synthesized() {}

                    @Override
                    public void wakeOwner() {
                        woken[0]++;
                    }
                };
        poller(device, Thread.currentThread(), listener).share(7, ENDPOINT, true);
        assertThat(woken[0]).isZero();
        CompletionPoller ofAnother = poller(device, new Thread(), listener);
        ofAnother.share(7, ENDPOINT, true);
        assertThat(woken[0]).isEqualTo(1);
        assertThat(ofAnother.ownerTasks().any()).isTrue();
        device.dispose();
    }

    @Test
    void onlyQueuePairsOfOneThreadShareAChain() {
        FakeDevice device = new FakeDevice();
        assertThat(poller(device, null).sharedChain()).isNull();
        CompletionPoller confined = poller(device, Thread.currentThread());
        assertThat(confined.sharedChain()).isNotNull().isSameAs(confined.sharedChain());
        device.dispose();
    }

    @Test
    void aClosedPollerAnswersThatItIs() {
        FakeDevice device = new FakeDevice();
        CompletionPoller poller = poller(device, null);
        for (int i = 0; i < WorkId.SLOTS; i++) {
            assertThat(WorkId.slot(poller.reserve(i % 2 == 0))).isEqualTo(i);
        }
        assertThatThrownBy(() -> poller.reserve(false)).hasMessageContaining("at most 65536");
        long again = WorkId.queue(5, 1, false);
        poller.release(again);
        assertThat(WorkId.slot(poller.reserve(false))).isEqualTo(5);
        poller.close();
        assertThatThrownBy(() -> poller.reserve(false)).hasMessageContaining("closed");
        assertThat(poller.poll(new CompletionRecords(1))).isFalse();
        assertThat(poller.drain()).isFalse();
        assertThat(poller.waiting(-1)).isFalse();
        device.dispose();
    }

    @Test
    void aTableOfQueuesKnowsItsOwn() {
        QueueRegistry registry = new QueueRegistry();
        List<RequestLedger> ledgers = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            long queue = registry.reserve(i % 2 == 0);
            assertThat(registry.find(WorkId.of(queue, 7))).isNull();
            RequestLedger ledger = Ledgers.withRoom(ENDPOINT, queue, 1, 1);
            registry.enter(ledger);
            ledgers.add(ledger);
        }
        assertThat(registry.capacity()).isBetween(20, 40);
        for (RequestLedger ledger : ledgers) {
            assertThat(registry.find(WorkId.of(ledger.queue(), 7))).isSameAs(ledger);
            registry.release(ledger.queue());
            assertThat(registry.find(WorkId.of(ledger.queue(), 7))).isNull();
        }
        long again = registry.reserve(true); // the first slot, another generation
        registry.enter(Ledgers.withRoom(ENDPOINT, again, 1, 1));
        assertThat(WorkId.slot(again)).isZero();
        assertThat(registry.find(ledgers.getFirst().queue())).isNull();
    }

    /** A queue pair is forgotten late, when another has its number: that one stays. */
    @Test
    void whoeverHasANumberNowKeepsIt() {
        QueueRegistry registry = new QueueRegistry();
        Endpoint later = new Endpoint(new WindowTable());
        registry.share(7, ENDPOINT);
        registry.share(7, later);
        registry.unshare(7, ENDPOINT);
        assertThat(registry.sharing(7)).isSameAs(later);
        registry.unshare(7, later);
        assertThat(registry.sharing(7)).isNull();
    }

    @Test
    void workIdsKeepTheirParts() {
        assertThat(WorkId.isReceive(0)).isFalse();
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
}
