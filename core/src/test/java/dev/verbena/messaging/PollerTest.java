package dev.verbena.messaging;

import static dev.verbena.Status.SUCCESS;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.LoggedMessages;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** A poller of the caller's own thread. */
@Timeout(60)
class PollerTest {
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
        }
        device.dispose();
    }
}
