package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.AdapterEvent;
import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** How a {@link RawConnection} is connected, and what becomes of it if it cannot be. */
@Timeout(60)
class RawConnectTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 4);
    private static final byte[] HELLO = {1, 2, 3};
    private static final byte[] ANSWER = {4, 5};

    private final FakeFabric fabric = new FakeFabric();
    private final Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
    private final BlockingQueue<Integer> messages = new LinkedBlockingQueue<>();
    private final BlockingQueue<MessagingException> ends = new LinkedBlockingQueue<>();
    private final CompletableFuture<RawConnection> accepted = new CompletableFuture<>();
    private final CompletableFuture<Void> established = new CompletableFuture<>();

    private final RawHandler handler =
            new RawHandler() {
                @Override
                public void received(RawConnection channel, RawMessage message) {
                    messages.add(message.length());
                    message.repost().orThrow();
                }

                @Override
                public void ended(RawConnection channel, MessagingException reason) {
                    ends.add(reason);
                }
            };

    @AfterEach
    void close() {
        poller.close();
        fabric.close(); // fails if anything is left
    }

    private RawConnection create() {
        return RawConnection.create(poller, LIMITS, 64, null, handler);
    }

    private static ConnectionOptions with(byte[] data) {
        return ConnectionOptions.DEFAULTS.withPrivateData(data);
    }

    private Listener listen(Consumer<Connector> requests) {
        return fabric.adapter.listen(FakeFabric.port(7473), 4, requests);
    }

    private void accept(Connector request) {
        RawConnection channel = create();
        channel.acceptAsync(request, with(ANSWER))
                .whenComplete(
                        (nothing, thrown) -> {
                            if (thrown == null) {
                                established.complete(null);
                            } else {
                                established.completeExceptionally(thrown);
                            }
                        });
        accepted.complete(channel);
    }

    private RawConnection accepted() throws Exception {
        return accepted.get(30, TimeUnit.SECONDS);
    }

    private MessagingException end() throws InterruptedException {
        return ends.poll(30, TimeUnit.SECONDS);
    }

    @Test
    void bothSidesHaveThePrivateDataOfTheOther() throws Exception {
        try (Listener listener = listen(this::accept);
                MemoryRegion memory = poller.domain().allocate(8)) {
            RawConnection client = create();
            assertThat(client.connectionData()).isEmpty();
            assertThat(client.connector()).isEmpty();
            client.connect(listener.localAddress(), with(HELLO));
            established.get(30, TimeUnit.SECONDS);
            assertThat(client.connectionData().orElseThrow().privateData()).isEqualTo(ANSWER);
            assertThat(accepted().connectionData().orElseThrow().privateData()).isEqualTo(HELLO);
            assertThat(client.connector().orElseThrow().peerAddress())
                    .isEqualTo(accepted().connector().orElseThrow().localAddress());
            client.send(BufferList.of(memory), OpFlags.NONE, null, null).orThrow();
            assertThat(messages.poll(30, TimeUnit.SECONDS)).isEqualTo(8);
            accepted().send(BufferList.of(memory), OpFlags.NONE, null, null).orThrow();
            assertThat(messages.poll(30, TimeUnit.SECONDS)).isEqualTo(8);
            client.close();
            assertThat(client.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.CANCELLED);
            assertThat(accepted().closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(accepted().closeReason()).hasMessageContaining("the peer closed it");
        }
    }

    @Test
    void aPeerThatRefusesSaysWhy() throws Exception {
        try (Listener listener =
                listen(
                        request -> {
                            try (request) {
                                request.reject(ANSWER);
                            }
                        })) {
            RawConnection client = create();
            assertThatThrownBy(() -> client.connect(listener.localAddress(), with(HELLO)))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.CONNECTION_REFUSED));
            assertThat(client.connectionData().orElseThrow().privateData()).startsWith(ANSWER);
            assertThat(end()).hasMessageContaining("it could not be connected");
            assertThat(client.closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_REFUSED);
        }
    }

    /** Nobody listens; the accepting side has no part in it. */
    @Test
    void aChannelThatCouldNotBeConnectedEnds() throws Exception {
        RawConnection client = create();
        assertThatThrownBy(() -> client.connect(FakeFabric.port(7474), with(HELLO)))
                .isInstanceOf(VerbenaException.class);
        assertThat(end().getCause()).isInstanceOf(VerbenaException.class);
        assertThat(client.connectionData().orElseThrow().privateData()).isEmpty();
        client.close(); // does nothing more
    }

    @Test
    void aPeerThatSaysNothingHasNoData() {
        Thread connects = Thread.currentThread();
        Queue<Connector> requests = new ConcurrentLinkedQueue<>();
        try (Listener silent =
                listen(
                        request -> {
                            requests.add(request);
                            connects.interrupt();
                        })) {
            RawConnection client = create();
            assertThatThrownBy(() -> client.connect(silent.localAddress(), with(HELLO)))
                    .isInstanceOf(VerbenaException.class);
            assertThat(Thread.interrupted()).isTrue();
            assertThat(client.connectionData()).isEmpty();
            requests.remove().close();
        }
    }

    @Test
    void aClientMayRefuseWhatThePeerAccepted() throws Exception {
        try (Listener listener = listen(this::accept)) {
            RawConnection client = create();
            assertThatThrownBy(
                            () ->
                                    client.connect(
                                            listener.localAddress(),
                                            with(HELLO),
                                            peer -> {
                                                throw new IllegalArgumentException("of a test");
                                            }))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThat(client.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
            assertThatThrownBy(() -> established.get(30, TimeUnit.SECONDS))
                    .isInstanceOf(ExecutionException.class);
            assertThat(accepted().closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_ABORTED);
        }
    }

    @Test
    void aRequestThatIsClosedAlreadyIsNotAccepted() throws Exception {
        try (Listener listener =
                listen(
                        request -> {
                            request.close();
                            accept(request);
                        })) {
            assertThatThrownBy(() -> create().connect(listener.localAddress(), with(HELLO)))
                    .isInstanceOf(VerbenaException.class);
            assertThatThrownBy(() -> established.get(30, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(IllegalStateException.class);
            assertThat(accepted().closed().get(30, TimeUnit.SECONDS))
                    .isEqualTo(Status.INTERNAL_ERROR);
        }
    }

    @Test
    void aHandlerMustNotWaitForAConnection() throws Exception {
        try (RawConnection client = create()) {
            CompletableFuture<Throwable> thrown = new CompletableFuture<>();
            poller.execute(
                    () -> {
                        try {
                            client.connect(FakeFabric.port(7473), with(HELLO));
                        } catch (Throwable t) {
                            thrown.complete(t);
                        }
                    });
            assertThat(thrown.get(30, TimeUnit.SECONDS)).isInstanceOf(IllegalStateException.class);
            assertThat(client.closeReason()).isNull();
        }
    }

    @Test
    void aPeerThatDoesNotAnswerEndsTheChannel() throws Exception {
        try (Listener listener = listen(this::accept);
                MemoryRegion memory = poller.domain().allocate(8)) {
            RawConnection client = create();
            client.connect(listener.localAddress(), with(HELLO));
            established.get(30, TimeUnit.SECONDS);
            assertThatThrownBy(() -> client.expectMessageWithin(Duration.ZERO))
                    .isInstanceOf(IllegalArgumentException.class);
            client.expectMessageWithin(Duration.ofSeconds(1));
            client.send(BufferList.of(memory), OpFlags.NONE, null, null).orThrow();
            assertThat(end().status()).isEqualTo(Status.IO_TIMEOUT);
            assertThat(client.closeReason()).hasMessageContaining("message that was expected");
        }
    }

    /** The deadline of another channel on the same poller shows that the time has passed. */
    @ParameterizedTest
    @ValueSource(strings = {"an answer", "a later deadline"})
    void aPeerThatAnswersInTimeDoesNot(String first) throws Exception {
        try (Listener listener = listen(this::accept);
                MemoryRegion memory = poller.domain().allocate(8);
                RawConnection client = create();
                RawConnection clock = create()) {
            client.connect(listener.localAddress(), with(HELLO));
            established.get(30, TimeUnit.SECONDS);
            if (first.equals("an answer")) {
                client.expectMessageWithin(Duration.ofSeconds(5));
                accepted().send(BufferList.of(memory), OpFlags.NONE, null, null).orThrow();
                assertThat(messages.poll(30, TimeUnit.SECONDS)).isEqualTo(8);
                clock.expectMessageWithin(Duration.ofSeconds(6));
            } else {
                client.expectMessageWithin(Duration.ofSeconds(1));
                client.expectMessageWithin(Duration.ofDays(1000));
                clock.expectMessageWithin(Duration.ofSeconds(2));
            }
            assertThat(clock.closed().get(30, TimeUnit.SECONDS)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(client.closeReason()).isNull();
        }
    }

    /** Receives of a pool are not flushed: only an event tells, or the peer's disconnect. */
    @ParameterizedTest
    @ValueSource(strings = {"QUEUE_PAIR_ACCESS_ERROR", "QUEUE_PAIR_REQUEST_ERROR", "disconnect"})
    void aForbiddenAccessEndsAnIdleChannel(String first) throws Exception {
        try (RawReceives shared = RawReceives.shared(poller, 4, 64)) {
            try (Listener listener = listen(this::accept)) {
                RawConnection client = RawConnection.create(poller, LIMITS, shared, null, handler);
                client.connect(listener.localAddress(), with(HELLO));
                established.get(30, TimeUnit.SECONDS);
                int number = client.pair.address().queuePairNumber();
                fabric.device.failQueuePair(number);
                if (first.equals("disconnect")) {
                    accepted().close();
                } else {
                    fabric.device.raiseOfQueuePair(AdapterEvent.Type.valueOf(first), number);
                }
                assertThat(client.closed().get(30, TimeUnit.SECONDS))
                        .isEqualTo(Status.CONNECTION_ABORTED);
                assertThat(client.closeReason())
                        .hasMessageContaining("the device refused a request of the peer");
            }
        }
    }
}
