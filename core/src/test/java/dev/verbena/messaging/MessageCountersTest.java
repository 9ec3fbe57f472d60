package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.LoggedMessages;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.internal.verbs.FakeDevice;

import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What channels and pollers count, log and record. */
@Timeout(120)
class MessageCountersTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(1000).withOutstanding(4).withReceives(4);

    private static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    /** While it is torn down, too: its peer, or a failed attempt to connect, waits for nobody. */
    @Test
    void aChannelThatHasEndedDoesNotCountAsOpen() {
        try (OneThread two = OneThread.open()) {
            assertThat(two.poller.counters().channels()).isEqualTo(1);
            two.a.fail(Status.CANCELLED, "test", null);
            assertThat(two.poller.counters().channels()).isZero();
            two.run();
        }
    }

    @Test
    void aSlowHandlerIsCounted() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        try (Two two =
                new Two(
                        SMALL,
                        null,
                        (channel, message) -> {
                            pause();
                            done.countDown();
                        })) {
            two.a.send(text("x"), LONG);
            assertThat(done.await(30, TimeUnit.SECONDS)).isTrue();
            two.a.send(text("y"), LONG);
            Until.holds(() -> two.poller.counters().slowRounds() > 0);
        }
    }

    @Test
    void aSlowHandlerIsAnEventOfTheFlightRecorder(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("recording.jfr");
        FakeDevice device = new FakeDevice();
        device.carriesBytes = true;
        try (Recording recording = new Recording();
                Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
                MessageChannel a = new MessageChannel(poller, SMALL, (channel, message) -> {});
                MessageChannel b =
                        new MessageChannel(poller, SMALL, (channel, message) -> pause())) {
            recording.enable("dev.verbena.SlowRound");
            recording.start();
            ChannelsByHand.connect(a, b);
            assertThat(a.trySend(text("x"))).isEqualTo(Status.SUCCESS);
            assertThat(poller.poll()).isPositive();
            assertThat(poller.counters().slowRounds()).isEqualTo(1);
            recording.stop();
            recording.dump(file);
        }
        device.dispose();
        RecordedEvent event =
                RecordingFile.readAllEvents(file).stream()
                        .filter(one -> one.getEventType().getName().equals("dev.verbena.SlowRound"))
                        .findFirst()
                        .orElseThrow();
        assertThat(event.getString("device")).isNotEmpty();
        assertThat(event.getInt("completions")).isPositive();
        assertThat(event.getDuration("time")).isGreaterThan(Poller.SLOW);
    }

    @Test
    void aTaskThatFailsIsLoggedAndThePollerGoesOn() {
        FakeDevice device = new FakeDevice();
        device.carriesBytes = true;
        List<Throwable> reported = new ArrayList<>();
        Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.add(thrown));
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            IllegalStateException failure = new IllegalStateException("mine");
            poller.execute(
                    () -> {
                        throw failure;
                    });
            assertThat(LoggedMessages.of(() -> assertThat(poller.poll()).isZero()))
                    .singleElement()
                    .asString()
                    .startsWith("A callback or a task of Verbena failed");
            assertThat(reported).containsExactly(failure);
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(usual);
        }
        device.dispose();
    }

    @Test
    void messagesAreCountedAndTheOwnFramesAreNot() throws Exception {
        FakeDevice device = new FakeDevice();
        device.carriesBytes = true;
        Queue<Message> kept = new ConcurrentLinkedQueue<>();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
                MessageChannel a = new MessageChannel(poller, SMALL, (channel, message) -> {});
                MessageChannel b =
                        new MessageChannel(
                                poller, SMALL, (channel, message) -> kept.add(message.retain()))) {
            ChannelsByHand.connect(a, b);
            for (int round = 1; round <= 3; round++) { // SMALL has room for 4 messages
                for (int i = 0; i < 4; i++) {
                    assertThat(a.trySend(text("12345"))).isEqualTo(Status.SUCCESS);
                }
                assertThat(a.trySend(text("no room"))).isEqualTo(Status.NO_MORE_ENTRIES);
                assertThat(a.counters().outstanding()).isPositive();
                while (b.counters().received() < 4 * round || a.counters().outstanding() > 0) {
                    poller.poll();
                }
                kept.forEach(Message::release); // which the peer learns by a frame of its own
                kept.clear();
                while (a.credit() < 4
                        || a.counters().outstanding() > 0
                        || b.counters().outstanding() > 0) {
                    poller.poll();
                }
            }
            assertThat(a.counters()).isEqualTo(new MessageCounters(12, 60, 0, 0, 0, 3, 0));
            assertThat(b.counters()).isEqualTo(new MessageCounters(0, 0, 12, 60, 0, 0, 0));
            assertThat(poller.counters().channels()).isEqualTo(2);
            // Each message on both sides, and at least a frame that brings credit for each round.
            assertThat(poller.counters().completions()).isGreaterThanOrEqualTo(24 + 6);
            assertThat(poller.counters().failed()).isZero();
        }
        device.dispose();
    }

    @Test
    void aMessageThatWaitsForRoomIsCounted() throws Exception {
        BlockingQueue<Message> kept = new LinkedBlockingQueue<>();
        try (Two two = new Two(SMALL, null, (channel, message) -> kept.add(message.retain()))) {
            List<CompletableFuture<Void>> futures = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                futures.add(two.a.sendAsync(text("m" + i)));
            }
            assertThat(two.a.counters().waits()).isEqualTo(1);
            assertThat(two.a.counters().noRoom()).isEqualTo(1);
            assertThat(two.a.counters().sent()).isEqualTo(4);
            for (int i = 0; i < 5; i++) {
                Until.next(kept).release();
            }
            futures.getLast().get(30, TimeUnit.SECONDS);
            assertThat(two.a.counters().sent()).isEqualTo(5);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(2 * Poller.SLOW.toMillis()); // what is measured
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * What the caller's thread does between two polls is no handler's time. On a busy machine a
     * poll itself may take that long.
     */
    @Test
    void aPauseBetweenPollsIsNoSlowHandler() throws Exception {
        FakeDevice device = new FakeDevice();
        device.carriesBytes = true;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
                MessageChannel a = new MessageChannel(poller, SMALL, (channel, message) -> {});
                MessageChannel b = new MessageChannel(poller, SMALL, (channel, message) -> {})) {
            ChannelsByHand.connect(a, b);
            int slowPolls = 0;
            for (int i = 0; i < 2; i++) { // a first round, and one behind it
                assertThat(a.trySend(text("x"))).isEqualTo(Status.SUCCESS);
                pause(); // the caller's own work
                long start = System.nanoTime();
                assertThat(poller.poll()).isPositive();
                slowPolls += System.nanoTime() - start >= Poller.SLOW.toNanos() ? 1 : 0;
            }
            assertThat(poller.counters().slowRounds()).isLessThanOrEqualTo(slowPolls);
        }
        device.dispose();
    }
}
