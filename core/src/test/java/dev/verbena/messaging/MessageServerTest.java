package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.Connector;
import dev.verbena.LoggedMessages;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogRecord;

/** How many channels a server takes, and how it stops; on a network that does not exist. */
@Timeout(60)
class MessageServerTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final int PORT = 7471;
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(1000).withOutstanding(4).withReceives(4);

    private static MessageChannel connect(Poller poller) {
        return MessageChannel.connect(poller, port(PORT), SMALL, null);
    }

    @Test
    void itTakesSoManyChannelsAtATime() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(poller, port(PORT), SMALL, 3, null, channel -> {})) {
            List<MessageChannel> channels = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                channels.add(connect(poller));
            }
            MessagingException refused =
                    catchThrowableOfType(MessagingException.class, () -> connect(poller));
            assertThat(refused.status()).isEqualTo(Status.CONNECTION_REFUSED);
            assertThat(refused)
                    .hasMessageContaining(
                            "refused the channel: its limit of 3 channels is reached");
            assertThat(server.channelCount()).isEqualTo(3);
            channels.removeFirst().close();
            Until.holds(() -> server.channelCount() == 2);
            channels.add(connect(poller));
            assertThat(server.channelCount()).isEqualTo(3);
        }
    }

    /** What is refused or fails while it is accepted takes no place. */
    @Test
    void whatDoesNotComeAboutTakesNoPlace() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, null, channel -> {})) {
            try (Connector foreign = fabric.adapter.createConnector();
                    MessageChannel unused = new MessageChannel(poller, SMALL, null)) {
                assertThatThrownBy(() -> foreign.connect(unused.pair, port(PORT)))
                        .hasMessageContaining("refused the connection");
                Refusal refusal = Refusal.read(foreign.connectionData().privateData());
                assertThat(refusal.status()).isEqualTo(Status.NOT_SUPPORTED);
                assertThat(refusal.why())
                        .startsWith("The peer does not use this version of channels");
            }
            Until.holds(() -> server.channelCount() == 0);
            fabric.network.errors.put("accept", Errno.ENOMEM);
            assertThatThrownBy(() -> connect(poller)).hasMessageContaining("refused");
            Until.holds(() -> server.channelCount() == 0);
            assertThat(connect(poller).isOpen()).isTrue();
        }
    }

    /** Peers that try again and again would fill the log. */
    @Test
    void aFullServerLogsItOnceUntilAChannelHasEnded() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, null, channel -> {})) {
            for (int round = 0; round < 2; round++) {
                try (MessageChannel client =
                        MessageChannel.connect(poller, port(PORT), SMALL, null)) {
                    List<LogRecord> logged =
                            LoggedMessages.recordsOf(
                                    () -> {
                                        for (int i = 0; i < 3; i++) {
                                            assertThatThrownBy(
                                                            () ->
                                                                    MessageChannel.connect(
                                                                                    poller,
                                                                                    port(PORT),
                                                                                    SMALL,
                                                                                    null)
                                                                            .close())
                                                    .hasMessageContaining("limit of 1 channel");
                                        }
                                    });
                    assertThat(logged)
                            .singleElement()
                            .extracting(LogRecord::getMessage)
                            .asString()
                            .contains("A peer was refused by", "its limit of 1 channel is reached");
                    assertThat(client.isOpen()).isTrue();
                }
                Until.holds(() -> server.channelCount() == 0);
            }
        }
    }

    /** Clients connect again and again: no log may fill with that. */
    @Test
    void aServerWhosePollerWasClosedRefusesPeersAndLogsNothing() {
        try (FakeFabric fabric = new FakeFabric();
                Poller near = Poller.start(fabric.adapter, IdleStrategy.events())) {
            Poller far = Poller.start(fabric.adapter, IdleStrategy.events());
            try (MessageServer _ =
                    MessageServer.listen(far, port(PORT), SMALL, 1, null, channel -> {})) {
                far.close();
                List<String> logged =
                        LoggedMessages.of(
                                () ->
                                        assertThatThrownBy(
                                                        () ->
                                                                MessageChannel.connect(
                                                                        near,
                                                                        port(PORT),
                                                                        SMALL,
                                                                        null))
                                                .hasMessageContaining(
                                                        "refused the channel: the server's poller was closed"));
                assertThat(logged).isEmpty();
            }
        }
    }

    /** The peer gets the status; the reason concerns this side, so it is in the log. */
    @Test
    void aRefusalForWhatThisSideLacksIsLogged() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, null, channel -> {});
                Connector connector = fabric.adapter.createConnector();
                MessageChannel client = new MessageChannel(poller, SMALL, null)) {
            synchronized (fabric.device) {
                fabric.device.controlError = Errno.ENOMEM; // of the server's queue pair
            }
            List<LogRecord> logged =
                    LoggedMessages.recordsOf(
                            () ->
                                    assertThatThrownBy(
                                                    () ->
                                                            connector.connect(
                                                                    client.pair,
                                                                    port(PORT),
                                                                    client.options.connection(
                                                                            client.poller
                                                                                    .adapter())))
                                            .hasMessageContaining("refused the connection"));
            assertThat(logged)
                    .singleElement()
                    .satisfies(
                            one -> {
                                assertThat(one.getMessage())
                                        .startsWith(
                                                "No channel could be created for Connector of fake0")
                                        .endsWith(", which was refused");
                                assertThat(one.getThrown()).hasMessageContaining("ibv_create_qp");
                            });
            assertThat(Refusal.read(connector.connectionData().privateData()).why())
                    .isEqualTo(
                            "the server cannot create a channel (INSUFFICIENT_RESOURCES); its log says why");
        }
    }

    @Test
    void itStopsWhenAllChannelsHaveEnded() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            MessageServer server =
                    MessageServer.listen(poller, port(PORT), SMALL, 3, null, channel -> {});
            MessageChannel first = connect(poller);
            MessageChannel second = connect(poller);
            FutureTask<Boolean> stopped = new FutureTask<>(() -> server.stop(LONG));
            Thread thread = Thread.ofPlatform().start(stopped);
            Until.holds(() -> thread.getState() == Thread.State.TIMED_WAITING);
            assertThatThrownBy(() -> connect(poller))
                    .hasMessageContaining("refused the channel: the server stops");
            first.send(MemorySegment.ofArray(new byte[1]), LONG); // what is open works still
            first.close();
            assertThat(stopped).isNotDone();
            second.close();
            assertThat(stopped.get(30, TimeUnit.SECONDS)).isTrue();
            assertThatThrownBy(() -> connect(poller)).hasMessageContaining("refused");
        }
    }

    /** Those that do not end are closed, all at once. */
    @Test
    void whatHasNotEndedByTheDeadlineIsClosed() throws Exception {
        int many = 4;
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        MessagingOptions slow = SMALL.withTimeout(Duration.ofSeconds(6));
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            MessageServer server =
                    MessageServer.listen(poller, port(PORT), slow, many, null, accepted::add);
            List<MessageChannel> clients = new ArrayList<>();
            for (int i = 0; i < many; i++) {
                clients.add(connect(poller));
            }
            fabric.stall(true); // each close waits for half of the timeout
            List<CompletableFuture<Status>> statuses = new ArrayList<>();
            CountDownLatch ended = new CountDownLatch(many);
            for (int i = 0; i < many; i++) {
                MessageChannel channel = accepted.poll(30, TimeUnit.SECONDS);
                statuses.add(channel.closed());
                assertThat(
                                channel.trySend(
                                        MemorySegment.ofArray(new byte[1]),
                                        0,
                                        1,
                                        (of, attachment, status) -> ended.countDown(),
                                        null))
                        .isEqualTo(Status.SUCCESS);
            }
            long start = System.nanoTime();
            assertThat(server.stop(Duration.ofMillis(50))).isFalse();
            assertThat(Duration.ofNanos(System.nanoTime() - start))
                    .as("3 s for all; one after the other, messages would exceed their 6 s")
                    .isLessThan(Duration.ofSeconds(5));
            for (CompletableFuture<Status> status : statuses) {
                assertThat(status.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            }
            assertThat(ended.await(30, TimeUnit.SECONDS)).isTrue();
            Until.holds(() -> server.channelCount() == 0);
            fabric.stall(false);
            clients.forEach(MessageChannel::close);
        }
    }

    /** A peer's first message may come before the event that says that it has connected. */
    @Test
    void anAnswerWaitsUntilTheConnectionStands() throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        MessageHandler echo =
                (channel, message) -> {
                    assertThat(channel.trySend(message.data())).isEqualTo(Status.NO_MORE_ENTRIES);
                    message.retain();
                    var _ =
                            channel.sendAsync(message.data())
                                    .whenComplete((nothing, thrown) -> message.release());
                    answered.countDown();
                };
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, echo, channel -> {})) {
            fabric.network.silent.add("establish"); // the event comes late
            MessageChannel channel = connect(poller);
            channel.send(MemorySegment.ofArray(new byte[7]), LONG);
            assertThat(answered.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(fabric.network.emit("ESTABLISHED", ConnectionEvent.Kind.ESTABLISHED, 0))
                    .isPositive();
            try (Message message = channel.receive(LONG)) {
                assertThat(message.length()).isEqualTo(7);
            }
            channel.close();
        }
    }

    /** The first message comes before the event that would let the channel say so. */
    @Test
    void aCloseBeforeTheConnectionStandsIsNoCrash() throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        MessageHandler closes =
                (channel, message) -> {
                    var _ = channel.closeAsync();
                    closed.countDown();
                };
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, closes, channel -> {})) {
            fabric.network.silent.add("establish"); // the event comes late
            MessageChannel channel = connect(poller);
            channel.send(MemorySegment.ofArray(new byte[7]), LONG);
            assertThat(closed.await(30, TimeUnit.SECONDS)).isTrue();
            var _ = fabric.network.emit("ESTABLISHED", ConnectionEvent.Kind.ESTABLISHED, 0);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_INVALID);
        }
    }

    @Test
    void aChannelThatIsNotAwaitedAnyMoreIsClosed() throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                var _ = fabric.adapter.listen(port(PORT), 0, requests::add)) {
            fabric.network.silent.add("establish"); // the event comes late
            var connecting = MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
            var accepted = MessageServer.acceptAsync(poller, Until.next(requests), SMALL, null);
            MessageChannel channel = connecting.get(30, TimeUnit.SECONDS);
            accepted.cancel(false);
            var _ = fabric.network.emit("ESTABLISHED", ConnectionEvent.Kind.ESTABLISHED, 0);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_INVALID);
        }
    }

    /** The link-layer address of the next hop has changed: nobody has closed the channel. */
    @Test
    void aChannelThatTheConnectionManagerGivesUpIsLost() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(poller, port(PORT), SMALL, 1, null, channel -> {});
                MessageChannel channel = connect(poller)) {
            fabric.network.emit("ESTABLISHED", ConnectionEvent.Kind.UNREACHABLE, -Errno.ETIMEDOUT);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(channel.closeReason())
                    .hasMessageContaining(
                            "the connection was lost: RDMA_CM_EVENT_UNREACHABLE, status -110");
        }
    }

    /** Of a poller of this thread, whose queues nobody else may post on. */
    @Test
    void onAConfinedPollerTheAnswerIsPostedByItsThread() throws Exception {
        List<String> log = new ArrayList<>();
        MessageHandler echo =
                (channel, message) -> {
                    var _ =
                            channel.sendAsync(message.retain().data())
                                    .whenComplete((nothing, thrown) -> message.release());
                    log.add("message");
                };
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events());
                Poller clients = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(
                                poller, port(PORT), SMALL, 1, echo, channel -> log.add("opened"))) {
            fabric.network.silent.add("establish"); // the event comes late
            CompletableFuture<MessageChannel> connecting =
                    CompletableFuture.supplyAsync(() -> connect(clients));
            assertThat(poller.awaitDone(connecting, LONG)).isTrue();
            MessageChannel client = connecting.get(30, TimeUnit.SECONDS);
            client.send(MemorySegment.ofArray(new byte[7]), LONG);
            while (log.isEmpty()) {
                int ignored = poller.poll();
            }
            assertThat(fabric.network.emit("ESTABLISHED", ConnectionEvent.Kind.ESTABLISHED, 0))
                    .isPositive();
            CompletableFuture<Integer> answer =
                    CompletableFuture.supplyAsync(() -> lengthOfNext(client));
            assertThat(poller.awaitDone(answer, LONG)).isTrue();
            assertThat(answer.get(30, TimeUnit.SECONDS)).isEqualTo(7);
            assertThat(log).containsExactly("message", "opened");
        }
    }

    private static int lengthOfNext(MessageChannel channel) {
        try (Message message = channel.receive(LONG)) {
            return message.length();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The end of the connection is known before the messages that came by it were polled. */
    @Test
    void whatAPeerSentBeforeItClosedIsReceived() throws Exception {
        List<Integer> received = new ArrayList<>();
        BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
        MessageHandler handler =
                (channel, message) -> {
                    received.add(message.length());
                    var _ = channel.trySend(message.data()); // refused: the peer is gone
                };
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events());
                Poller clients = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer _ =
                        MessageServer.listen(
                                poller, port(PORT), SMALL, 1, handler, accepted::add)) {
            CompletableFuture<MessageChannel> client =
                    CompletableFuture.supplyAsync(() -> connect(clients));
            Until.holds(
                    () -> {
                        poller.poll();
                        return !accepted.isEmpty();
                    });
            MessageChannel there = accepted.take();
            MessageChannel here = client.get(30, TimeUnit.SECONDS);
            for (int length = 1; length <= 4; length++) {
                here.sendAsync(MemorySegment.ofArray(new byte[length])).get(30, TimeUnit.SECONDS);
            }
            here.close();
            Until.holds(() -> !there.isOpen());
            assertThat(received).isEmpty();
            Until.holds(
                    () -> {
                        poller.poll();
                        return there.closed().isDone();
                    });
            assertThat(received).containsExactly(1, 2, 3, 4);
            assertThat(there.closed()).isCompletedWithValue(Status.CONNECTION_INVALID);
        }
    }

    @Test
    void theOwnerOfAPollerStopsItsServer() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events());
                Poller clients = Poller.start(fabric.adapter, IdleStrategy.events())) {
            BlockingQueue<MessageChannel> accepted = new LinkedBlockingQueue<>();
            MessageServer server =
                    MessageServer.listen(poller, port(PORT), SMALL, 1, null, accepted::add);
            CompletableFuture<MessageChannel> client =
                    CompletableFuture.supplyAsync(() -> connect(clients));
            Until.holds(
                    () -> {
                        poller.poll();
                        return !accepted.isEmpty();
                    });
            MessageChannel channel = client.get(30, TimeUnit.SECONDS);
            CompletableFuture<Void> closing = CompletableFuture.runAsync(channel::close);
            assertThat(server.stop(LONG)).isTrue();
            closing.get(30, TimeUnit.SECONDS);
        }
    }
}
