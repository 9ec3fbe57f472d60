package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.Status;
import dev.verbena.Until;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.random.RandomGenerator;

/** A client that connects again, on a device and a network that do not exist. */
@Timeout(60)
class MessageClientTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int PORT = 7471;
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(1000).withOutstanding(4).withReceives(4);
    private static final ReconnectOptions PAUSES =
            ReconnectOptions.DEFAULTS.withPauses(Duration.ofMillis(100), Duration.ofSeconds(1));

    /** Pauses that end when the test says so, and a clock that stands still. */
    private static final class Time {
        private record Pause(long nanoseconds, Runnable task) {}

        final BlockingDeque<Pause> pauses = new LinkedBlockingDeque<>();
        final AtomicLong now = new AtomicLong();
        volatile long chance; // what the generator gives, within its bound

        MessageClient.Surroundings surroundings() {
            RandomGenerator random =
                    new RandomGenerator() {
                        @Override
                        public long nextLong() {
                            throw new AssertionError("not asked for");
                        }

                        @Override
                        public long nextLong(long bound) {
                            return Math.min(chance, bound - 1);
                        }
                    };
            return new MessageClient.Surroundings(
                    now::get,
                    () -> random,
                    (client, nanos) -> pauses.add(new Pause(nanos, client::connect)));
        }

        /** Waits for the next pause. */
        void awaitPause() throws InterruptedException {
            pauses.addFirst(Until.next(pauses));
        }

        /** Waits for the next pause, ends it, and returns how long it was. */
        Duration endPause(Poller poller) throws InterruptedException {
            Pause pause = Until.next(pauses);
            poller.execute(pause.task());
            return Duration.ofNanos(pause.nanoseconds());
        }
    }

    private static MessageClient client(
            Poller poller, ReconnectOptions options, Time time, Consumer<MessageChannel> opened) {
        MessageClient client =
                new MessageClient(
                        poller, port(PORT), SMALL, options, null, opened, time.surroundings());
        client.begin();
        return client;
    }

    private static MessageServer server(Poller poller, int most, Consumer<MessageChannel> opened) {
        return MessageServer.listen(poller, port(PORT), SMALL, most, null, opened);
    }

    private static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(StandardCharsets.US_ASCII));
    }

    private static String text(Message message) {
        return new String(message.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.US_ASCII);
    }

    @Test
    void eachChannelThatEndsIsFollowedByANewOne() throws Exception {
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        BlockingQueue<MessageChannel> opened = new LinkedBlockingQueue<>();
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(poller, 2, accepted::add);
                MessageClient client = client(poller, PAUSES, time, opened::add)) {
            for (int i = 0; i < 3; i++) {
                MessageChannel there = accepted.poll(30, TimeUnit.SECONDS);
                MessageChannel here = client.channel(LONG);
                assertThat(opened.poll(30, TimeUnit.SECONDS)).isSameAs(here);
                here.send(text("message " + i), LONG);
                try (Message message = there.receive(LONG)) {
                    assertThat(text(message)).isEqualTo("message " + i);
                }
                there.close();
                assertThat(here.closed().get(30, TimeUnit.SECONDS))
                        .isEqualTo(Status.CONNECTION_INVALID);
                Until.holds(() -> !client.channel().isDone());
                assertThat(time.endPause(poller)).isPositive(); // the end is known from here on
                assertThat(client.lastFailure()).isSameAs(here.closeReason());
            }
            assertThat(client.channel(LONG).isOpen()).isTrue();
            assertThat(client.attempts()).isEqualTo(4);
            assertThat(client.closeReason()).isNull();
        }
    }

    @Test
    void aChannelThatItsProgramClosesAtOnceIsNotGivenOut() throws Exception {
        Time time = new Time();
        AtomicBoolean closes = new AtomicBoolean(true);
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(poller, 2, channel -> {});
                MessageClient client =
                        client(
                                poller,
                                PAUSES,
                                time,
                                channel -> {
                                    if (closes.getAndSet(false)) {
                                        channel.abort("by its program");
                                    }
                                })) {
            CompletableFuture<MessageChannel> first = client.channel();
            time.endPause(poller);
            assertThat(first.get(30, TimeUnit.SECONDS).isOpen()).isTrue();
        }
    }

    /** Nobody would ever get a channel for which there was no memory once it was established. */
    @Test
    void aChannelThatCannotBeGivenOutIsFollowedByANewOne() throws Exception {
        Time time = new Time();
        MessageClient.Surroundings real = time.surroundings();
        AtomicBoolean fails = new AtomicBoolean(true);
        MessageClient.Surroundings failing =
                new MessageClient.Surroundings(
                        () -> {
                            if (fails.getAndSet(false)) {
                                throw new OutOfMemoryError("injected");
                            }
                            return real.nanoTime().getAsLong();
                        },
                        real.random(),
                        real.later());
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(poller, 2, channel -> {});
                MessageClient client =
                        new MessageClient(
                                poller, port(PORT), SMALL, PAUSES, null, channel -> {}, failing)) {
            client.begin();
            time.endPause(poller);
            assertThat(client.channel(LONG).isOpen()).isTrue();
            assertThat(client.lastFailure()).hasCauseInstanceOf(OutOfMemoryError.class);
        }
    }

    @Test
    void anAttemptWithoutMemoryIsFollowedByAnother() throws Exception {
        Time time = new Time();
        AtomicBoolean fails = new AtomicBoolean(true);
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(poller, 1, channel -> {})) {
            fabric.device.beforeStep =
                    step -> {
                        if (step.equals("createQp") && fails.getAndSet(false)) {
                            throw new OutOfMemoryError("injected");
                        }
                    };
            try (MessageClient client = client(poller, PAUSES, time, channel -> {})) {
                time.endPause(poller);
                assertThat(client.channel(LONG).isOpen()).isTrue();
                assertThat(client.lastFailure()).isInstanceOf(OutOfMemoryError.class);
            }
        }
    }

    /** The client learns that its connector is closed before it learns of the answer. */
    @Test
    void aChannelThatEndsWhileItIsBeingConnectedIsFollowedByANewOne() throws Exception {
        Time time = new Time();
        AtomicReference<PolledConnection<?>> first = new AtomicReference<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(ofServer, 2, channel -> {});
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events());
                MessageClient client = client(poller, PAUSES, time, channel -> {})) {
            int ignored = poller.poll(); // begins to connect
            poller.connections()
                    .fail(
                            one -> first.compareAndSet(null, one),
                            Status.DATA_ERROR,
                            "of a test",
                            null);
            Connector connector = first.get().connector().orElseThrow();
            Until.holds(() -> isAccepted(connector));
            while (time.pauses.isEmpty() && client.closeReason() == null) {
                ignored = poller.await(Duration.ofMillis(10));
            }
            assertThat(client.closeReason()).isNull();
            assertThat(client.lastFailure()).hasMessageContaining("of a test");
        }
    }

    private static boolean isAccepted(Connector connector) {
        try {
            return connector.connectionData().privateData().length > 0;
        } catch (IllegalStateException e) {
            return false;
        }
    }

    /** What was outstanding fails once, before the next channel is there, and is not sent again. */
    @Test
    void nothingIsSentAgain() throws Exception {
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        Queue<String> events = new ConcurrentLinkedQueue<>();
        Time time = new Time();
        SendCallback callback =
                (channel, attachment, status) -> events.add(attachment + " " + status.isSuccess());
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server = server(poller, 1, accepted::add);
                MessageClient client =
                        client(poller, PAUSES, time, channel -> events.add("opened"))) {
            MessageChannel first = client.channel(LONG);
            MessageChannel there = accepted.poll(30, TimeUnit.SECONDS);
            fabric.stall(true);
            for (int i = 0; i < 3; i++) {
                assertThat(first.trySend(text("lost"), 0, 4, callback, i))
                        .isEqualTo(Status.SUCCESS);
            }
            CompletableFuture<Void> future = first.sendAsync(text("lost"));
            there.fail(Status.INTERNAL_ERROR, "of a test", null);
            first.closed().get(30, TimeUnit.SECONDS);
            fabric.stall(false);
            Until.holds(() -> server.channelCount() == 0);
            assertThat(future).isCompletedExceptionally();
            time.endPause(poller);
            MessageChannel second = client.channel(LONG);
            assertThat(second).isNotSameAs(first);
            second.send(text("new"), LONG);
            try (Message message = accepted.poll(30, TimeUnit.SECONDS).receive(LONG)) {
                assertThat(text(message)).isEqualTo("new");
            }
            assertThat(events).containsExactly("opened", "0 false", "1 false", "2 false", "opened");
        }
    }

    /** However many ticks pass until the server answers. */
    @Test
    void oneAttemptIsOutstandingAtATime() throws Exception {
        AtomicLong now = new AtomicLong();
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller =
                        new Poller(
                                fabric.adapter,
                                IdleStrategy.busySpin(),
                                Thread.currentThread(),
                                new PollerClock(() -> now.addAndGet(1000)));
                MessageClient client =
                        MessageClient.start(
                                poller, port(PORT), SMALL, PAUSES, null, channel -> {})) {
            Until.holds(() -> poller.poll() >= 0 && client.lastFailure() != null);
            try (Listener _ = fabric.adapter.listen(port(PORT), 0, requests::add)) {
                now.addAndGet(TimeUnit.SECONDS.toNanos(1));
                Until.holds(() -> poller.poll() >= 0 && !requests.isEmpty());
                for (int i = 0; i < 10; i++) {
                    now.addAndGet(PollerClock.TICK_NANOSECONDS);
                    int ignored = poller.poll();
                }
                assertThat(client.attempts()).isEqualTo(2);
                requests.forEach(Connector::close);
            }
        }
    }

    /** The server's answer has come, and the channel is not there yet. */
    @Test
    void aChannelThatComesDuringTheCloseIsClosed() {
        try (FakeFabric fabric = new FakeFabric();
                Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(ofServer, 1, channel -> {});
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin())) {
            MessageClient client = client(poller, PAUSES, new Time(), channel -> {});
            int ignored = poller.poll(); // asks
            Until.holds(() -> !poller.tasks.isEmpty());
            client.close();
            Until.holds(() -> poller.poll() >= 0 && poller.counters().channels() == 0);
        }
    }

    @Test
    void pausesDoubleUpToTheLongest() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageClient client = client(poller, PAUSES, time, channel -> {})) {
            List<Long> pauses = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                pauses.add(time.endPause(poller).toMillis());
            }
            assertThat(pauses).containsExactly(100L, 200L, 400L, 800L, 1000L, 1000L);
            time.chance = Long.MAX_VALUE; // the most that chance takes off: half
            time.endPause(poller);
            assertThat(time.endPause(poller).toMillis()).isEqualTo(500);
            assertThat(client.lastFailure()).hasMessageContaining("refused the connection");
        }
    }

    /** A server that accepts and fails at once is not asked without a pause for ever. */
    @Test
    void onlyAChannelThatLastedStartsFromTheFirstPause() throws Exception {
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(poller, 2, accepted::add);
                MessageClient client = client(poller, PAUSES, time, channel -> {})) {
            List<Long> pauses = new ArrayList<>();
            long[] lasting = {0, 999, 999, 1000, 0};
            for (long milliseconds : lasting) {
                MessageChannel channel = accepted.poll(30, TimeUnit.SECONDS);
                MessageChannel here = client.channel(LONG);
                time.now.addAndGet(TimeUnit.MILLISECONDS.toNanos(milliseconds));
                channel.close();
                here.closed().get(30, TimeUnit.SECONDS);
                pauses.add(time.endPause(poller).toMillis());
            }
            assertThat(pauses).containsExactly(100L, 200L, 400L, 100L, 200L);
        }
    }

    @Test
    void aServerThatComesLateIsFound() throws Exception {
        Time time = new Time();
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageClient client =
                        client(poller, PAUSES.withAttempts(3), time, channel -> {})) {
            time.endPause(poller);
            time.awaitPause(); // the second attempt has failed, too
            MessagingException late =
                    catchThrowableOfType(
                            MessagingException.class, () -> client.channel(Duration.ofMillis(20)));
            assertThat(late.status()).isEqualTo(Status.IO_TIMEOUT);
            assertThat(late)
                    .hasMessage(
                            "No channel to /10.0.0.1:7471 within 20 ms and 2 attempts; the cause is the last failure")
                    .cause()
                    .hasMessageContaining("refused the connection");
            try (MessageServer server = server(poller, 1, accepted::add)) {
                time.endPause(poller);
                client.channel(LONG).close(); // by the program: the next one comes
                Until.holds(() -> server.channelCount() == 0);
                for (int i = 0; i < 2; i++) { // attempts count from zero again
                    time.endPause(poller);
                    client.channel(LONG).close();
                    Until.holds(() -> server.channelCount() == 0);
                }
            }
        }
    }

    @Test
    void itGivesUpAfterSoManyAttempts() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageClient client =
                        client(poller, PAUSES.withAttempts(3), time, channel -> {})) {
            CompletableFuture<MessageChannel> waiting = client.channel();
            time.endPause(poller);
            time.endPause(poller);
            assertThat(client.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_REFUSED);
            assertThatThrownBy(waiting::join)
                    .cause()
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("has given up after 3 attempts");
            assertThatThrownBy(() -> client.channel(LONG))
                    .isInstanceOf(MessagingException.class)
                    .hasMessage(
                            "The client of /10.0.0.1:7471 has given up after 3 attempts, the last of which failed with CONNECTION_REFUSED; the cause says why")
                    .cause()
                    .hasMessageContaining("refused the connection");
            assertThat(client.attempts()).isEqualTo(3);
            assertThat(time.pauses).isEmpty();
        }
    }

    @Test
    void itCountsTheAttemptsThatFailInARow() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageClient client =
                        client(poller, PAUSES.withAttempts(2), time, channel -> {})) {
            time.awaitPause(); // after the first
            try (MessageServer _ = server(poller, 1, channel -> {})) {
                time.endPause(poller);
                assertThat(client.channel(LONG).isOpen()).isTrue();
            }
            time.endPause(poller);
            time.awaitPause(); // after the first again
            assertThat(client.closeReason()).isNull();
        }
    }

    @Test
    void aRefusalForGoodEndsIt() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ =
                        fabric.adapter.listen(
                                port(PORT),
                                0,
                                request ->
                                        new Refusal(Status.NOT_SUPPORTED, "version 2 only")
                                                .reject(request));
                MessageClient client = client(poller, PAUSES, time, channel -> {})) {
            assertThat(client.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.NOT_SUPPORTED);
            assertThat(client.closeReason())
                    .hasMessage(
                            "The client of /10.0.0.1:7471 cannot connect (NOT_SUPPORTED); the cause says why")
                    .cause()
                    .hasMessageContaining("refused the channel: version 2 only");
            assertThat(time.pauses).isEmpty();
        }
    }

    @Test
    void aRefusalForNowIsWaitedOut() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server = server(poller, 1, channel -> {})) {
            MessageChannel first = MessageChannel.connect(poller, port(PORT), SMALL, null);
            try (MessageClient client = client(poller, PAUSES, time, channel -> {})) {
                time.endPause(poller);
                assertThat(client.lastFailure())
                        .hasMessageContaining(
                                "refused the channel: its limit of 1 channel is reached: try again when one has closed");
                time.awaitPause();
                first.close();
                Until.holds(() -> server.channelCount() == 0);
                time.endPause(poller);
                assertThat(client.channel(LONG).isOpen()).isTrue();
                try (MessageClient impatient =
                        client(
                                poller,
                                PAUSES.withLastStatuses(Status.CONNECTION_REFUSED),
                                time,
                                channel -> {})) {
                    assertThat(impatient.closed().get(30, TimeUnit.SECONDS))
                            .isEqualTo(Status.CONNECTION_REFUSED);
                }
            }
        }
    }

    @Test
    void closeEndsItWhateverItDoes() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            MessageClient pausing = client(poller, PAUSES, time, channel -> {});
            time.awaitPause();
            CompletableFuture<MessageChannel> waiting = pausing.channel();
            pausing.close();
            pausing.close();
            assertThatThrownBy(waiting::join).hasMessageContaining("this side closed it");
            time.endPause(poller);
            assertThat(pausing.attempts()).isOne();

            fabric.network.silent.add("connect"); // no answer comes
            MessageClient connecting = client(poller, PAUSES, time, channel -> {});
            Until.holds(() -> fabric.network.calls.stream().filter("connect"::equals).count() == 2);
            connecting.close();
            assertThat(connecting.closed()).isCompletedWithValue(Status.CANCELLED);
            assertThat(connecting)
                    .hasToString("MessageClient of /10.0.0.1:7471, closed, 1 attempt");
            fabric.network.silent.clear();

            try (MessageServer server = server(poller, 1, channel -> {})) {
                MessageClient connected = client(poller, PAUSES, time, channel -> {});
                MessageChannel channel = connected.channel(LONG);
                connected.close();
                assertThat(channel.closed()).isCompletedWithValue(Status.CANCELLED);
                assertThatThrownBy(() -> connected.channel(LONG))
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining("this side closed it");

                Until.holds(() -> server.channelCount() == 0);
                CompletableFuture<MessageClient> self = new CompletableFuture<>();
                MessageClient inside = client(poller, PAUSES, time, opened -> self.join().close());
                self.complete(inside);
                assertThat(inside.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
                assertThat(time.pauses).isEmpty();
            }
            assertThat(poller.counters().channels()).isZero();
            assertThat(poller.connections().load()).isZero();
        }
    }

    @Test
    void theEndOfItsPollerIsItsEnd() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric()) {
            Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
            MessageClient pausing = client(poller, PAUSES, time, channel -> {});
            time.awaitPause();
            MessageClient connected;
            try (MessageServer _ = server(poller, 1, channel -> {})) {
                connected = client(poller, PAUSES, time, channel -> {});
                assertThat(connected.channel(LONG).isOpen()).isTrue();
                poller.close();
            }
            assertThat(connected.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(connected.closeReason()).hasMessageContaining("its poller was closed");
            time.endPause(poller);
            assertThat(pausing.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        }
    }

    @Test
    void theEndOfItsPollerEndsItAfterItsChannel() throws Exception {
        Time time = new Time();
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ = server(ofServer, 2, accepted::add)) {
            Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
            MessageClient client = client(poller, PAUSES, time, channel -> {});
            Until.next(accepted).close();
            time.endPause(poller);
            MessageChannel second = client.channel(LONG);
            poller.close();
            assertThat(client.closeReason()).hasCause(second.closeReason());
        }
    }

    /** Only waiting makes the poller of this thread run, so it waits until there is a pause. */
    private static void waitInVain(MessageClient client, Time time) {
        do {
            assertThatThrownBy(() -> client.channel(Duration.ofMillis(5)))
                    .hasMessageContaining("No channel");
        } while (time.pauses.isEmpty());
    }

    @Test
    void aPollerOfThisThreadConnectsWhileItWaits() throws Exception {
        Time time = new Time();
        try (FakeFabric fabric = new FakeFabric();
                Poller servers = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events())) {
            try (MessageClient client = client(poller, PAUSES, time, channel -> {})) {
                waitInVain(client, time); // until the peer's refusal has come
                try (MessageServer server = server(servers, 1, channel -> {})) {
                    time.endPause(poller);
                    MessageChannel channel = client.channel(LONG);
                    channel.send(text("x"), LONG);
                    channel.close();
                    waitInVain(client, time);
                    time.endPause(poller);
                    Until.holds(() -> server.channelCount() == 0);
                    assertThat(client.channel(LONG).isOpen()).isTrue();
                }
            }
        }
    }

    /** With the clock and the timers of the machine. */
    @Test
    void itPausesByItself() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageClient client =
                        MessageClient.start(
                                poller,
                                port(PORT),
                                SMALL,
                                ReconnectOptions.DEFAULTS.withPauses(
                                        Duration.ofMillis(1), Duration.ofMillis(5)),
                                null,
                                channel -> {})) {
            Until.holds(() -> client.attempts() >= 5);
            try (MessageServer _ = server(poller, 1, channel -> {})) {
                assertThat(client.channel(LONG).isOpen()).isTrue();
            }
        }
    }

    @Test
    void optionsAreChecked() {
        ReconnectOptions options = ReconnectOptions.DEFAULTS;
        Duration second = Duration.ofSeconds(1);
        assertThatThrownBy(() -> options.withPauses(Duration.ZERO, second))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> options.withPauses(second, Duration.ofMillis(999)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("these are 1 s and 999 ms");
        assertThatThrownBy(() -> options.withPauses(second, Duration.ofDays(2)))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> options.withAttempts(0))
                .isInstanceOf(IllegalArgumentException.class);
        assertThat(options.isLast(Status.NOT_SUPPORTED)).isTrue();
        assertThat(options.withLastStatuses().isLast(Status.NOT_SUPPORTED)).isFalse();
        assertThat(options)
                .hasToString(
                        "ReconnectOptions(pauses of 100 ms to 10 s, unlimited attempts, ended by"
                                + " [INVALID_PARAMETER, INVALID_PARAMETER_MIX, NOT_SUPPORTED,"
                                + " INVALID_BUFFER_SIZE, DEVICE_REMOVED, IMPLEMENTATION_LIMIT])");
        RandomGenerator random = new java.util.Random(1);
        for (int i = 0; i < 200; i++) {
            assertThat(options.withPauses(second, Duration.ofDays(1)).pauseNanoseconds(i, random))
                    .isBetween(TimeUnit.MILLISECONDS.toNanos(500), Duration.ofDays(1).toNanos());
        }
    }
}
