package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.FakeAdapters;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** How a {@link RawConnection} is closed while its connection ends for another reason. */
@Timeout(60)
class RawConnectionCloseTest {
    private static final int PORT = 7472;

    private final FakeFabric fabric = new FakeFabric();
    private final Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
    private final BlockingQueue<Status> ends = new LinkedBlockingQueue<>();

    @AfterEach
    void close() {
        poller.close();
        fabric.close();
    }

    private RawConnection create() {
        return RawConnection.create(poller, QueuePairLimits.depths(4, 4), 64, null, handler());
    }

    private RawHandler handler() {
        return new RawHandler() {
            @Override
            public void received(RawConnection channel, RawMessage message) {}

            @Override
            public void ended(RawConnection channel, MessagingException reason) {
                ends.add(reason.status());
            }
        };
    }

    /** Accepts each request, by a channel that is handed on. */
    private Listener listen(Consumer<RawConnection> accepted) {
        return fabric.adapter.listen(
                FakeFabric.port(PORT),
                4,
                request -> {
                    RawConnection channel = create();
                    channel.open(request);
                    request.accept(channel.pair());
                    accepted.accept(channel);
                });
    }

    /** The device returns a receive late that the channel took from a pool. */
    @Test
    void aCloseThatWaitsForTheDeviceDoesNotHoldUpThePoller() throws Exception {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.MELLANOX;
        device.lastReceive = FakeDevice.LastReceive.LATE;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller shared = Poller.start(adapter, IdleStrategy.events());
                RawReceives receives = RawReceives.shared(shared, 4, 64);
                RawConnection peer =
                        RawConnection.create(
                                shared, QueuePairLimits.depths(4, 4), receives, null, handler())) {
            RawConnection channel =
                    RawConnection.create(
                            shared, QueuePairLimits.depths(4, 4), receives, null, handler());
            channel.pair().connect(peer.pair().address());
            peer.pair().connect(channel.pair().address());
            int number = channel.pair().address().queuePairNumber();
            CompletableFuture<Boolean> closedBefore = new CompletableFuture<>();
            channel.abort("test");
            shared.execute(() -> closedBefore.complete(channel.closed().isDone()));
            assertThat(closedBefore.get(30, TimeUnit.SECONDS)).isFalse();
            Until.holds(() -> device.state(number).equals("ERR"));
            device.bringLastReceive(number);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(ends.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        }
        Until.holds(() -> device.objects() == 0);
        device.dispose();
    }

    /** The room in the completion queue is given back once, however often the end is asked for. */
    @Test
    void theEndOfAConnectionComesOnce() {
        try (FakeFabric one = new FakeFabric();
                Poller mine = Poller.onThisThread(one.adapter, IdleStrategy.events())) {
            PollerQueue queue = mine.reserve(1);
            RawConnection connection =
                    RawConnection.create(mine, QueuePairLimits.depths(4, 4), 64, null, handler());
            connection.abort("test");
            int ignored = mine.poll();
            assertThat(connection.closed()).isDone();
            connection.tearDownAgain();
            ignored = mine.poll();
            assertThat(queue.reserve(queue.queue().depth() - 1)).isTrue();
            assertThat(queue.reserve(1)).as("room that nobody has given back").isFalse();
            assertThat(ends).hasSize(1);
        }
    }

    /** A second attempt would take the place of the connector, and leave the first one open. */
    @Test
    void aConnectionIsConnectedOnce() throws Exception {
        BlockingQueue<RawConnection> accepted = new LinkedBlockingQueue<>();
        try (Listener listener = listen(accepted::add);
                RawConnection connection = create()) {
            connection.connect(listener.localAddress(), ConnectionOptions.DEFAULTS);
            assertThatThrownBy(
                            () ->
                                    connection.connect(
                                            listener.localAddress(), ConnectionOptions.DEFAULTS))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("is connected or connecting already");
            assertThat(connection.isOpen()).isTrue();
            accepted.take().close();
        }
    }

