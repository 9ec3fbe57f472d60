package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Queues that belong to one thread: what others may not do, and what becomes of what they may. */
@Timeout(60)
class ConfinementTest {
    private static final QueuePairLimits LIMITS =
            QueuePairLimits.depths(8, 8).withInlineBytes(16).withMaxDeferred(8);

    /** Runs something on another thread, and returns its result. */
    private static <T> T elsewhere(Callable<T> what) throws Exception {
        FutureTask<T> task = new FutureTask<>(what);
        Thread thread = Thread.ofPlatform().daemon().start(task);
        T result = task.get(30, TimeUnit.SECONDS);
        thread.join();
        return result;
    }

    private static void refusedElsewhere(ThrowingCallable call) throws Exception {
        elsewhere(
                () -> {
                    assertThatThrownBy(call).isInstanceOf(WrongThreadException.class);
                    return null;
                });
    }

    @Nested
    class AnotherThread {
        @Test
        void neitherPostsNorPollsNorCloses() throws Exception {
            try (Rig rig = Rig.confined(LIMITS);
                    MemoryWindow window = rig.domain.createMemoryWindow()) {
                OpFlags none = OpFlags.NONE;
                refusedElsewhere(() -> rig.a.send(1, rig.bytes(1), none));
                refusedElsewhere(() -> rig.a.write(1, rig.bytes(1), Rig.REMOTE, 1, none));
                refusedElsewhere(() -> rig.a.receive(1, rig.bytes(1)));
                refusedElsewhere(
                        () -> rig.a.bind(1, window, rig.memory, 0, 1, OpFlags.ALLOW_REMOTE_READ));
                refusedElsewhere(() -> rig.queue.poll(new Completions(1)));
                refusedElsewhere(() -> rig.queue.arm(NotifyType.ANY));
                refusedElsewhere(() -> rig.queue.await(Duration.ZERO));
                refusedElsewhere(() -> rig.queue.eventDescriptor());
                refusedElsewhere(() -> rig.queue.takeEvent());
                refusedElsewhere(() -> rig.a.close());
                refusedElsewhere(() -> rig.queue.close());
                refusedElsewhere(() -> rig.domain.createQueuePair(rig.queue, rig.queue, LIMITS));
                assertThat(rig.device.sends).isEmpty();
                assertThat(rig.device.receives).isEmpty();
                assertThat(window.bound()).isFalse();
                // All of it is as it was.
                rig.b.receive(2, rig.bytes(4)).orThrow();
                rig.a.send(3, rig.bytes(4)).orThrow();
                assertThat(rig.poll())
                        .containsExactlyInAnyOrder("RECEIVE 2 SUCCESS", "SEND 3 SUCCESS");
            }
        }

