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

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
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
                    request.accept(channel.pair);
                    accepted.accept(channel);
                });
    }

    /** Two connections on a device that returns late what one of them took from a pool. */
    private final class LateReturn implements AutoCloseable {
        final FakeDevice device = new FakeDevice();
        final Adapter adapter;
        final Poller its;
        final RawReceives receives;
        final RawConnection closing;
        final RawConnection peer;
        final int number; // of the closing one's queue pair

        LateReturn(BiFunction<Adapter, IdleStrategy, Poller> makePoller) {
            device.vendorId = FakeDevice.MELLANOX;
            device.lastReceive = FakeDevice.LastReceive.LATE;
            adapter = FakeAdapters.open(device);
            its = makePoller.apply(adapter, IdleStrategy.events());
            receives = RawReceives.shared(its, 4, 64);
            QueuePairLimits limits = QueuePairLimits.depths(4, 4);
            closing = RawConnection.create(its, limits, receives, null, handler());
            peer = RawConnection.create(its, limits, 64, null, handler());
            closing.pair.connect(peer.pair.address());
            peer.pair.connect(closing.pair.address());
            number = closing.pair.address().queuePairNumber();
        }

        @Override
        public void close() {
            its.close();
            receives.close();
            adapter.close();
            Until.holds(() -> device.objects() == 0);
            device.dispose();
        }
    }

    @Test
    void aCloseThatWaitsForTheDeviceDoesNotHoldUpThePoller() throws Exception {
        try (LateReturn late = new LateReturn(Poller::start)) {
            CompletableFuture<Boolean> closedBefore = new CompletableFuture<>();
            late.closing.abort("test");
            late.its.execute(() -> closedBefore.complete(late.closing.closed().isDone()));
            assertThat(closedBefore.get(30, TimeUnit.SECONDS)).isFalse();
            Until.holds(() -> late.device.state(late.number).equals("ERR"));
            late.device.bringLastReceive(late.number);
            assertThat(late.closing.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(ends.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
        }
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
        try (LateReturn late = new LateReturn(Poller::onThisThread)) {
            late.closing.abort("test");
            int ignored = late.its.poll();
            assertThat(late.device.state(late.number)).isEqualTo("ERR");
            assertThat(late.closing.closed()).as("the device has its receive").isNotDone();
            late.device.bringLastReceive(late.number);
            Until.holds(
                    () -> {
                        int none = late.its.poll();
                        return late.closing.closed().isDone();
                    });
            assertThat(ends).containsExactly(Status.CANCELLED);
        }
    }

    /** It never returns it. */
    @Test
    void aDeviceThatNeverReturnsAReceiveDelaysTheEndByASecond() {
        try (LateReturn late = new LateReturn(Poller::onThisThread)) {
            late.closing.abort("test");
            long began = System.nanoTime();
            int polls = 0;
            while (!late.closing.closed().isDone()) {
                int ignored = late.its.poll();
                polls++;
            }
            assertThat(System.nanoTime() - began).isBetween(900_000_000L, 30_000_000_000L);
            assertThat(polls).as("polls meanwhile").isGreaterThan(10);
        }
    }

    /** The device never returns it, so the close of the queue pair takes a second. */
    @Test
    void theCloseOfThePollerWaitsForAChannelThatIsBeingClosed() {
        try (LateReturn late = new LateReturn(Poller::start)) {
            late.closing.abort("test");
            Until.holds(() -> late.device.state(late.number).equals("ERR"));
            late.its.close();
            assertThat(late.closing.closed()).isDone();
            assertThat(late.peer.closed()).isDone();
            assertThat(ends).hasSize(2);
        }
    }

    /** Nobody else would close it. */
    @Test
    void aConnectorThatComesAfterTheEndIsClosed() {
        RawConnection connection = create();
        connection.close();
        Connector late = fabric.adapter.createConnector();
        connection.open(late);
        assertThat(late.closed()).succeedsWithin(Duration.ofSeconds(30));
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
            connector.connect(channel.pair, listener.localAddress());
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
            connector.connect(channel.pair, listener.localAddress());
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
                connector.connect(channel.pair, listener.localAddress());
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
