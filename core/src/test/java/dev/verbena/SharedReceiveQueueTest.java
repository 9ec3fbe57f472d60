package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

@Timeout(60)
class SharedReceiveQueueTest {
    private final Rig rig = new Rig(QueuePairLimits.depths(8, 8));
    private final LinkedBlockingQueue<Status> called = new LinkedBlockingQueue<>();

    private QueuePair connectedToA(SharedReceiveQueue shared) {
        QueuePair pair =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));
        rig.a.connect(pair.address());
        pair.connect(rig.a.address());
        return pair;
    }

    /** The first queue of an adapter starts its event thread. */
    @Test
    void oneForWhichNoThreadCanBeStartedLeavesNothing() {
        Error error = new Error("unable to create native thread");
        FakeDevice device = new FakeDevice();
        device.beforeStep =
                step -> {
                    if (step.equals("dataPath")) {
                        throw error;
                    }
                };
        Adapter adapter = FakeAdapters.open(device);
        ProtectionDomain domain = adapter.createProtectionDomain();
        assertThatThrownBy(() -> domain.createSharedReceiveQueue(4, 2, called::add))
                .isSameAs(error);
        domain.close();
        adapter.close();
        adapter.awaitClosed(Duration.ZERO);
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    @Test
    void messagesToSeveralQueuePairsTakeItsReceives() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 2, called::add);
        QueuePair c =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));
        QueuePair d =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));
        assertThat(c.receive(1, rig.bytes(8)).status()).isEqualTo(Status.INVALID_DEVICE_REQUEST);
        rig.a.connect(c.address());
        assertThat(rig.device.lastRnrUnlimited).isTrue(); // an empty queue is no failure
        c.connect(rig.a.address());
        assertThat(rig.device.lastRnrUnlimited).isFalse();
        rig.b.connect(d.address());
        d.connect(rig.b.address());
        for (int round = 0; round < 3; round++) {
            List<Long> contexts = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                shared.receive(10 + i, rig.bytes(8)).orThrow();
            }
            assertThat(shared.receive(99, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
            assertThat(shared.outstanding()).isEqualTo(4);
            rig.b.send(1, rig.bytes(3)).orThrow();
            rig.a.send(2, rig.bytes(5)).orThrow();
            Completions completions = new Completions(8);
            assertThat(rig.queue.poll(completions)).isEqualTo(4);
            for (int i = 0; i < 4; i++) {
                if (completions.type(i) == OperationType.RECEIVE) {
                    assertThat(completions.queuePair(i))
                            .isSameAs(completions.bytes(i) == 3 ? d : c);
                    contexts.add(completions.context(i));
                }
            }
            assertThat(shared.outstanding()).isEqualTo(2);
            rig.a.send(3, rig.bytes(1)).orThrow();
            rig.a.send(4, rig.bytes(1)).orThrow();
            assertThat(rig.queue.poll(completions)).isEqualTo(4);
            for (int i = 0; i < 4; i++) {
                if (completions.type(i) == OperationType.RECEIVE) {
                    contexts.add(completions.context(i));
                }
            }
            assertThat(contexts).containsExactlyInAnyOrder(10L, 11L, 12L, 13L);
        }
        shared.receive(1, rig.bytes(8)).orThrow();
        rig.a.send(5, rig.bytes(8)).orThrow();
        rig.device.run();
        c.close(); // its message is in the completion queue, and is delivered
        assertThat(rig.poll()).containsExactlyInAnyOrder("SEND 5 SUCCESS", "RECEIVE 1 SUCCESS");
        shared.close();
        shared.close();
        assertThat(shared.receive(1, rig.bytes(8)).status()).isEqualTo(Status.CONNECTION_INVALID);
        assertThat(shared.outstanding()).isZero();
        assertThatThrownBy(() -> shared.notifyBelow(1)).isInstanceOf(IllegalStateException.class);
        d.close();
        rig.close();
    }

    /** All messages are there already, and no further one takes a receive: no event comes. */
    @Test
    void aPollThatLeavesFewerReceivesThanAskedForCallsBack() throws Exception {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        QueuePair c = connectedToA(shared);
        for (int i = 0; i < 4; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
            rig.a.send(10 + i, rig.bytes(1)).orThrow();
        }
        rig.device.run();
        shared.notifyBelow(2);
        assertThat(called).isEmpty();
        assertThat(rig.poll()).hasSize(8);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        shared.receive(4, rig.bytes(8)).orThrow();
        rig.a.send(14, rig.bytes(1)).orThrow();
        assertThat(rig.poll()).hasSize(2);
        c.close();
        shared.close();
        assertThat(called).as("once").isEmpty();
        rig.close();
    }

    /** The callback needs more of the stack than the poll has made sure of. */
    @Test
    void aPollThatCannotCallBackLosesNoCompletion() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        QueuePair c = connectedToA(shared);
        shared.receive(1, rig.bytes(8)).orThrow();
        shared.handle()
                .notifyBelow(
                        1,
                        () -> {
                            throw new StackOverflowError();
                        });
        rig.a.send(10, rig.bytes(1)).orThrow();
        assertThat(rig.poll()).containsExactlyInAnyOrder("SEND 10 SUCCESS", "RECEIVE 1 SUCCESS");
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void aPollCallsBackOnce() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        QueuePair c = connectedToA(shared);
        for (int i = 0; i < 3; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        shared.handle().notifyBelow(3, () -> called.add(Status.SUCCESS));
        for (int i = 0; i < 2; i++) {
            rig.a.send(10, rig.bytes(1)).orThrow();
            assertThat(rig.poll()).hasSize(2);
        }
        assertThat(called).containsExactly(Status.SUCCESS);
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void aCallbackThatFailsChangesNothingOfTheRequestAfterIt() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        QueuePair c = connectedToA(shared);
        for (int i = 0; i < 3; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        shared.handle()
                .notifyBelow(
                        3,
                        () -> { // another thread may make the next request just then
                            shared.handle().notifyBelow(1, () -> called.add(Status.SUCCESS));
                            throw new StackOverflowError();
                        });
        for (int left = 2; left >= 0; left--) {
            assertThat(called).isEmpty();
            rig.a.send(10, rig.bytes(1)).orThrow();
            assertThat(rig.poll()).hasSize(2);
        }
        assertThat(called).containsExactly(Status.SUCCESS);
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void aCallbackThatWaitsHoldsUpNoOtherQueue() throws Exception {
        CountDownLatch mayEnd = new CountDownLatch(1);
        SharedReceiveQueue waiting =
                rig.domain.createSharedReceiveQueue(
                        4,
                        1,
                        status -> {
                            called.add(status);
                            Until.reached(mayEnd);
                        });
        SharedReceiveQueue other = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        waiting.notifyBelow(1);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        other.notifyBelow(1);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        other.close();
        mayEnd.countDown();
        waiting.close();
        rig.close();
    }

    @Test
    void whatTheDeviceRefusesIsNotRequested() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        for (int i = 0; i < 4; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        rig.device.sharedResizeError = 12;
        assertThatThrownBy(() -> shared.notifyBelow(3)).isInstanceOf(VerbenaException.class);
        rig.device.sharedResizeError = 0;
        shared.resize(5); // which a request that waits may refuse
        rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW);
        shared.close();
        assertThat(called).isEmpty();
        rig.close();
    }

    @Test
    void whatTheDeviceRefusesDoesNotReplaceWhatIsRequested() throws Exception {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        QueuePair c = connectedToA(shared);
        for (int i = 0; i < 4; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        shared.notifyBelow(3);
        rig.device.sharedResizeError = 12;
        assertThatThrownBy(() -> shared.notifyBelow(2)).isInstanceOf(VerbenaException.class);
        rig.device.sharedResizeError = 0;
        rig.a.send(10, rig.bytes(1)).orThrow();
        rig.a.send(11, rig.bytes(1)).orThrow();
        assertThat(rig.poll()).hasSize(4);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        c.close();
        shared.close();
        rig.close();
    }

    /** A device may raise its event for the same messages, behind the callback of a poll. */
    @Test
    void aLateEventIsNotTakenForTheNextRequest() throws Exception {
        AtomicReference<SharedReceiveQueue> itself = new AtomicReference<>();
        SharedReceiveQueue shared =
                rig.domain.createSharedReceiveQueue(
                        4,
                        1,
                        status -> {
                            for (int i = 0; i < 3; i++) {
                                itself.get().receive(20 + i, rig.bytes(8)).orThrow();
                            }
                            itself.get().notifyBelow(2);
                            called.add(status);
                        });
        itself.set(shared);
        LinkedBlockingQueue<AdapterEvent> events = new LinkedBlockingQueue<>();
        var registration = rig.adapter.onEvent(events::add);
        QueuePair c = connectedToA(shared);
        for (int i = 0; i < 4; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        shared.notifyBelow(2);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 3; i++) {
                rig.a.send(10 + i, rig.bytes(1)).orThrow();
            }
            assertThat(rig.poll()).hasSize(6);
            assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW);
            assertThat(events.poll(30, TimeUnit.SECONDS)).isNotNull(); // handled
            CountDownLatch over = new CountDownLatch(1);
            shared.callbacks.execute(over::countDown); // behind what it has called
            Until.reached(over);
            assertThat(shared.outstanding()).isEqualTo(4);
        }
        c.close();
        shared.close();
        registration.close();
        assertThat(called).isEmpty();
        rig.close();
    }

    /** With a completion queue for each connection, what nobody has polled goes with it. */
    @ParameterizedTest
    @ValueSource(strings = {"closed last", "closed first", "confined and closed first"})
    void receivesThatNobodyPollsMayBePostedAgainWhenTheirQueueIsClosed(String kind) {
        int count = 70; // more than one native poll takes
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(count, 1, called::add);
        for (int round = 0; round < 3; round++) {
            CompletionQueue own =
                    kind.startsWith("confined")
                            ? rig.adapter.createConfinedCompletionQueue(count)
                            : rig.adapter.createCompletionQueue(count);
            QueuePair c =
                    rig.domain.createQueuePair(own, own, shared, QueuePairLimits.depths(4, 1));
            QueuePair peer =
                    rig.domain.createQueuePair(rig.queue, rig.queue, QueuePairLimits.depths(4, 1));
            peer.connect(c.address());
            c.connect(peer.address());
            if (kind.endsWith("first")) {
                own.close();
            }
            for (int i = 0; i < count; i++) {
                shared.receive(i, rig.bytes(8)).orThrow();
                peer.send(100 + i, rig.bytes(1)).orThrow();
                assertThat(rig.poll()).hasSize(1); // the send
            }
            c.close();
            own.close();
            peer.close();
        }
        assertThat(shared.outstanding()).isZero();
        shared.close();
        rig.close();
    }

    @Test
    void whatItsOwnerClosedServesItsQueuePairsToTheEnd() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 2, called::add);
        QueuePair c = connectedToA(shared);
        shared.receive(7, rig.bytes(8)).orThrow();
        shared.close();
        rig.a.send(8, rig.bytes(3)).orThrow();
        assertThat(rig.poll()).containsExactlyInAnyOrder("RECEIVE 7 SUCCESS", "SEND 8 SUCCESS");
        int number = c.address().queuePairNumber();
        long id = rig.device.receives.getLast().receiveId();
        c.close();
        // What comes after the end is nobody's.
        rig.device.complete(id, number);
        assertThat(rig.poll()).isEmpty();
        rig.close();
    }

    /** The slot may be another receive's by then. */
    @Test
    void aSecondCompletionOfAReceiveIsDropped() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(1, 1, called::add);
        QueuePair c = connectedToA(shared);
        shared.receive(7, rig.bytes(8)).orThrow();
        long id = rig.device.receives.getLast().receiveId();
        rig.a.send(8, rig.bytes(3)).orThrow();
        assertThat(rig.poll()).containsExactlyInAnyOrder("RECEIVE 7 SUCCESS", "SEND 8 SUCCESS");
        rig.device.complete(id, c.address().queuePairNumber());
        assertThat(rig.poll()).isEmpty();
        assertThat(shared.outstanding()).isZero();
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void whatComesForAClosedQueuePairIsDroppedAndItsPlaceFree() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(1, 1, called::add);
        shared.receive(7, rig.bytes(8)).orThrow();
        rig.device.complete(rig.device.receives.getLast().receiveId(), 0xFFFFFF);
        assertThat(rig.poll()).isEmpty();
        shared.receive(8, rig.bytes(8)).orThrow();
        QueuePair closed =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));
        int number = closed.address().queuePairNumber();
        closed.close();
        rig.device.complete(rig.device.receives.getLast().receiveId(), number);
        assertThat(rig.poll()).isEmpty();
        shared.receive(9, rig.bytes(8)).orThrow();
        shared.close();
        rig.close();
    }

    @Test
    void itCallsBackOnceForEachTimeItWasAsked() throws InterruptedException {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 1, called::add);
        shared.notifyBelow(0); // keeps what is: nothing
        shared.notifyBelow(3); // fewer than that are there already
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        for (int i = 0; i < 4; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        shared.notifyBelow(3);
        assertThat(rig.device.srqLimits).containsExactly(3, 3);
        rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW); // not asked for
        rig.device.raise(AdapterEvent.Type.OTHER);
        shared.notifyBelow(8); // the adapter's thread handles one event after the other
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        assertThat(called).isEmpty();
        assertThatThrownBy(() -> shared.notifyBelow(9))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> shared.notifyBelow(-1))
                .isInstanceOf(IllegalArgumentException.class);
        shared.close();
        rig.close();
    }

    @ParameterizedTest
    @EnumSource(
            value = AdapterEvent.Type.class,
            names = {"SHARED_RECEIVE_QUEUE_FAILED", "DEVICE_FAILED", "DEVICE_REMOVED"})
    void itCallsBackUnaskedWhenItOrItsDeviceFails(AdapterEvent.Type kind)
            throws InterruptedException {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 1, called::add);
        fill(shared, 0, 8);
        shared.notifyBelow(3);
        rig.device.raise(kind);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
        rig.device.raise(kind); // reported already
        shared.ranLow();
        assertThat(called).as("the failure was its answer").isEmpty();
        shared.notifyBelow(3);
        assertThat(called.poll(30, TimeUnit.SECONDS))
                .as("for each time that it is asked")
                .isEqualTo(Status.INTERNAL_ERROR);
        shared.close();
        assertThat(called).isEmpty();
        rig.close();
    }

    @Test
    void theFailureOfAnotherOneIsNotItsOwn() throws InterruptedException {
        SharedReceiveQueue other = rig.domain.createSharedReceiveQueue(8, 1, called::add);
        LinkedBlockingQueue<Status> calledOfLast = new LinkedBlockingQueue<>();
        SharedReceiveQueue last = rig.domain.createSharedReceiveQueue(8, 1, calledOfLast::add);
        rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_FAILED);
        assertThat(calledOfLast.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
        other.notifyBelow(3);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        last.close();
        other.close();
        rig.close();
    }

    @Test
    void aClosedOneDoesNotCallBackOfAFailure() throws InterruptedException {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(8, 1, called::add);
        QueuePair user =
                rig.domain.createQueuePair(
                        rig.queue, rig.queue, shared, QueuePairLimits.depths(4, 1));
        shared.close(); // its native object stays with the queue pair
        SharedReceiveQueue next = rig.domain.createSharedReceiveQueue(8, 1, called::add);
        rig.device.raise(AdapterEvent.Type.DEVICE_FAILED);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
        next.close(); // after all callbacks
        assertThat(called).isEmpty();
        user.close();
        rig.close();
    }

    @Test
    void aRefusalLeavesNoTrace() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(1, 1, called::add);
        rig.device.answer = -12;
        assertThat(shared.receive(1, rig.bytes(8)).status())
                .isEqualTo(Status.INSUFFICIENT_RESOURCES);
        assertThat(
                        shared.receive(
                                        1,
                                        new BufferList(2)
                                                .add(rig.memory, 0, 1)
                                                .add(rig.memory, 0, 1))
                                .status())
                .isEqualTo(Status.INVALID_PARAMETER);
        shared.receive(1, rig.bytes(8)).orThrow();
        shared.close();
        rig.close();
    }

    /** Its completion must not free a slot that has another receive by then. */
    @Test
    void aRefusedReceiveThatTheProviderKeptIsForgotten() {
        int depth = 3; // no power of two: sequence numbers have slots that do not exist
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(depth, 1, called::add);
        QueuePair c = connectedToA(shared);
        for (int round = 0; round < 5; round++) {
            rig.device.answer = 22;
            rig.device.refused = -1;
            rig.device.keepsRefused = true;
            assertThat(shared.receive(99, rig.bytes(8)).isAccepted()).isFalse();
            assertThat(shared.outstanding()).isZero();
            shared.receive(10, rig.bytes(8)).orThrow();
            shared.receive(11, rig.bytes(8)).orThrow();
            assertThat(shared.receive(12, rig.bytes(8)).status())
                    .as("the refused one has the place")
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            List<String> receives = new ArrayList<>();
            for (int i = 0; i < depth + 1; i++) {
                rig.a.send(i, rig.bytes(1)).orThrow();
                rig.poll().stream().filter(one -> one.startsWith("RECEIVE")).forEach(receives::add);
                assertThat(receives).as("the refused one took the first").hasSize(i);
                if (i == 0) {
                    shared.receive(12, rig.bytes(8)).orThrow();
                    assertThat(shared.receive(98, rig.bytes(8)).status())
                            .isEqualTo(Status.NO_MORE_ENTRIES);
                }
            }
            assertThat(receives)
                    .containsExactlyInAnyOrder(
                            "RECEIVE 10 SUCCESS", "RECEIVE 11 SUCCESS", "RECEIVE 12 SUCCESS");
            assertThat(shared.outstanding()).isZero();
        }
        c.close();
        shared.close();
        rig.close();
    }

    private static void assertRefused(
            SharedReceiveQueue shared, int depth, Status status, String... words) {
        int before = shared.depth();
        assertThatThrownBy(() -> shared.resize(depth))
                .isInstanceOfSatisfying(
                        VerbenaException.class, e -> assertThat(e.status()).isEqualTo(status))
                .hasMessageContainingAll(words);
        assertThat(shared.depth()).isEqualTo(before);
    }

    private void fill(SharedReceiveQueue shared, int from, int to) {
        for (int i = from; i < to; i++) {
            shared.receive(i, rig.bytes(8)).orThrow();
        }
        assertThat(shared.receive(99, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
    }

    private List<String> received(int messages) {
        List<String> receives = new ArrayList<>();
        for (int i = 0; i < messages; i++) {
            rig.a.send(i, rig.bytes(1)).orThrow();
            rig.poll().stream().filter(one -> one.startsWith("RECEIVE")).forEach(receives::add);
        }
        return receives;
    }

    @Test
    void itIsResizedWithReceivesInIt() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(2, 1, called::add);
        QueuePair c = connectedToA(shared);
        fill(shared, 0, 2);
        shared.resize(5);
        assertThat(shared.depth()).isEqualTo(5);
        fill(shared, 2, 5);
        assertThat(shared.outstanding()).isEqualTo(5);
        assertThat(received(2)).containsExactly("RECEIVE 0 SUCCESS", "RECEIVE 1 SUCCESS");
        assertRefused(shared, 2, Status.INVALID_PARAMETER, "from 5 to 2", "3 receives are posted");
        shared.resize(3);
        assertThat(shared.receive(99, rig.bytes(8)).status()).isEqualTo(Status.NO_MORE_ENTRIES);
        assertThat(received(1)).containsExactly("RECEIVE 2 SUCCESS");
        fill(shared, 5, 6);
        assertThat(received(3))
                .containsExactly("RECEIVE 3 SUCCESS", "RECEIVE 4 SUCCESS", "RECEIVE 5 SUCCESS");
        shared.resize(4);
        fill(shared, 10, 14);
        assertThat(received(4)).hasSize(4);
        assertThat(shared.outstanding()).isZero();
        c.close();
        shared.close();
        assertThatThrownBy(() -> shared.resize(5)).isInstanceOf(IllegalStateException.class);
        assertThat(shared.depth()).isEqualTo(4);
        rig.close();
    }

    @Test
    void itIsNotResizedBelowAThresholdThatWaits() throws InterruptedException {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(4, 1, called::add);
        shared.notifyBelow(4); // called back at once; the device's own limit stays
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        shared.resize(3);
        assertThatThrownBy(() -> shared.notifyBelow(4))
                .isInstanceOf(IllegalArgumentException.class);
        fill(shared, 0, 3);
        shared.notifyBelow(3);
        shared.resize(4);
        shared.resize(3);
        assertRefused(shared, 2, Status.INVALID_PARAMETER, "notifyBelow(3)");
        rig.device.raise(AdapterEvent.Type.SHARED_RECEIVE_QUEUE_LOW);
        assertThat(called.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
        assertRefused(shared, 2, Status.INVALID_PARAMETER, "3 receives are posted");
        shared.close();
        rig.close();
    }

    @Test
    void depthsThatTheDeviceDoesNotHaveAreRefused() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(2, 1, called::add);
        assertRefused(shared, 0, Status.INVALID_PARAMETER, "1 to");
        assertRefused(shared, 100_000, Status.INVALID_PARAMETER, "100000");
        fill(shared, 0, 2);
        shared.close();
        rig.close();
    }

    /** Older kernels' bnxt_re answers that it has resized the queue, and has not. */
    @Test
    void aDeviceThatCannotResizeItIsNotAsked() {
        try (Rig fixed =
                        new Rig(
                                QueuePairLimits.depths(4, 4),
                                device -> device.sharedResizes = false,
                                null);
                SharedReceiveQueue shared =
                        fixed.domain.createSharedReceiveQueue(2, 1, called::add)) {
            assertThat(fixed.adapter.info().sharedReceiveResize()).isFalse();
            assertRefused(shared, 4, Status.NOT_SUPPORTED, "depth 2", "sharedReceiveResize");
        }
        assertThat(rig.adapter.info().sharedReceiveResize()).isTrue();
        rig.close();
    }

    /** The provider may have unmapped its queue: a post would end the JVM. */
    @Test
    void afterAResizeThatFailedHalfwayItRefusesReceives() {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(2, 1, called::add);
        QueuePair c = connectedToA(shared);
        shared.receive(1, rig.bytes(8)).orThrow();
        rig.device.sharedResizeError = 12; // ENOMEM
        assertRefused(shared, 4, Status.INSUFFICIENT_RESOURCES, "ENOMEM", "create another");
        assertThat(shared.receive(2, rig.bytes(8)).status()).isEqualTo(Status.CONNECTION_INVALID);
        rig.device.sharedResizeError = 0;
        assertRefused(shared, 4, Status.CONNECTION_INVALID, "create another");
        assertThat(received(1)).containsExactly("RECEIVE 1 SUCCESS");
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void itIsResizedWhileAnotherThreadPosts() throws Exception {
        SharedReceiveQueue shared = rig.domain.createSharedReceiveQueue(2, 1, called::add);
        QueuePair c = connectedToA(shared);
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger resizes = new AtomicInteger();
        Thread resizer =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    for (int i = 0; done.getCount() > 0; i++) {
                                        try {
                                            shared.resize(2 + i % 7);
                                            resizes.incrementAndGet();
                                        } catch (VerbenaException e) {
                                            Thread.onSpinWait(); // more are posted than that
                                        }
                                    }
                                });
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        for (int round = 0;
                round < 300 || (resizes.get() == 0 && System.nanoTime() - end < 0);
                round++) {
            int posted = 0;
            while (shared.receive(posted, rig.bytes(8)).isAccepted()) {
                posted++;
            }
            assertThat(received(posted)).hasSize(posted);
        }
        done.countDown();
        resizer.join();
        assertThat(resizes).hasPositiveValue();
        assertThat(shared.outstanding()).isZero();
        c.close();
        shared.close();
        rig.close();
    }

    @Test
    void theAdapterMayBeClosedByItsCallback() throws InterruptedException {
        LinkedBlockingQueue<String> done = new LinkedBlockingQueue<>();
        SharedReceiveQueue[] shared = new SharedReceiveQueue[1];
        shared[0] =
                rig.domain.createSharedReceiveQueue(
                        8,
                        1,
                        status -> {
                            shared[0].close();
                            rig.a.close();
                            rig.b.close();
                            rig.memory.close();
                            rig.queue.close();
                            rig.domain.close();
                            rig.adapter.close();
                            done.add("closed");
                        });
        shared[0].notifyBelow(1);
        // It may have been called while notifyBelow still held the queue.
        assertThat(done.poll(30, TimeUnit.SECONDS)).isEqualTo("closed");
        rig.close();
    }

    @Test
    void limitsAndMixesAreRefused() {
        for (int[] limits : new int[][] {{0, 1}, {1, 0}, {100_000, 1}, {1, 100}}) {
            assertThatThrownBy(
                            () ->
                                    rig.domain.createSharedReceiveQueue(
                                            limits[0], limits[1], called::add))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER));
        }
        try (ProtectionDomain other = rig.adapter.createProtectionDomain();
                SharedReceiveQueue shared = other.createSharedReceiveQueue(1, 1, called::add)) {
            assertThatThrownBy(
                            () ->
                                    rig.domain.createQueuePair(
                                            rig.queue,
                                            rig.queue,
                                            shared,
                                            QueuePairLimits.depths(1, 1)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER_MIX));
        }
        rig.device.controlError = 12;
        assertThatThrownBy(() -> rig.domain.createSharedReceiveQueue(1, 1, called::add))
                .hasMessageContaining("ibv_create_srq");
        rig.close();
        try (Rig without =
                new Rig(QueuePairLimits.depths(1, 1), d -> d.sharedQueues = false, null)) {
            assertThatThrownBy(() -> without.domain.createSharedReceiveQueue(1, 1, called::add))
                    .hasMessageContaining("no shared receive queues");
        }
    }
}
