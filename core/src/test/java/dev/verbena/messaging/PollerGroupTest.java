package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.LONG;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.Until;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Channels that are spread over the threads of a group. */
@Timeout(60)
class PollerGroupTest {
    private static final int PORT = 7481;
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(100).withOutstanding(4).withReceives(4);

    private static PollerGroup group(FakeFabric fabric, int count) {
        return PollerGroup.start(fabric.adapter, count, IdleStrategy.events());
    }

    private static List<Integer> channels(Pollers pollers) {
        return pollers.all().stream().map(poller -> poller.counters().channels()).toList();
    }

    private static List<MessageChannel> connect(Pollers pollers, int count) {
        List<MessageChannel> channels = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            channels.add(MessageChannel.connect(pollers, port(PORT), SMALL, null));
        }
        return channels;
    }

    @Test
    void aServerAndItsClientsSpreadChannelsEvenly() {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup ofServer = group(fabric, 3);
                PollerGroup ofClients = group(fabric, 2);
                MessageServer server =
                        MessageServer.listen(ofServer, port(PORT), SMALL, 6, null, channel -> {})) {
            assertThat(connect(ofClients, 6)).hasSize(6);
            assertThat(channels(ofClients)).containsExactly(3, 3);
            assertThat(channels(ofServer)).containsExactly(2, 2, 2);
            assertThat(server.channelCount()).isEqualTo(6);
            assertThat(ofServer.counters().channels()).isEqualTo(6);
        }
    }

    /** Each waits for the answer: requests come at the same time, before any channel is made. */
    @Test
    void peersThatComeAtOnceAreSpreadEvenly() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup ofServer = group(fabric, 2);
                PollerGroup ofClients = group(fabric, 2);
                MessageServer server =
                        MessageServer.listen(
                                ofServer, port(PORT), SMALL, 99, null, channel -> {})) {
            List<MessageChannel> old = connect(ofClients, 4);
            Poller idle = ofServer.all().getFirst(); // but not for long
            for (int i : new int[] {0, 2}) {
                old.get(i).close();
            }
            Until.holds(() -> server.channelCount() == 2);
            assertThat(idle.connections().load()).isZero();
            CountDownLatch mayGoOn = new CountDownLatch(1);
            ofServer.all().forEach(poller -> poller.execute(() -> await(mayGoOn)));
            List<MessageClient> clients = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                clients.add(
                        MessageClient.start(
                                ofClients,
                                server.localAddress(),
                                SMALL,
                                ReconnectOptions.DEFAULTS,
                                null,
                                channel -> {}));
            }
            Until.holds(() -> server.channelCount() == 18);
            assertThat(idle.connections().load()).isEqualTo(9);
            mayGoOn.countDown();
            for (MessageClient client : clients) {
                assertThat(client.channel(LONG).isOpen()).isTrue();
            }
            assertThat(channels(ofServer)).containsExactly(9, 9);
            assertThat(channels(ofClients).stream().mapToInt(count -> count).sum()).isEqualTo(18);
            Until.holds(
                    () ->
                            ofServer.all().stream()
                                    .allMatch(poller -> poller.connections().accepting.get() == 0));
            clients.forEach(MessageClient::close);
            old.forEach(MessageChannel::close);
        }
    }

    @Test
    void theNextChannelGoesWhereFewestAre() {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 3);
                PollerGroup ofServer = group(fabric, 1);
                MessageServer server =
                        MessageServer.listen(ofServer, port(PORT), SMALL, 9, null, channel -> {})) {
            assertThat(List.of(group.next(), group.next(), group.next()))
                    .containsExactlyElementsOf(group.all());
            List<MessageChannel> channels = connect(group, 9);
            for (int i : new int[] {1, 4}) { // both of the second poller
                channels.get(i).close();
            }
            assertThat(channels(group)).containsExactly(3, 1, 3);
            Until.holds(() -> server.channelCount() == 7);
            connect(group, 2);
            assertThat(channels(group)).containsExactly(3, 3, 3);
            channels.getFirst().close();
            assertThat(group.next()).isSameAs(group.all().getFirst());
            assertThat(group.next()).isSameAs(group.all().getFirst());
        }
    }

    @Test
    void aPeerThatIsRefusedLeavesNoLoad() {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 2);
                MessageServer server =
                        MessageServer.listen(group, port(PORT), SMALL, 9, null, channel -> {})) {
            fabric.network.errors.put("accept", Errno.ENOMEM);
            assertThatThrownBy(() -> connect(group, 1)).hasMessageContaining("refused");
            Until.holds(() -> server.channelCount() == 0);
            Until.holds(
                    () ->
                            group.all().stream()
                                    .allMatch(poller -> poller.connections().load() == 0));
        }
    }

    /** Also a client's next channel. */
    @Test
    void aChannelStaysWithItsPoller() throws Exception {
        Map<MessageChannel, Set<Thread>> seen = new ConcurrentHashMap<>();
        BlockingQueue<MessageChannel> opened = new LinkedBlockingQueue<>();
        CountDownLatch arrived = new CountDownLatch(4 * 20);
        MessageHandler handler =
                (channel, message) -> {
                    seen.computeIfAbsent(channel, of -> ConcurrentHashMap.newKeySet())
                            .add(Thread.currentThread());
                    arrived.countDown();
                };
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 2);
                PollerGroup ofClients = group(fabric, 2);
                MessageServer server =
                        MessageServer.listen(
                                group,
                                port(PORT),
                                SMALL,
                                9,
                                handler,
                                channel -> {
                                    seen.computeIfAbsent(
                                                    channel, of -> ConcurrentHashMap.newKeySet())
                                            .add(Thread.currentThread());
                                })) {
            List<MessageChannel> channels = connect(ofClients, 4);
            for (int i = 0; i < 20; i++) {
                for (MessageChannel channel : channels) {
                    channel.send(text("x"), LONG);
                }
            }
            assertThat(arrived.await(30, TimeUnit.SECONDS)).isTrue();
            assertThat(seen).hasSize(4);
            assertThat(seen)
                    .allSatisfy(
                            (channel, threads) ->
                                    assertThat(threads).containsExactly(channel.poller.thread));
            assertThat(seen.keySet().stream().map(channel -> channel.poller).distinct()).hasSize(2);
            try (MessageClient client =
                    MessageClient.start(
                            ofClients,
                            server.localAddress(),
                            SMALL,
                            ReconnectOptions.DEFAULTS.withPauses(
                                    Duration.ofMillis(1), Duration.ofMillis(10)),
                            null,
                            opened::add)) {
                MessageChannel first = opened.poll(30, TimeUnit.SECONDS);
                first.close();
                MessageChannel second = opened.poll(30, TimeUnit.SECONDS);
                assertThat(second.poller).isSameAs(first.poller);
                assertThat(client.attempts()).isEqualTo(2);
            }
        }
    }

    @Test
    void aHandlerThatBlocksHoldsUpItsOwnPollerOnly() throws Exception {
        CountDownLatch mayGoOn = new CountDownLatch(1);
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        MessageHandler handler =
                (channel, message) -> {
                    String text = OneThread.text(message);
                    if (text.equals("block")) {
                        await(mayGoOn);
                    }
                    arrived.add(text);
                };
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 2);
                PollerGroup ofClients = group(fabric, 1);
                MessageServer server =
                        MessageServer.listen(group, port(PORT), SMALL, 9, handler, channel -> {})) {
            List<MessageChannel> channels = connect(ofClients, 2);
            assertThat(channels(group)).containsExactly(1, 1);
            channels.get(0).send(text("block"), LONG);
            for (int i = 0; i < 20; i++) {
                channels.get(1).send(text("go"), LONG);
                assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo("go");
            }
            mayGoOn.countDown();
            assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo("block");
            assertThat(server.channelCount()).isEqualTo(2);
        }
    }

    /** One registration does for the channels of all of its pollers. */
    @Test
    void itsPollersShareADomain() throws Exception {
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric()) {
            int before = fabric.device.objects();
            try (PollerGroup ofServer = group(fabric, 1);
                    PollerGroup group = group(fabric, 2);
                    MemoryRegion region = group.domain().allocate(5);
                    MessageServer server =
                            MessageServer.listen(
                                    ofServer,
                                    port(PORT),
                                    SMALL,
                                    9,
                                    (channel, message) -> arrived.add(OneThread.text(message)),
                                    channel -> {})) {
                region.memory().copyFrom(text("hello"));
                List<MessageChannel> channels = connect(group, 2);
                assertThat(channels.stream().map(channel -> channel.poller).distinct()).hasSize(2);
                for (MessageChannel channel : channels) {
                    channel.sendAsync(new BufferList(1).add(region, 0, 5))
                            .get(30, TimeUnit.SECONDS);
                    assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo("hello");
                }
                assertThat(server.channelCount()).isEqualTo(2);
            }
            assertThat(fabric.device.objects()).isEqualTo(before);
        }
    }

    @Test
    void countersAreSums() throws Exception {
        try (FakeFabric fabric = new FakeFabric()) {
            PollerGroup group = group(fabric, 2);
            try (MessageServer server =
                    MessageServer.listen(
                            group, port(PORT), SMALL, 9, (channel, message) -> {}, of -> {})) {
                for (MessageChannel channel : connect(group, 4)) {
                    channel.send(text("x"), LONG);
                }
                Until.holds(() -> group.counters().completions() >= 4);
                assertThat(server.channelCount()).isEqualTo(4);
            }
            group.close();
            assertThat(group.counters().channels()).isZero();
            assertThat(group.counters().completions())
                    .isEqualTo(
                            group.all().stream()
                                    .mapToLong(poller -> poller.counters().completions())
                                    .sum());
        }
    }

    @Test
    void aClosedGroupEndsItsChannels() throws Exception {
        try (FakeFabric fabric = new FakeFabric()) {
            PollerGroup group = group(fabric, 2);
            PollerGroup ofClients = group(fabric, 2);
            MessageServer server =
                    MessageServer.listen(group, port(PORT), SMALL, 9, null, channel -> {});
            List<MessageChannel> channels = connect(ofClients, 4);
            ofClients.close();
            assertThat(channels)
                    .allSatisfy(
                            channel ->
                                    assertThat(channel.closeReason())
                                            .hasMessageContaining("its poller was closed"));
            assertThat(ofClients.all()).noneMatch(poller -> poller.thread.isAlive());
            ofClients.close(); // again
            Until.holds(() -> server.channelCount() == 0);
            server.close();
            group.close();
            assertThat(group.counters().channels()).isZero();
        }
    }

    @Test
    void aServerOfAGroupStops() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 2)) {
            MessageServer server =
                    MessageServer.listen(group, port(PORT), SMALL, 9, null, channel -> {});
            List<MessageChannel> channels = connect(group, 4);
            channels.subList(0, 3).forEach(MessageChannel::close);
            CompletableFuture<Boolean> stopped = new CompletableFuture<>();
            Thread thread =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            stopped.complete(server.stop(LONG));
                                        } catch (Throwable t) {
                                            stopped.completeExceptionally(t);
                                        }
                                    });
            Until.holds(() -> thread.getState() == Thread.State.TIMED_WAITING);
            channels.getLast().close();
            assertThat(stopped.get(30, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** A handler of any member would wait for channels of the other members, or for itself. */
    @Test
    void itsHandlersMustNotWait() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 2);
                MessageServer server =
                        MessageServer.listen(group, port(PORT), SMALL, 9, null, channel -> {})) {
            for (Poller poller : group.all()) {
                for (Runnable call :
                        List.<Runnable>of(
                                group::close, () -> connect(group, 1), () -> stop(server))) {
                    CompletableFuture<Void> ran = new CompletableFuture<>();
                    poller.execute(
                            () -> {
                                try {
                                    call.run();
                                    ran.complete(null);
                                } catch (Throwable t) {
                                    ran.completeExceptionally(t);
                                }
                            });
                    assertThatThrownBy(() -> ran.get(30, TimeUnit.SECONDS))
                            .hasCauseInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("A handler or callback must not");
                }
            }
            assertThat(connect(group, 1)).singleElement().matches(MessageChannel::isOpen);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void aMemberThatCannotStartClosesTheOthers(int which) {
        try (FakeFabric fabric = new FakeFabric()) {
            int before = fabric.device.objects();
            int[] started = {0};
            fabric.device.beforeStep =
                    step -> {
                        if (step.equals("createChannel") && started[0]++ == which) {
                            throw new OutOfMemoryError("injected");
                        }
                    };
            assertThatThrownBy(() -> group(fabric, 3)).hasMessage("injected");
            assertThat(started[0]).isEqualTo(which + 1);
            assertThat(fabric.device.objects()).isEqualTo(before);
        }
    }

    @Test
    void aGroupOfOneIsAPoller() throws Exception {
        BlockingQueue<String> arrived = new LinkedBlockingQueue<>();
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup group = group(fabric, 1);
                MessageServer server =
                        MessageServer.listen(
                                group,
                                port(PORT),
                                SMALL,
                                9,
                                (channel, message) -> arrived.add(OneThread.text(message)),
                                channel -> {})) {
            for (MessageChannel channel : connect(group, 2)) {
                channel.send(text("hello"), LONG);
                assertThat(arrived.poll(30, TimeUnit.SECONDS)).isEqualTo("hello");
            }
            assertThat(group.next()).isSameAs(group.all().getFirst());
            assertThat(server.channelCount()).isEqualTo(2);
        }
    }

    @Test
    void aGroupHasAPoller() {
        try (FakeFabric fabric = new FakeFabric()) {
            assertThatThrownBy(() -> group(fabric, 0))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("A group has 1 or more pollers, not 0");
        }
    }

    private static void stop(MessageServer server) {
        try {
            boolean ignored = server.stop(LONG);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