        @Test
        void mayAskWhetherItIsConnected() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                assertThat(elsewhere(rig.a::connected)).isTrue();
                assertThat(elsewhere(rig.a::toString)).startsWith("QueuePair");
            }
        }

        /** The owner posts what was deferred, when it polls. */
        @Test
        void flushesWithoutTheOwner() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                rig.a.receive(1, rig.bytes(4)).orThrow();
                rig.a.send(2, rig.bytes(4), OpFlags.DEFER).orThrow();
                elsewhere(
                        () -> {
                            rig.a.flush();
                            return null;
                        });
                assertThat(rig.a.connected()).isFalse();
                assertThat(rig.device.sends).isEmpty();
                assertThat(rig.poll())
                        .containsExactlyInAnyOrder("RECEIVE 1 CANCELLED", "SEND 2 CANCELLED");
                assertThat(rig.a.send(3, rig.bytes(4)).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                rig.a.receive(4, rig.bytes(4)).orThrow();
                assertThat(rig.poll()).containsExactly("RECEIVE 4 CANCELLED");
            }
        }

        /** The provider refuses what was deferred: it is in the error state already. */
        @ParameterizedTest
        @ValueSource(booleans = {true, false})
        void flushesAndWhatWasDeferredIsCancelledWhereTheProviderRefusesIt(boolean named)
                throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                rig.device.refusesInError = true;
                rig.device.refused = named ? 0 : -1;
                rig.a.send(1, rig.bytes(4), OpFlags.DEFER).orThrow();
                rig.a.send(2, rig.bytes(4), OpFlags.DEFER).orThrow();
                elsewhere(
                        () -> {
                            rig.a.flush();
                            return null;
                        });
                assertThat(rig.poll()).isEmpty(); // this one posts what was deferred
                assertThat(rig.poll()).containsExactly("SEND 1 CANCELLED", "SEND 2 CANCELLED");
            }
        }

        @Test
        void flushesBesideAPostThatTheProviderThenRefuses() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                rig.device.refusesInError = true;
                rig.device.beforePost =
                        () -> {
                            Thread flush = Thread.ofPlatform().start(rig.a::flush);
                            Until.isIn(flush, Thread.State.TERMINATED);
                        };
                assertThat(rig.a.send(1, rig.bytes(4)).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                assertThat(rig.poll()).isEmpty();
            }
        }

        @Test
        void flushesAndAPostOfTheOwnersPostsWhatWasDeferred() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                rig.a.send(2, rig.bytes(4), OpFlags.DEFER).orThrow();
                elsewhere(
                        () -> {
                            rig.a.flush();
                            return null;
                        });
                assertThat(rig.a.send(3, rig.bytes(4)).status())
                        .isEqualTo(Status.CONNECTION_INVALID);
                assertThat(rig.device.sends).hasSize(1);
                assertThat(rig.poll()).containsExactly("SEND 2 CANCELLED");
            }
        }

        /** What a device like rxe does not flush: a receive that was posted beside the flush. */
        @Test
        void flushesAndTheOwnerAsksTheDeviceOnceMore() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                rig.device.forgetful = true;
                elsewhere(
                        () -> {
                            rig.a.flush();
                            return null;
                        });
                int asked = rig.device.errorsAskedFor;
                assertThat(rig.poll()).isEmpty();
                assertThat(rig.device.errorsAskedFor).isGreaterThan(asked);
            }
        }

        /** Its ibv_qp is freed memory by then. */
        @Test
        void flushesAndTheOwnerClosesTheQueuePairBeforeItPolls() throws Exception {
            try (Rig rig = Rig.confined(LIMITS)) {
                elsewhere(
                        () -> {
                            rig.a.flush();
                            return null;
                        });
                rig.a.close();
                int askedBefore = rig.device.errorsAskedFor;
                assertThat(rig.poll()).isEmpty();
                assertThat(rig.device.errorsAskedFor).isEqualTo(askedBefore);
            }
        }
    }

    @Nested
    class AThreadThatEnded {
        private final FakeDevice device = new FakeDevice();
        private final Adapter adapter = FakeAdapters.open(device);
        private final ProtectionDomain domain = adapter.createProtectionDomain();
        private CompletionQueue queue;
        private CompletionQueue second;
        private QueuePair pair;

        @AfterEach
        void nothingIsLeft() {
            domain.close();
            adapter.awaitClosed(Duration.ZERO);
            assertThat(device.objects()).isZero();
            device.dispose();
        }

        /** Two queues and a queue pair of both, with a receive and a task for the owner. */
        private void leave() throws Exception {
            elsewhere(
                    () -> {
                        queue = adapter.createConfinedCompletionQueue(64);
                        second = adapter.createConfinedCompletionQueue(64);
                        pair = domain.createQueuePair(queue, second, LIMITS);
                        pair.receive(1, new BufferList(1)).orThrow();
                        Thread.ofPlatform().start(pair::flush).join();
                        return null;
                    });
        }

        @Test
        void leavesQueuesThatNoOtherThreadUsesOrCloses() throws Exception {
            leave();
            for (ThrowingCallable call :
                    List.<ThrowingCallable>of(
                            pair::close,
                            queue::close,
                            () -> pair.receive(2, new BufferList(1)),
                            () -> queue.poll(new Completions(1)),
                            () -> domain.createQueuePair(queue, queue, LIMITS))) {
                assertThatThrownBy(call).isInstanceOf(WrongThreadException.class);
            }
            assertThat(pair.state()).isEqualTo(QueuePairState.FLUSHED);
            adapter.close();
        }

        @Test
        void leavesWhatTheCloseOfTheAdapterDestroys() throws Exception {
            leave();
            adapter.close();
            for (NativeObject left : List.of(pair, queue, second)) {
                left.awaitClosed(Duration.ZERO);
            }
            assertThat(pair.state()).isEqualTo(QueuePairState.CLOSED);
            assertThatThrownBy(pair::flush).isInstanceOf(IllegalStateException.class);
        }

        /** The owner had not ended at the first close. */
        @Test
        void leavesWhatTheNextCloseOfTheAdapterDestroys() throws Exception {
            elsewhere(
                    () -> {
                        queue = adapter.createConfinedCompletionQueue(64);
                        adapter.close();
                        return null;
                    });
            assertThat(device.objects()).isPositive();
            adapter.close();
            queue.awaitClosed(Duration.ZERO);
        }

        @Test
        void mayHaveClosedAPart() throws Exception {
            elsewhere(
                    () -> {
                        queue = adapter.createConfinedCompletionQueue(64);
                        pair = domain.createQueuePair(queue, queue, LIMITS);
                        queue.close();
                        return null;
                    });
            adapter.close();
            pair.awaitClosed(Duration.ZERO);
        }

        @Test
        void doesNotConcernQueuesOfThreadsThatLive() throws Exception {
            leave();
            try (CompletionQueue own = adapter.createConfinedCompletionQueue(64);
                    CompletionQueue shared = adapter.createCompletionQueue(64);
                    QueuePair used = domain.createQueuePair(own, own, LIMITS);
                    QueuePair other = domain.createQueuePair(shared, shared, LIMITS)) {
                adapter.close();
                used.receive(1, new BufferList(1)).orThrow();
                used.flush();
                other.receive(2, new BufferList(1)).orThrow();
                other.flush();
                Completions completions = new Completions(4);
                assertThat(own.poll(completions)).isOne();
                assertThat(shared.poll(completions)).isOne();
            }
        }
    }

    /** The close looks for queues of threads that have ended. */
    @Test
    void anAdapterMayCloseWhileAQueueIsBeingCreated() {
        FakeDevice device = new FakeDevice();
        Adapter adapter = FakeAdapters.open(device);
        device.beforeStep = step -> closeAt("createCq", step, adapter);
        adapter.createConfinedCompletionQueue(4).close();
        adapter.awaitClosed(Duration.ZERO);
        device.dispose();
    }

    private static void closeAt(String moment, String step, Adapter adapter) {
        if (step.equals(moment)) {
            adapter.close();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aChannelBelongsToAThreadWhileItHasAQueueOfIt(boolean isCreated) throws Exception {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                CompletionChannel channel = adapter.createCompletionChannel()) {
            CompletionQueueOptions options =
                    CompletionQueueOptions.depth(isCreated ? 4 : 1 << 30)
                            .confined()
                            .channel(channel);
            if (isCreated) {
                CompletionQueue queue = adapter.createCompletionQueue(options);
                refusedElsewhere(() -> channel.await(Duration.ZERO));
                queue.close();
            } else {
                assertThatThrownBy(() -> adapter.createCompletionQueue(options))
                        .isInstanceOf(VerbenaException.class);
            }
            assertThat(elsewhere(() -> channel.await(Duration.ZERO) == null)).isTrue();
        }
        device.dispose();
    }

    @Test
    void aQueuePairIsConfinedWithBothItsQueuesOrNeither() {
        try (Rig rig = Rig.confined(LIMITS);
                CompletionQueue shared = rig.adapter.createCompletionQueue(32)) {
            for (CompletionQueue[] mixed :
                    List.of(
                            new CompletionQueue[] {rig.queue, shared},
                            new CompletionQueue[] {shared, rig.queue})) {
                assertThatThrownBy(() -> rig.domain.createQueuePair(mixed[0], mixed[1], LIMITS))
                        .isInstanceOf(VerbenaException.class)
                        .hasMessageContaining("confined to the same thread")
                        .extracting(thrown -> ((VerbenaException) thrown).status())
                        .isEqualTo(Status.INVALID_PARAMETER_MIX);
            }
        }
    }

    /** An overrun is reported by the adapter's thread; the owner sleeps meanwhile. */
    @Test
    void anOwnerThatWaitsIsWokenByAnOverrun() throws Exception {
        try (Rig rig = Rig.confined(LIMITS)) {
            rig.a.receive(1, rig.bytes(4)).orThrow();
            rig.queue.arm(NotifyType.ERRORS);
            FutureTask<Void> overrun =
                    new FutureTask<>(
                            () -> {
                                rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
                                return null;
                            });
            Thread.ofPlatform().daemon().start(overrun);
            assertThat(rig.queue.await(Duration.ofSeconds(30))).isEqualTo(Status.BUFFER_OVERFLOW);
            overrun.get(30, TimeUnit.SECONDS);
            Completions completions = new Completions(4);
            assertThat(rig.queue.poll(completions)).isEqualTo(1);
            assertThat(completions.context(0)).isEqualTo(1);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        }
    }

    /** The poll that runs the breakdown finds nothing before it, and all completions after it. */
    @Test
    void anOwnerThatPollsGetsAllCompletionsBeforeItLearnsOfAnOverrun() {
        try (Rig rig = Rig.confined(LIMITS)) {
            rig.a.receive(1, rig.bytes(4)).orThrow();
            rig.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED);
            Until.holds(() -> rig.queue.events().poller().ownerTasks().any());
            assertThat(rig.queue.poll(new Completions(4))).isEqualTo(1);
            assertThatThrownBy(() -> rig.queue.poll(new Completions(4)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.BUFFER_OVERFLOW));
        }
    }

    @Nested
    class OfAConnector {
        private final FakeDevice device = new FakeDevice();
        private final FakeConnections network = new FakeConnections();
        private final Adapter adapter = FakeAdapters.open(device, network);
        private final ProtectionDomain domain = adapter.createProtectionDomain();
        private final CompletionQueue queue = adapter.createConfinedCompletionQueue(64);
        private final CompletionQueue farQueue = adapter.createCompletionQueue(64);
        private final QueuePair near = domain.createQueuePair(queue, queue, LIMITS);
        private final QueuePair far = domain.createQueuePair(farQueue, farQueue, LIMITS);
        private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        private final Connector connector = adapter.createConnector();
        private final Connector other;

        OfAConnector() throws Exception {
            InetAddress here = InetAddress.ofLiteral("10.0.0.1");
            network.devices.put(here, "fake0");
            try (Listener listener =
                    adapter.listen(new InetSocketAddress(here, 0), 0, requests::add)) {
                CompletableFuture<Void> connecting =
                        connector.connectAsync(
                                near, listener.localAddress(), ConnectionOptions.DEFAULTS);
                other = requests.poll(30, TimeUnit.SECONDS);
                CompletableFuture<Void> accepting =
                        other.acceptAsync(far, ConnectionOptions.DEFAULTS);
                connecting.get(30, TimeUnit.SECONDS);
                connector.completeConnect();
                accepting.get(30, TimeUnit.SECONDS);
            }
        }

        @AfterEach
        void close() throws Exception {
            connector.close();
            other.close();
            near.close();
            far.close();
            queue.close();
            farQueue.close();
            domain.close();
            adapter.close();
            adapter.awaitClosed(Duration.ofSeconds(30));
            device.dispose();
            Rig.nobodyThrew();
        }

        private void write(long context, OpFlags flags) {
            near.write(context, new BufferList(1), Rig.REMOTE, 1, flags).orThrow();
        }

        /**
         * The device ends the requests while the owner waits; the deadline allows 5 seconds. A
         * refused attempt with another queue pair does not matter.
         */
        @ParameterizedTest
        @ValueSource(booleans = {false, true})
        void theOwnerThatDisconnectsPollsMeanwhile(boolean refused) throws Exception {
            if (refused) {
                try (QueuePair spare = domain.createQueuePair(farQueue, farQueue, LIMITS)) {
                    InetSocketAddress anybody =
                            new InetSocketAddress(InetAddress.ofLiteral("10.0.0.1"), 7);
                    assertThatThrownBy(() -> connector.connect(spare, anybody))
                            .extracting(e -> ((VerbenaException) e).status())
                            .isEqualTo(Status.CONNECTION_ACTIVE);
                }
            }
            device.running = false;
            write(1, OpFlags.NONE);
            write(2, OpFlags.SILENT_SUCCESS);
            FutureTask<Void> later =
                    new FutureTask<>(
                            () -> {
                                Until.holds(() -> !near.connected());
                                // The first look of the disconnect is over; it found nothing ended.
                                int polls = device.polls;
                                device.until(() -> device.polls > polls + 2);
                                device.running = true;
                                device.run();
                                return null;
                            });
            Thread.ofPlatform().daemon().start(later);
            long start = System.nanoTime();
            connector.disconnect();
            assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(3));
            later.get(30, TimeUnit.SECONDS);
            assertThat(near.outstandingRequests()).isZero();
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isEqualTo(1);
            assertThat(completions.context(0)).isEqualTo(1);
            assertThat(completions.status(0)).isEqualTo(Status.SUCCESS);
        }

        /** The owner waits with a second connection for its peer, which does this, and refuses. */
        private void connectSecond(Runnable meanwhile) {
            InetSocketAddress here = new InetSocketAddress(InetAddress.ofLiteral("10.0.0.1"), 0);
            try (Connector second = adapter.createConnector();
                    QueuePair queuePair = domain.createQueuePair(queue, queue, LIMITS);
                    Listener listener =
                            adapter.listen(
                                    here,
                                    0,
                                    request -> {
                                        try (request) {
                                            meanwhile.run();
                                            request.reject(new byte[0]);
                                        }
                                    })) {
                assertThatThrownBy(() -> second.connect(queuePair, listener.localAddress()))
                        .hasMessageContaining("refused");
            }
        }

        /** With nothing outstanding it has nothing to poll for. */
        @Test
        void theOwnerSleepsUntilThePeerAnswers() throws Exception {
            Thread owner = Thread.currentThread();
            CompletableFuture<Boolean> slept = new CompletableFuture<>();
            connectSecond(() -> slept.complete(sleepsWithoutLimit(owner)));
            assertThat(slept.get(30, TimeUnit.SECONDS)).isTrue();
        }

        /** The owner waits for something else: its polls let the requests of another end. */
        @Test
        void theOwnerPollsForAnotherConnectionThatDisconnects() throws Exception {
            device.running = false;
            write(1, OpFlags.NONE);
            write(2, OpFlags.DEFER);
            CompletableFuture<Long> disconnected = new CompletableFuture<>();
            connectSecond(
                    () -> {
                        long start = System.nanoTime();
                        var first = connector.disconnectAsync(ConnectionOptions.DEFAULTS);
                        device.running = true;
                        device.run();
                        first.join();
                        disconnected.complete(System.nanoTime() - start);
                    });
            assertThat(Duration.ofNanos(disconnected.get(30, TimeUnit.SECONDS)))
                    .as("half of the deadline would end it, too, and cancel what was deferred")
                    .isLessThan(Duration.ofSeconds(4));
            assertThat(near.outstandingRequests()).isZero();
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isEqualTo(2);
            assertThat(completions.status(0)).isEqualTo(Status.SUCCESS);
            assertThat(completions.status(1)).isEqualTo(Status.SUCCESS);
        }

        private static boolean sleepsWithoutLimit(Thread thread) {
            Until.isIn(thread, Thread.State.WAITING);
            return true;
        }

        @Test
        void thePeersDisconnectRefusesPostsAndAPollPostsWhatWasDeferred() throws Exception {
            write(1, OpFlags.DEFER);
            other.disconnect();
            CountDownLatch over = new CountDownLatch(1);
            connector.onDisconnect(status -> over.countDown());
            Until.reached(over);
            assertThat(near.connected()).isFalse();
            assertThat(near.outstandingRequests()).isEqualTo(1);
            Completions completions = new Completions(4);
            int came = 0;
            while (came == 0) { // the first posts it, and the device tries for a while to send it
                came = queue.poll(completions);
            }
            assertThat(came).isEqualTo(1);
            assertThat(completions.context(0)).isEqualTo(1);
            assertThat(near.outstandingRequests()).isZero();
        }

        @Test
        void anotherThreadDisconnectsAndTheOwnersPollsLetItEnd() throws Exception {
            write(1, OpFlags.NONE);
            CompletableFuture<Void> disconnecting =
                    elsewhere(() -> connector.disconnectAsync(ConnectionOptions.DEFAULTS));
            assertThat(near.write(2, new BufferList(1), Rig.REMOTE, 1, OpFlags.NONE).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isEqualTo(1);
            disconnecting.get(3, TimeUnit.SECONDS);
        }
    }

    @Test
    void aVirtualThreadMayOwnQueues() throws Exception {
        FutureTask<List<String>> task =
                new FutureTask<>(
                        () -> {
                            try (Rig rig = Rig.confined(LIMITS)) {
                                rig.b.receive(2, rig.bytes(4)).orThrow();
                                rig.a.send(3, rig.bytes(4)).orThrow();
                                Thread.yield();
                                return rig.poll().stream().sorted().toList();
                            }
                        });
        Thread.startVirtualThread(task);
        assertThat(task.get(30, TimeUnit.SECONDS))
                .containsExactly("RECEIVE 2 SUCCESS", "SEND 3 SUCCESS");
    }
}
