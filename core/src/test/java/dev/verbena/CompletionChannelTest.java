package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** One thread that waits for many completion queues, and the vectors that they are spread over. */
@Timeout(120)
class CompletionChannelTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(60);

    /** Queues of one channel, each with a queue pair that sends and one that receives. */
    private static final class Bundle implements AutoCloseable {
        final FakeDevice device = new FakeDevice();
        final Adapter adapter;
        final CompletionChannel channel;
        final ProtectionDomain domain;
        final Arena arena = Arena.ofShared();
        final MemoryRegion memory;
        final List<CompletionQueue> queues = new ArrayList<>();
        final List<QueuePair> senders = new ArrayList<>();
        final List<QueuePair> receivers = new ArrayList<>();
        final Completions completions = new Completions(4);

        Bundle(int vendor) {
            device.vendorId = vendor;
            adapter = FakeAdapters.open(device);
            channel = adapter.createCompletionChannel();
            domain = adapter.createProtectionDomain();
            memory = domain.register(arena.allocate(4096, 64), Access.REMOTE_WRITE);
        }

        Bundle(int vendor, int count) {
            this(vendor);
            for (int i = 0; i < count; i++) {
                add(CompletionQueueOptions.depth(64).channel(channel));
            }
        }

        void add(CompletionQueueOptions options) {
            CompletionQueue queue = adapter.createCompletionQueue(options);
            QueuePairLimits limits = QueuePairLimits.depths(16, 16);
            QueuePair sender = domain.createQueuePair(queue, queue, limits);
            QueuePair receiver = domain.createQueuePair(queue, queue, limits);
            sender.connect(receiver.address());
            receiver.connect(sender.address());
            queues.add(queue);
            senders.add(sender);
            receivers.add(receiver);
        }

        /** One completion on a queue, carried out at once. */
        void message(int index) {
            BufferList bytes = new BufferList(1).add(memory, 0, 8);
            receivers.get(index).receive(1, bytes).orThrow();
            senders.get(index).send(2, bytes, OpFlags.SILENT_SUCCESS).orThrow();
            device.run();
            device.sends.clear(); // what it has kept for tests to look at
            device.receives.clear();
            device.chains.clear();
            device.arms.clear();
        }

        int pollAll(int index) {
            int all = 0;
            int some = queues.get(index).poll(completions);
            while (some > 0) {
                all += some;
                some = queues.get(index).poll(completions);
            }
            return all;
        }

        void closeQueue(int index) {
            senders.get(index).close();
            receivers.get(index).close();
            queues.get(index).close();
        }

        @Override
        public void close() {
            for (int i = 0; i < queues.size(); i++) {
                closeQueue(i);
            }
            channel.close();
            memory.close();
            domain.close();
            adapter.close();
            adapter.awaitClosed(LONG); // the event thread may still hold a queue pair
            arena.close();
            if (!device.gone) { // else they cannot be destroyed
                assertThat(device.objects()).as("native objects left").isZero();
            }
            device.dispose();
            Rig.nobodyThrew();
        }
    }

    @Test
    void queuesAreSpreadOverTheVectorsUnlessOneIsChosen() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 8)) {
            List<Integer> vectors = List.copyOf(bundle.device.vectors);
            assertThat(vectors).hasSize(8);
            for (int i = 0; i < 8; i++) {
                assertThat(vectors.get(i)).isEqualTo((vectors.getFirst() + i) % 4);
                assertThat(bundle.queues.get(i).vector()).isEqualTo(vectors.get(i));
            }
            bundle.add(CompletionQueueOptions.depth(8).vector(2));
            assertThat(bundle.device.vectors.getLast()).isEqualTo(2);
            assertThat(bundle.queues.getLast().vector()).isEqualTo(2);
            assertThat(bundle.adapter.completionVectors()).isEqualTo(4);
            assertThatThrownBy(() -> bundle.add(CompletionQueueOptions.depth(8).vector(4)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining(
                            "fake0 has the completion vectors 0 to 3, and 4 was asked for");
        }
    }

    @Test
    void theQueueThatHasFiredIsReturnedAndNoOther() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 3)) {
            for (CompletionQueue queue : bundle.queues) {
                assertThat(queue.arm(NotifyType.ANY)).isFalse();
            }
            assertThat(bundle.channel.await(SHORT)).isNull();
            bundle.message(1);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(1));
            assertThat(bundle.pollAll(1)).isOne();
            assertThat(bundle.channel.await(Duration.ZERO)).isNull();
            bundle.message(1); // not armed again
            assertThat(bundle.channel.await(SHORT)).isNull();
            bundle.message(2);
            bundle.message(0);
            assertThat(List.of(bundle.channel.await(LONG), bundle.channel.await(LONG)))
                    .containsExactlyInAnyOrder(bundle.queues.get(0), bundle.queues.get(2));
            assertThat(bundle.channel.await(Duration.ZERO)).isNull();
        }
    }

    /** Arming takes the events that nobody waited for, and asks for them where there are some. */
    @Test
    void anArmAsksTheChannelForWhatNobodyWaitedForOnly() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            CompletionQueue queue = bundle.queues.get(1);
            for (int i = 0; i < 3; i++) {
                int before = bundle.device.eventsAskedFor;
                queue.arm(NotifyType.ANY);
                assertThat(bundle.device.eventsAskedFor).isEqualTo(before);
                bundle.message(1);
                assertThat(bundle.channel.await(LONG)).isSameAs(queue);
                assertThat(bundle.pollAll(1)).isOne();
                assertThat(bundle.device.eventsAskedFor).isEqualTo(before + 2); // and then none
            }
            queue.arm(NotifyType.ANY);
            bundle.message(1);
            assertThat(bundle.pollAll(1)).isOne();
            int before = bundle.device.eventsAskedFor;
            queue.arm(NotifyType.ANY);
            assertThat(bundle.device.eventsAskedFor).isEqualTo(before + 1);
            assertThat(bundle.channel.await(Duration.ZERO)).isNull();
        }
    }

    /** What fired without an event leaves the event that the device was asked for to come. */
    @Test
    void anEventThatComesAfterItsQueueWasReturnedIsTakenByTheNextArm() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 1)) {
            bundle.device.eventsAreLate = true;
            bundle.queues.getFirst().arm(NotifyType.ANY);
            bundle.message(0); // whose event is late
            bundle.queues.getFirst().arm(NotifyType.ANY); // fires at once
            assertThat(bundle.channel.await(Duration.ZERO)).isSameAs(bundle.queues.getFirst());
            assertThat(bundle.pollAll(0)).isOne();
            bundle.device.bringLateEvents();
            int before = bundle.device.eventsAskedFor;
            bundle.queues.getFirst().arm(NotifyType.ANY);
            assertThat(bundle.device.eventsAskedFor).isEqualTo(before + 1);
        }
    }

    @Test
    void whatWasThereWhenTheQueueWasArmedIsReturnedAtOnce() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            bundle.message(1);
            assertThat(bundle.queues.get(1).arm(NotifyType.ANY)).isTrue();
            assertThat(bundle.channel.await(Duration.ZERO)).isSameAs(bundle.queues.get(1));
        }
    }

    @Test
    void aSleepingThreadIsWoken() throws Exception {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            bundle.queues.get(0).arm(NotifyType.ANY);
            CompletableFuture<CompletionQueue> fired =
                    CompletableFuture.supplyAsync(() -> bundle.channel.await(LONG));
            bundle.message(1); // not armed: wakes nobody
            bundle.message(0);
            assertThat(fired.get(30, TimeUnit.SECONDS)).isSameAs(bundle.queues.get(0));

            CompletableFuture<CompletionQueue> late =
                    CompletableFuture.supplyAsync(() -> bundle.channel.await(LONG));
            bundle.queues.get(1).arm(NotifyType.ANY); // there is something: no event comes
            assertThat(late.get(30, TimeUnit.SECONDS)).isSameAs(bundle.queues.get(1));
        }
    }

    /** Armed again and again and never waited for: the kernel keeps no more than a few events. */
    @Test
    void roundsThatNeverWaitLeaveNothingToTheNextWait() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 3)) {
            for (int i = 0; i < 20_000; i++) {
                int index = i % 3;
                bundle.queues.get(index).arm(NotifyType.ANY);
                bundle.message(index);
                assertThat(bundle.pollAll(index)).isOne();
            }
            assertThat(bundle.device.mostEventsNotTaken).isLessThanOrEqualTo(6);
            for (int i = 0; i < 3; i++) {
                bundle.queues.get(i).arm(NotifyType.ANY);
            }
            assertThat(bundle.channel.await(SHORT)).isNull();
            bundle.message(2);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(2));
        }
    }

    /** Whatever is done in whatever order, what came and was not polled is returned. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void unpolledQueuesAreReturnedAfterAnySequence(long seed) {
        int count = 3;
        Random random = new Random(seed);
        try (Bundle bundle = new Bundle(seed % 2 == 0 ? FakeDevice.RXE : FakeDevice.PLAIN, count)) {
            boolean[] armed = new boolean[count];
            int[] unpolled = new int[count];
            boolean[] due = new boolean[count]; // something came since the last notification
            int descriptor = seed > 3 ? bundle.channel.eventDescriptor() : -1;
            for (int step = 0; step < 5000; step++) {
                int index = random.nextInt(count);
                switch (random.nextInt(4)) {
                    case 0 -> {
                        if (unpolled[index] < 10) {
                            bundle.message(index);
                            unpolled[index]++;
                            due[index] = true;
                        }
                    }
                    case 1 -> {
                        bundle.queues.get(index).arm(NotifyType.ANY);
                        armed[index] = true;
                    }
                    case 2 -> {
                        assertThat(bundle.pollAll(index)).isEqualTo(unpolled[index]);
                        unpolled[index] = 0;
                        due[index] = false;
                    }
                    default -> awaitAll(bundle, armed, unpolled, due, descriptor);
                }
            }
            assertThat(bundle.device.mostEventsNotTaken).isLessThanOrEqualTo(2 * count);
            for (int i = 0; i < count; i++) {
                bundle.pollAll(i);
            }
        }
    }

    /** Awaits until nothing is due; a queue that is returned was armed and had something. */
    private static void awaitAll(
            Bundle bundle, boolean[] armed, int[] unpolled, boolean[] due, int descriptor) {
        boolean[] expected = new boolean[due.length];
        for (int i = 0; i < due.length; i++) {
            expected[i] = armed[i] && due[i];
            if (expected[i] && descriptor >= 0) {
                assertThat(Descriptors.await(0, descriptor)).as("queue %d wakes", i).isOne();
            }
        }
        CompletionQueue fired = bundle.channel.await(Duration.ZERO);
        while (fired != null) {
            int index = bundle.queues.indexOf(fired);
            assertThat(armed[index] && unpolled[index] > 0).as("queue %d", index).isTrue();
            armed[index] = false;
            due[index] = false;
            expected[index] = false;
            fired = bundle.channel.await(Duration.ZERO);
        }
        assertThat(Arrays.toString(expected)).as("not returned").doesNotContain("true");
    }

    @Test
    void wakeUpEndsTheWaitOrTheNextOne() throws Exception {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 1)) {
            bundle.channel.wakeUp();
            assertThat(bundle.channel.await(LONG)).isNull();
            CountDownLatch begun = new CountDownLatch(1);
            CompletableFuture<CompletionQueue> waiting =
                    CompletableFuture.supplyAsync(
                            () -> {
                                begun.countDown();
                                return bundle.channel.await(LONG);
                            });
            begun.await();
            bundle.channel.wakeUp();
            assertThat(waiting.get(20, TimeUnit.SECONDS)).isNull();
        }
    }

    @Test
    void closingTheChannelEndsTheWaitAndPendsOnItsQueues() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 1)) {
            CompletableFuture<CompletionQueue> waiting =
                    CompletableFuture.supplyAsync(() -> bundle.channel.await(LONG));
            bundle.channel.close();
            assertThatThrownBy(() -> waiting.get(20, TimeUnit.SECONDS))
                    .isInstanceOf(ExecutionException.class)
                    .hasRootCauseInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("CompletionChannel of fake0 is closed");
            assertThatThrownBy(() -> bundle.channel.awaitClosed(Duration.ZERO))
                    .isInstanceOf(VerbenaException.class);
            bundle.message(0); // its queue works
            assertThat(bundle.pollAll(0)).isOne();
            bundle.closeQueue(0);
            bundle.channel.awaitClosed(Duration.ZERO);
        }
    }

    @Test
    void aQueueThatIsClosedLeavesTheChannelToTheOthers() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 3)) {
            for (CompletionQueue queue : bundle.queues) {
                queue.arm(NotifyType.ANY);
            }
            bundle.message(0);
            bundle.message(1);
            bundle.closeQueue(0); // with an event that nobody has taken
            bundle.add(CompletionQueueOptions.depth(64).channel(bundle.channel)); // in its place
            bundle.queues.get(3).arm(NotifyType.ANY);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(1));
            assertThat(bundle.channel.await(SHORT)).isNull();
            bundle.message(3);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(3));
        }
    }

    @Test
    void aQueueWithAPendingEventMayBeClosedBesideTheWait() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            bundle.message(0);
            assertThat(bundle.queues.get(0).arm(NotifyType.ANY)).isTrue(); // waits to be returned
            bundle.closeQueue(0);
            bundle.queues.get(1).arm(NotifyType.ANY);
            bundle.message(1);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(1));
        }
    }

    @Test
    void aBrokenQueueIsReturned() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            for (CompletionQueue queue : bundle.queues) {
                queue.arm(NotifyType.ANY);
            }
            bundle.device.raise(AdapterEvent.Type.COMPLETION_QUEUE_FAILED); // of the last
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(1));
            assertThatThrownBy(() -> bundle.pollAll(1))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("broken");
            bundle.message(0);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(0));
        }
    }

    @Test
    void aRemovedDeviceEndsTheWait() {
        Bundle bundle = new Bundle(FakeDevice.PLAIN, 2);
        bundle.queues.get(0).arm(NotifyType.ANY);
        bundle.device.unplug();
        bundle.device.raiseChannels();
        assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(0));
        assertThatThrownBy(() -> bundle.channel.await(LONG))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining("EIO");
        bundle.close();
    }

    @Test
    void anErrorThatEndsTheWaitLosesNothing() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 1)) {
            bundle.queues.get(0).arm(NotifyType.ANY);
            bundle.device.takingCompletionEvent.set(new OutOfMemoryError("a test"));
            bundle.message(0);
            assertThatThrownBy(() -> bundle.channel.await(LONG))
                    .isInstanceOf(OutOfMemoryError.class);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(0));
            assertThat(bundle.pollAll(0)).isOne();
        }
    }

    @Test
    void aLoopOfTheCallersWatchesOneDescriptor() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 2)) {
            bundle.message(0);
            bundle.queues.get(0).arm(NotifyType.ANY);
            int descriptor = bundle.channel.eventDescriptor(); // late: it is readable all the same
            assertThat(Descriptors.await(30_000, descriptor)).isOne();
            assertThat(bundle.channel.await(Duration.ZERO)).isSameAs(bundle.queues.get(0));
            assertThat(bundle.channel.await(Duration.ZERO)).isNull();
            assertThat(Descriptors.await(0, descriptor)).isZero();
            bundle.queues.get(1).arm(NotifyType.ANY);
            bundle.message(1);
            assertThat(Descriptors.await(30_000, descriptor)).isOne();
            assertThat(bundle.channel.await(Duration.ZERO)).isSameAs(bundle.queues.get(1));
            assertThat(bundle.channel.await(Duration.ZERO)).isNull();
            assertThat(Descriptors.await(0, descriptor)).isZero();
        }
    }

    /** A device that gives no event for failed sends, nor for receives after the failure. */
    @ParameterizedTest
    @ValueSource(strings = {"SOLICITED", "ANY"})
    void failuresWithoutAnEventAreFound(NotifyType type) {
        try (Bundle bundle = new Bundle(FakeDevice.RXE, 2)) {
            bundle.queues.get(1).arm(type);
            bundle.device.failQueuePair(bundle.device.lastQueuePairNumber());
            BufferList bytes = new BufferList(1).add(bundle.memory, 0, 8);
            bundle.receivers.get(1).receive(7, bytes).orThrow(); // the device forgets it
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(1));
            assertThat(bundle.pollAll(1)).isOne();
        }
    }

    @Test
    void confinedQueuesOfOneChannelBelongToTheThreadThatWaits() throws Exception {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN)) {
            bundle.add(CompletionQueueOptions.depth(64).confined().channel(bundle.channel));
            bundle.add(CompletionQueueOptions.depth(64).channel(bundle.channel));
            CompletableFuture<Object> other =
                    CompletableFuture.supplyAsync(() -> bundle.channel.await(SHORT));
            assertThatThrownBy(() -> other.get(20, TimeUnit.SECONDS))
                    .hasRootCauseInstanceOf(WrongThreadException.class)
                    .hasMessageContaining("CompletionChannel of fake0 has queues confined to");
            CompletableFuture<Object> created =
                    CompletableFuture.supplyAsync(
                            () ->
                                    bundle.adapter.createCompletionQueue(
                                            CompletionQueueOptions.depth(8)
                                                    .confined()
                                                    .channel(bundle.channel)));
            assertThatThrownBy(() -> created.get(20, TimeUnit.SECONDS))
                    .hasRootCauseInstanceOf(IllegalArgumentException.class);
            bundle.queues.get(0).arm(NotifyType.ANY);
            bundle.message(0);
            assertThat(bundle.channel.await(LONG)).isSameAs(bundle.queues.get(0));
            assertThat(bundle.pollAll(0)).isOne();
        }
    }

    @Test
    void aChannelOfAThreadThatEndedIsWaitedForByNobody() throws Exception {
        FakeDevice device = new FakeDevice();
        Adapter adapter = FakeAdapters.open(device);
        try (CompletionChannel channel = adapter.createCompletionChannel()) {
            CompletionQueueOptions options =
                    CompletionQueueOptions.depth(8).confined().channel(channel);
            Thread.ofPlatform()
                    .start(() -> assertThat(adapter.createCompletionQueue(options)).isNotNull())
                    .join();
            assertThatThrownBy(() -> channel.await(Duration.ZERO))
                    .isInstanceOf(WrongThreadException.class);
            assertThatThrownBy(() -> adapter.createCompletionQueue(options))
                    .isInstanceOf(IllegalArgumentException.class);
            adapter.close(); // with the queue
        }
        adapter.awaitClosed(Duration.ZERO);
        device.dispose();
    }

    /** What was deferred is posted by the owner, which is asleep in the channel. */
    @Test
    void theOwnerOfAConfinedQueueIsWokenForWhatOthersLeftToIt() throws Exception {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN)) {
            bundle.add(CompletionQueueOptions.depth(64).confined().channel(bundle.channel));
            BufferList bytes = new BufferList(1).add(bundle.memory, 0, 8);
            bundle.senders.getFirst().send(9, bytes, OpFlags.DEFER).orThrow();
            bundle.queues.getFirst().arm(NotifyType.ANY);
            CompletableFuture<Void> flushed =
                    CompletableFuture.runAsync(() -> bundle.senders.getFirst().flush());
            CompletionQueue fired = bundle.channel.await(LONG);
            assertThat(fired).isSameAs(bundle.queues.getFirst());
            flushed.get(20, TimeUnit.SECONDS);
            assertThat(bundle.pollAll(0)).isOne();
        }
    }

    @Test
    void optionsThatDoNotFitAreRefused() {
        try (Bundle bundle = new Bundle(FakeDevice.PLAIN, 1);
                Bundle other = new Bundle(FakeDevice.PLAIN)) {
            CompletionQueueOptions plain = CompletionQueueOptions.depth(8);
            assertThatThrownBy(() -> plain.confined().callback(status -> {}))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("callback or is confined");
            assertThatThrownBy(() -> plain.callback(status -> {}).channel(bundle.channel))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("callback or a shared channel");
            assertThatThrownBy(() -> plain.vector(-1)).isInstanceOf(IllegalArgumentException.class);
            assertThatThrownBy(() -> bundle.add(plain.channel(other.channel)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("of the same Adapter object");
            bundle.queues.getFirst().arm(NotifyType.ANY);
            assertThatThrownBy(() -> bundle.queues.getFirst().await(SHORT))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("CompletionChannel.await");
            assertThatThrownBy(() -> bundle.queues.getFirst().eventDescriptor())
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("CompletionChannel.await");
        }
    }
}
