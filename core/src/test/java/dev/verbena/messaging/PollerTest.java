package dev.verbena.messaging;

import static dev.verbena.Status.SUCCESS;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.LoggedMessages;
import dev.verbena.UncaughtReports;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A poller of the caller's own thread. */
@Timeout(60)
class PollerTest {
    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();

    /** Such as the end of a channel, which the caller may wait for. */
    @Test
    void awaitReturnsWhenATaskHasRun() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events())) {
            boolean[] done = new boolean[1];
            poller.execute(() -> done[0] = true);
            assertThat(poller.await(Duration.ofHours(1))).isZero();
            assertThat(done[0]).isTrue();
        }
        device.dispose();
    }

    /** Nobody could poll or close it there. */
    @Test
    void aPollingThreadCannotHaveAnother() throws Exception {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.start(adapter, IdleStrategy.events())) {
            CompletableFuture<Poller> another = new CompletableFuture<>();
            poller.execute(
                    () -> {
                        try {
                            another.complete(Poller.onThisThread(adapter, IdleStrategy.busySpin()));
                        } catch (IllegalStateException e) {
                            another.completeExceptionally(e);
                        }
                    });
            assertThat(another)
                    .failsWithin(Duration.ofSeconds(30))
                    .withThrowableOfType(ExecutionException.class)
                    .withMessageContaining("create this one on another thread");
        }
        device.dispose();
    }

    /** Otherwise it would sleep until the next tick. */
    @Test
    void aTaskEndsTheSleep() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events())) {
            boolean[] done = new boolean[1];
            device.waits.add(
                    () -> {
                        poller.execute(() -> done[0] = true);
                        return 0;
                    });
            assertThat(poller.await(Duration.ofHours(1))).isZero();
            assertThat(done[0]).isTrue();
            assertThat(device.sleeps).hasSize(1);
        }
        device.dispose();
    }

    /** Such as the end of a channel, for which there was no memory. */
    @Test
    void aTaskThatFailsDuringTheCloseRunsAgain() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
            int[] runs = new int[1];
            poller.execute(
                    new Tasks.Task(
                            () -> {
                                if (++runs[0] == 1) {
                                    throw new OutOfMemoryError("injected");
                                }
                            },
                            true));
            poller.close();
            assertThat(runs).containsExactly(2);
            assertThat(uncaught.reports()).hasSize(1);
        }
        device.dispose();
    }

    /** Nobody polls any more. */
    @Test
    void afterItsCloseATaskIsRunAtOnce() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
            poller.close();
            boolean[] done = new boolean[1];
            poller.execute(() -> done[0] = true);
            assertThat(done[0]).isTrue();
        }
        device.dispose();
    }

    /** Otherwise it would poll closed queues, and log that, again and again. */
    @Test
    void afterItsCloseAWaitPollsNothing() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
            var _ = new MessageChannel(poller, MessagingOptions.DEFAULTS, null);
            poller.close();
            List<String> log =
                    LoggedMessages.of(
                            () -> assertThat(waits(poller, Duration.ofMillis(10))).isFalse());
            assertThat(log).isEmpty();
        }
        device.dispose();
    }

    private static boolean waits(Poller poller, Duration most) {
        try {
            return poller.awaitDone(new CompletableFuture<>(), most);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Thirty seconds more than that must not overflow. */
    @Test
    void theLongestTimeoutIsNotTooLongForAClose() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            MessagingOptions options =
                    MessagingOptions.DEFAULTS.withTimeout(ChronoUnit.FOREVER.getDuration());
            MessageChannel channel = new MessageChannel(poller, options, null);
            channel.close();
            assertThat(channel.isClosed()).isTrue();
        }
        device.dispose();
    }

    /** Each wait is a system call: after an event it polls, and asks the channel for no other. */
    @Test
    void aMessageEndsOneWait() {
        FakeDevice device = new FakeDevice();
        device.carriesBytes = true;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events());
                Poller ofPeer = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            int[] arrived = new int[1];
            MessageChannel channel =
                    new MessageChannel(
                            poller, MessagingOptions.DEFAULTS, (of, message) -> arrived[0]++);
            MessageChannel peer =
                    new MessageChannel(ofPeer, MessagingOptions.DEFAULTS, (of, message) -> {});
            ChannelsByHand.connect(channel, peer);
            while (poller.poll() > 0) {
                continue;
            }
            for (int i = 1; i <= 3; i++) {
                device.waits.add(
                        () -> {
                            assertThat(peer.trySend(OneThread.text("hello"))).isEqualTo(SUCCESS);
                            Pump.step(device);
                            return EventWait.EVENT;
                        });
                assertThat(poller.await(Duration.ofHours(1))).isOne();
                assertThat(arrived[0]).isEqualTo(i);
                assertThat(device.sleeps).hasSize(i);
                assertThat(device.eventsAskedFor).isEqualTo(i);
            }
        }
        device.dispose();
    }

    /** Nobody else polls: the wait is a loop, which an interrupt ends, too. */
    @Test
    void anInterruptEndsTheWaitOfThePollingThread() throws Exception {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events())) {
            Duration most = Duration.ofSeconds(20);
            long start = System.nanoTime();
            Thread.currentThread().interrupt();
            assertThatThrownBy(() -> poller.awaitDone(new CompletableFuture<>(), most))
                    .isInstanceOf(InterruptedException.class);
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(most.dividedBy(2));
            assertThat(poller.awaitDone(CompletableFuture.completedFuture(1), most)).isTrue();
        }
        device.dispose();
    }

    @Test
    void anInterruptEndsAReceiveOnThePollingThread() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events())) {
            MessageChannel channel =
                    new MessageChannel(poller, MessagingOptions.DEFAULTS, null); // nothing comes
            device.waits.add(
                    () -> {
                        Thread.currentThread().interrupt();
                        return EventWait.EVENT;
                    });
            Duration most = Duration.ofSeconds(20);
            long start = System.nanoTime();
            assertThatThrownBy(() -> channel.receive(most))
                    .isInstanceOf(InterruptedException.class);
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(most.dividedBy(2));
        }
        device.dispose();
    }

    /** As one does that copies a message of a GiB; a tick comes every 100 ms. */
    @Test
    void aThreadThatHoldsUpAChannelHoldsUpNoOther() throws Exception {
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        MessageHandler handler = (channel, message) -> arrived.add(OneThread.text(message));
        try (Two two = new Two(OneThread.SMALL, handler, handler);
                MessageChannel busy = new MessageChannel(two.poller, OneThread.SMALL, handler);
                MessageChannel peer = new MessageChannel(two.poller, OneThread.SMALL, handler)) {
            ChannelsByHand.connect(busy, peer);
            long start = System.nanoTime();
            try (var _ = busy.lock.hold()) {
                while (System.nanoTime() - start < 500_000_000) {
                    two.a.send(OneThread.text("x"), Duration.ofSeconds(20));
                    assertThat(arrived.poll(20, TimeUnit.SECONDS)).isEqualTo("x");
                }
            }
        }
    }

    /** Deadlines are looked at every 100 ms if there are any. The sleeps drive the clock. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aThreadSleepsLongerIfNothingCanBeLate(boolean sends) {
        FakeDevice device = new FakeDevice();
        long[] time = new long[1];
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller =
                        new Poller(
                                adapter,
                                IdleStrategy.events(),
                                Thread.currentThread(),
                                new PollerClock(() -> time[0]));
                Poller ofPeer = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            MessageChannel channel =
                    new MessageChannel(poller, MessagingOptions.DEFAULTS, (of, message) -> {});
            MessageChannel peer =
                    new MessageChannel(ofPeer, MessagingOptions.DEFAULTS, (of, message) -> {});
            ChannelsByHand.connect(channel, peer);
            while (poller.poll() > 0) {
                continue;
            }
            device.running = false; // what is sent stays outstanding
            if (sends) {
                assertThat(channel.trySend(OneThread.text("hello"))).isEqualTo(SUCCESS);
            }
            device.sleeps.clear();
            for (int i = 0; i < 100; i++) {
                device.waits.add(
                        () -> {
                            time[0] += TimeUnit.MILLISECONDS.toNanos(device.sleeps.getLast());
                            return -Errno.EIO; // ends the sleep at once
                        });
            }
            assertThat(poller.await(Duration.ofSeconds(4))).isZero();
            assertThat(device.sleeps).startsWith(101, sends ? 101 : 1001); // rounded up
            assertThat(device.sleeps.size()).isBetween(sends ? 35 : 4, sends ? 40 : 6);
        }
        device.dispose();
    }

    /** It would lose completions otherwise. */
    @Test
    void aQueueHasRoomForAllCompletionsOfItsConnections() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            PollerQueue first = poller.reserve(1);
            int rest = first.queue().depth() - 1;
            PollerQueue second = poller.reserve(rest + 1);
            assertThat(second).isNotSameAs(first);
            assertThat(poller.reserve(rest)).isSameAs(first);
            poller.release(first, rest);
            assertThat(poller.reserve(rest)).isSameAs(first);
            second.broke();
            poller.release(second, rest + 1);
            assertThat(poller.reserve(1)).isNotSameAs(second);
        }
        device.dispose();
    }

    /** Each new one is as deep as all before it together. */
    @Test
    void noQueueIsDeeperThanTheDeviceSupports() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            int most = adapter.info().maxCompletionQueueDepth();
            int all = 0;
            while (all <= 2 * most) {
                PollerQueue queue = poller.reserve(1);
                all += queue.queue().depth();
                while (queue.reserve(1)) {
                    continue;
                }
            }
            assertThat(poller.reserve(1).queue().depth()).isEqualTo(most);
        }
        device.dispose();
    }
}
