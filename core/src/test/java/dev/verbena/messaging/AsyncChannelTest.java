package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;
import static dev.verbena.messaging.OneThread.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.Status;
import dev.verbena.Until;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What an event loop needs of channels: none of it waits. On a network that does not exist. */
@Timeout(60)
class AsyncChannelTest {
    private static final int PORT = 7483;
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS.withMaxMessage(1000).withOutstanding(4).withReceives(4);

    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();

    private Listener listen(FakeFabric fabric) {
        return fabric.adapter.listen(port(PORT), 0, requests::add);
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    @Test
    void memoryThatIsGoneWhenThereIsRoomFailsItsMessageOnly() throws Exception {
        try (Two two = new Two(SMALL, null, null)) {
            MemoryRegion region = two.poller.domain().allocate(100, Access.LOCAL_WRITE);
            BufferList list = BufferList.of(region);
            int sent = 0;
            while (two.a.trySend(text("before")).isSuccess()) {
                sent++;
            }
            CompletableFuture<Void> gone = two.a.sendAsync(list);
            CompletableFuture<Void> next = two.a.sendAsync(text("next"));
            region.close();
            for (int i = 0; i < sent; i++) {
                two.b.receive(LONG).release();
            }
            assertThatThrownBy(() -> gone.get(20, TimeUnit.SECONDS))
                    .cause()
                    .isInstanceOf(MessagingException.class)
                    .extracting(why -> ((MessagingException) why).status())
                    .isEqualTo(Status.ACCESS_VIOLATION);
            next.get(20, TimeUnit.SECONDS);
        }
    }

    /** Whichever thread makes room sends it: here, the one that connects. */
    @Test
    void memoryThatIsConfinedToThePollingThreadMayWaitForRoom() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageChannel a = new MessageChannel(poller, SMALL, null);
                MessageChannel b = new MessageChannel(poller, SMALL, null)) {
            CompletableFuture<CompletableFuture<Void>> waits = new CompletableFuture<>();
            poller.execute(
                    () -> {
                        try (Arena arena = Arena.ofConfined()) {
                            waits.complete(a.sendAsync(arena.allocate(4).copyFrom(text("mine"))));
                        }
                    });
            CompletableFuture<Void> sent = get(waits);
            ChannelsByHand.connect(a, b);
            get(sent);
            try (Message message = b.receive(LONG)) {
                assertThat(text(message)).isEqualTo("mine");
            }
        }
    }

    /** It is not sent from memory that is gone, and its sender hears why. */
    @Test
    void aThreadWhoseMemoryGoesWhileItWaitsForRoom() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller, port(PORT), SMALL, 1, (of, message) -> {}, of -> {});
                MessageChannel channel =
                        MessageChannel.connect(poller, server.localAddress(), SMALL, null)) {
            fabric.stall(true);
            for (int i = 0; i < 4; i++) {
                channel.send(text("x"), LONG);
            }
            CompletableFuture<Throwable> thrown = new CompletableFuture<>();
            try (Arena arena = Arena.ofShared()) {
                MemorySegment data = arena.allocate(8);
                Thread waits =
                        Thread.ofPlatform()
                                .start(
                                        () ->
                                                thrown.complete(
                                                        catchThrowable(
                                                                () -> channel.send(data, LONG))));
                Until.isIn(waits, Thread.State.WAITING, Thread.State.TIMED_WAITING);
            }
            fabric.stall(false);
            assertThat(get(thrown))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("Already closed");
        }
    }

    @Test
    void aRequestIsAcceptedOnThePollerThatTheProgramChooses() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                PollerGroup pollers = PollerGroup.start(fabric.adapter, 2, IdleStrategy.events());
                Poller ofClient = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener listener = listen(fabric)) {
            for (int i : new int[] {1, 1, 0}) {
                CompletableFuture<MessageChannel> client =
                        MessageChannel.connectAsync(ofClient, port(PORT), SMALL, null);
                MessageChannel server =
                        get(
                                MessageServer.acceptAsync(
                                        pollers.all().get(i), requests.take(), SMALL, null));
                get(client).send(text("hello"), LONG);
                try (Message message = server.receive(LONG)) {
                    assertThat(message.length()).isEqualTo(5);
                }
                assertThat(server.connector().orElseThrow().peerAddress().getAddress())
                        .isEqualTo(FakeFabric.HERE);
                assertThat(client.join().connector().orElseThrow().peerAddress())
                        .isEqualTo(port(PORT));
            }
            assertThat(pollers.all().stream().map(poller -> poller.counters().channels()))
                    .containsExactly(1, 2);
            assertThat(listener.localAddress().getPort()).isEqualTo(PORT);
        }
    }

    @Test
    void aPeerThatIsNoChannelIsRefused() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric);
                Connector foreign = fabric.adapter.createConnector();
                MessageChannel unused = new MessageChannel(poller, SMALL, null)) {
            CompletableFuture<Void> asked =
                    foreign.connectAsync(unused.pair, port(PORT), ConnectionOptions.DEFAULTS);
            CompletableFuture<MessageChannel> accepted =
                    MessageServer.acceptAsync(poller, requests.take(), SMALL, null);
            assertThatThrownBy(() -> get(accepted))
                    .isInstanceOf(ExecutionException.class)
                    .hasMessageContaining("does not use this version of channels");
            assertThatThrownBy(() -> get(asked)).hasMessageContaining("refused the connection");
        }
    }

    /** It must not believe that there is a connection. */
    @Test
    void aServerThatIsNoChannelIsNotEstablished() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric);
                MessageChannel unused = new MessageChannel(poller, SMALL, null)) {
            CompletableFuture<MessageChannel> asked =
                    MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
            try (Connector foreign = requests.take()) {
                CompletableFuture<Void> accepted =
                        foreign.acceptAsync(unused.pair, ConnectionOptions.DEFAULTS);
                assertThatThrownBy(() -> get(asked))
                        .hasMessageContaining("does not use this version of channels");
                assertThatThrownBy(() -> get(accepted)).isInstanceOf(ExecutionException.class);
            }
        }
    }

    @Test
    void aConnectFailsWithoutAServer() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            assertThatThrownBy(
                            () -> get(MessageChannel.connectAsync(poller, port(PORT), SMALL, null)))
                    .cause()
                    .hasMessageContaining("nobody listens");
        }
    }

    @Test
    void aConnectThatIsCancelledLeavesNothing() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric)) {
            CompletableFuture<MessageChannel> connects =
                    MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
            try (Connector request = requests.take()) {
                assertThat(connects.cancel(false)).isTrue();
                Until.holds(() -> poller.counters().channels() == 0);
                assertThat(request.toString()).isNotEmpty();
            }
        }
    }

    @Test
    void norDoesOneThatIsCancelledBeforeItAsks() {
        MessagingOptions options =
                SMALL.withConnection(ConnectionOptions.DEFAULTS.withDeadline(LONG.multipliedBy(2)));
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin())) {
            try (Listener _ = listen(fabric)) {
                var connects = MessageChannel.connectAsync(poller, port(PORT), options, null);
                assertThat(connects.cancel(false)).isTrue();
                int ignored = poller.poll(); // asks
                Until.holds(() -> poller.poll() >= 0 && poller.counters().channels() == 0);
            }
            requests.forEach(Connector::close);
        }
    }

    /** The server's answer has come, and the channel is not there yet. */
    @Test
    void norDoesOneThatIsCancelledAtTheLastMoment() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric);
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.busySpin())) {
            CompletableFuture<MessageChannel> connects =
                    MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
            int ignored = poller.poll(); // asks
            var _ = MessageServer.acceptAsync(ofServer, requests.take(), SMALL, null);
            Until.holds(() -> !poller.tasks.isEmpty());
            assertThat(connects.cancel(false)).isTrue();
            Until.holds(() -> poller.poll() >= 0 && poller.counters().channels() == 0);
        }
    }

    @Test
    void closeAsyncDoesNotWaitForWhatIsOutstanding() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric)) {
            CompletableFuture<MessageChannel> connects =
                    MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
            MessageChannel server =
                    get(MessageServer.acceptAsync(poller, requests.take(), SMALL, null));
            MessageChannel client = get(connects);
            fabric.stall(true);
            CompletableFuture<Void> sent = client.sendAsync(text("last"));
            CompletableFuture<Status> closed = client.closeAsync();
            assertThat(closed).isNotDone();
            assertThat(client.trySend(text("later"))).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(client.sendAsync(text("later")).exceptionNow())
                    .hasMessageContaining("this side is closing it");
            fabric.stall(false);
            assertThat(get(closed)).isEqualTo(Status.CANCELLED);
            get(sent);
            try (Message message = server.receive(LONG)) {
                assertThat(message.length()).isEqualTo(4);
            }
        }
    }

    /** Once for each time that there was none; never without a refusal. */
    @Test
    void theProgramHearsOfRoom() {
        try (OneThread two = OneThread.open()) {
            AtomicInteger heard = new AtomicInteger();
            two.b.onRoom(heard::incrementAndGet);
            two.keeps = true;
            int sent = 0;
            while (two.b.trySend(text("x")).isSuccess()) {
                sent++;
            }
            assertThat(sent).isEqualTo(4);
            assertThat(two.b.trySend(text("x"))).isEqualTo(Status.NO_MORE_ENTRIES);
            two.run();
            assertThat(heard).as("A has released none").hasValue(0);
            two.keeps = false;
            List.copyOf(two.kept).forEach(Message::release);
            two.run();
            assertThat(heard).hasValue(1);
            assertThat(two.b.trySend(text("x"))).isEqualTo(Status.SUCCESS);
            two.run();
            assertThat(heard).as("no refusal since").hasValue(1);
        }
    }

    @Test
    void aPollerIsWokenByAnyThread() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.onThisThread(fabric.adapter, IdleStrategy.events())) {
            CountDownLatch begun = new CountDownLatch(1);
            Thread waker =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        begun.countDown();
                                        poller.wakeUp();
                                    });
            begun.await();
            assertThat(poller.await(LONG)).isZero();
            waker.join();
        }
    }

    @Test
    void pollersOfOneDomainSendFromTheSameMemory() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                ProtectionDomain domain = fabric.adapter.createProtectionDomain();
                MemoryRegion region = domain.allocate(100, Access.LOCAL_WRITE);
                Poller ofServer = Poller.start(fabric.adapter, IdleStrategy.events());
                Listener _ = listen(fabric)) {
            List<Poller> pollers = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                Poller poller = Poller.onThisThread(domain, IdleStrategy.events());
                pollers.add(poller);
                assertThat(poller.domain()).isSameAs(domain);
                CompletableFuture<MessageChannel> connects =
                        MessageChannel.connectAsync(poller, port(PORT), SMALL, null);
                CompletableFuture<MessageChannel> accepts = null;
                while (!connects.isDone()) {
                    int unused = poller.await(Duration.ofMillis(1));
                    Connector request = requests.poll();
                    if (request != null) {
                        accepts = MessageServer.acceptAsync(ofServer, request, SMALL, null);
                    }
                }
                MessageChannel client = connects.join();
                assertThat(client.trySend(new BufferList(1).add(region, 0, 100), null, null))
                        .isEqualTo(Status.SUCCESS);
                try (Message message = get(accepts).receive(LONG)) {
                    assertThat(message.data().mismatch(MemorySegment.ofArray(new byte[100])))
                            .isEqualTo(-1);
                }
            }
            pollers.forEach(Poller::close);
            assertThat(region.memory().byteSize()).isEqualTo(100);
        }
    }
}