    /** The same for a poller on the program's thread, which no other thread can help. */
    @Test
    void norDoesItHoldUpAPollerOnTheThreadOfTheProgram() {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.MELLANOX;
        device.lastReceive = FakeDevice.LastReceive.LATE;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller mine = Poller.onThisThread(adapter, IdleStrategy.events());
                RawReceives receives = RawReceives.shared(mine, 4, 64);
                RawConnection peer =
                        RawConnection.create(
                                mine, QueuePairLimits.depths(4, 4), receives, null, handler())) {
            RawConnection closing =
                    RawConnection.create(
                            mine, QueuePairLimits.depths(4, 4), receives, null, handler());
            closing.pair().connect(peer.pair().address());
            peer.pair().connect(closing.pair().address());
            int number = closing.pair().address().queuePairNumber();
            closing.abort("test");
            int ignored = mine.poll();
            assertThat(device.state(number)).isEqualTo("ERR");
            assertThat(closing.closed()).as("the device has its receive").isNotDone();
            device.bringLastReceive(number);
            Until.holds(
                    () -> {
                        int none = mine.poll();
                        return closing.closed().isDone();
                    });
            assertThat(ends).containsExactly(Status.CANCELLED);
        }
        Until.holds(() -> device.objects() == 0);
        device.dispose();
    }

    /** It never returns it. */
    @Test
    void aDeviceThatNeverReturnsAReceiveDelaysTheEndByASecond() {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.MELLANOX;
        device.lastReceive = FakeDevice.LastReceive.LATE;
        try (Adapter adapter = FakeAdapters.open(device);
                Poller mine = Poller.onThisThread(adapter, IdleStrategy.events());
                RawReceives receives = RawReceives.shared(mine, 4, 64);
                RawConnection closing =
                        RawConnection.create(
                                mine, QueuePairLimits.depths(4, 4), receives, null, handler())) {
            try (RawConnection peer =
                    RawConnection.create(
                            mine, QueuePairLimits.depths(4, 4), receives, null, handler())) {
                closing.pair().connect(peer.pair().address());
                peer.pair().connect(closing.pair().address());
                closing.abort("test");
                long began = System.nanoTime();
                int polls = 0;
                while (!closing.closed().isDone()) {
                    int ignored = mine.poll();
                    polls++;
                }
                assertThat(System.nanoTime() - began).isBetween(900_000_000L, 30_000_000_000L);
                assertThat(polls).as("polls meanwhile").isGreaterThan(10);
            }
        }
        Until.holds(() -> device.objects() == 0);
        device.dispose();
    }

    /** The device never returns it, so the close of the queue pair takes a second. */
    @Test
    void theCloseOfThePollerWaitsForAChannelThatIsBeingClosed() throws Exception {
        FakeDevice device = new FakeDevice();
        device.vendorId = FakeDevice.MELLANOX;
        device.lastReceive = FakeDevice.LastReceive.LATE;
        try (Adapter adapter = FakeAdapters.open(device)) {
            Poller shared = Poller.start(adapter, IdleStrategy.events());
            RawReceives receives = RawReceives.shared(shared, 4, 64);
            QueuePairLimits limits = QueuePairLimits.depths(4, 4);
            RawConnection channel = RawConnection.create(shared, limits, receives, null, handler());
            RawConnection peer = RawConnection.create(shared, limits, 64, null, handler());
            channel.pair().connect(peer.pair().address());
            peer.pair().connect(channel.pair().address());
            int number = channel.pair().address().queuePairNumber();
            channel.abort("test");
            Until.holds(() -> device.state(number).equals("ERR"));
            shared.close();
            assertThat(channel.closed()).isDone();
            assertThat(peer.closed()).isDone();
            assertThat(ends).hasSize(2);
            receives.close();
        }
        Until.holds(() -> device.objects() == 0);
        device.dispose();
    }

    /** A connection that did not come about: the program closes the connector, and the channel. */
    @Test
    void afterItsConnectorWasClosedItEndsAllTheSame() throws Exception {
        RawConnection channel = create();
        Connector connector = fabric.adapter.createConnector();
        channel.open(connector);
        connector.close();
        channel.close();
        assertThat(channel.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        assertThat(ends).containsExactly(Status.CANCELLED);
    }

    /** The peer's end overtakes what it has sent before, which is delivered all the same. */
    @Test
    void whatCameBeforeTheEndIsDelivered() throws Exception {
        assertThat(whatIsDeliveredBeforeTheEnd(() -> {}))
                .containsExactlyInAnyOrder(
                        "sent SUCCESS", "64 bytes", "64 bytes", "ended CONNECTION_INVALID")
                .endsWith("ended CONNECTION_INVALID");
    }

    /** The reason stays, and the handler gets no more. */
    @Test
    void aHandlerThatThrowsGetsNoneOfWhatCameBeforeTheEnd() throws Exception {
        Runnable throwing =
                () -> {
                    throw new IllegalStateException("handler");
                };
        assertThat(whatIsDeliveredBeforeTheEnd(throwing))
                .containsOnlyOnce("64 bytes")
                .endsWith("ended CONNECTION_INVALID");
    }

    /** The peer sends two messages and closes, before this side polls. */
    private List<String> whatIsDeliveredBeforeTheEnd(Runnable received) throws Exception {
        CompletableFuture<RawConnection> accepted = new CompletableFuture<>();
        List<String> log = new ArrayList<>();
        try (Listener listener = listen(accepted::complete);
                Poller here = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin());
                MemoryRegion memory = poller.domain().allocate(64);
                MemoryRegion mine = here.domain().allocate(64)) {
            RawConnection channel =
                    RawConnection.create(
                            here,
                            QueuePairLimits.depths(4, 4),
                            64,
                            null,
                            new RawHandler() {
                                @Override
                                public void received(RawConnection of, RawMessage message) {
                                    log.add("%d bytes".formatted(message.length()));
                                    received.run();
                                }

                                @Override
                                public void ended(RawConnection of, MessagingException reason) {
                                    log.add("ended " + reason.status().name());
                                }
                            });
            Connector connector = fabric.adapter.createConnector();
            connector.connect(channel.pair(), listener.localAddress());
            channel.open(connector);
            connector.completeConnect();
            channel.send(
                            BufferList.of(mine),
                            OpFlags.NONE,
                            (of, nothing, status) -> log.add("sent " + status.name()),
                            null)
                    .orThrow();
            RawConnection peer = accepted.get(30, TimeUnit.SECONDS);
            CompletableFuture<Status> sent = new CompletableFuture<>();
            peer.send(BufferList.of(memory), OpFlags.SILENT_SUCCESS, null, null).orThrow();
            peer.send(
                            BufferList.of(memory),
                            OpFlags.NONE,
                            (of, nothing, status) -> sent.complete(status),
                            null)
                    .orThrow();
            assertThat(sent.get(30, TimeUnit.SECONDS)).isEqualTo(Status.SUCCESS);
            peer.close();
            Until.holds(() -> channel.closeReason() != null);
            while (!channel.closed().isDone()) {
                int ignored = here.poll();
            }
            assertThat(channel.closeReason()).hasMessageContaining("the peer closed it");
        }
        return log;
    }

    /** A request that the close has flushed does not look like a failure. */
    @Test
    void whatItsCloseFlushesIsNoFailure() throws Exception {
        BlockingQueue<RawConnection> accepted = new LinkedBlockingQueue<>();
        try (Listener listener = listen(accepted::add);
                MemoryRegion memory = poller.domain().allocate(64)) {
            RawConnection channel = create();
            Connector connector = fabric.adapter.createConnector();
            connector.connect(channel.pair(), listener.localAddress());
            channel.open(connector);
            connector.completeConnect();
            RawConnection peer = accepted.poll(30, TimeUnit.SECONDS);
            fabric.stall(true);
            CompletableFuture<Status> sent = new CompletableFuture<>();
            channel.send(
                            BufferList.of(memory),
                            OpFlags.NONE,
                            (of, nothing, status) -> sent.complete(status),
                            null)
                    .orThrow();
            channel.close();
            assertThat(sent.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(channel.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(channel.closeReason()).hasMessageContaining("this side closed it");
            fabric.stall(false);
            peer.close();
            assertThat(peer.closed().get(30, TimeUnit.SECONDS)).isNotNull();
        }
    }

    /** Whatever comes first, nothing throws, and the end comes once. */
    @Test
    void besideTheEndOfItsConnectionItEndsOnce() throws Exception {
        BlockingQueue<RawConnection> accepted = new LinkedBlockingQueue<>();
        try (Listener listener = listen(accepted::add)) {
            for (int i = 0; i < 200; i++) {
                RawConnection channel = create();
                Connector connector = fabric.adapter.createConnector();
                connector.connect(channel.pair(), listener.localAddress());
                channel.open(connector);
                connector.completeConnect();
                RawConnection peer = accepted.poll(30, TimeUnit.SECONDS);
                CompletableFuture<Void> other =
                        CompletableFuture.runAsync(i % 2 == 0 ? connector::close : peer::close);
                channel.close();
                other.get(30, TimeUnit.SECONDS);
                peer.close();
                channel.closed().get(30, TimeUnit.SECONDS);
                peer.closed().get(30, TimeUnit.SECONDS);
                assertThat(ends).hasSize(2);
                ends.clear();
            }
        }
    }
}
