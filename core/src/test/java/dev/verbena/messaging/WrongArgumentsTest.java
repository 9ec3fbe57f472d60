package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.QueuePairLimits;
import dev.verbena.internal.verbs.FakeDevice;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Wrong arguments are refused by the call that gets them, which leaves nothing behind. */
@Timeout(60)
class WrongArgumentsTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(4, 4);
    private static final MessagingOptions OPTIONS = MessagingOptions.DEFAULTS;
    private static final InetSocketAddress SERVER =
            new InetSocketAddress(InetAddress.ofLiteral("10.0.0.1"), 7471);

    private final FakeDevice device = new FakeDevice();
    private final Adapter adapter = FakeAdapters.open(device);
    private final Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin());
    private final int objects = device.objects();

    private final RawHandler handler =
            new RawHandler() {
                @Override
                public void received(RawConnection channel, RawMessage message) {}

                @Override
                public void ended(RawConnection channel, MessagingException reason) {}
            };

    @AfterEach
    void close() {
        assertThat(device.objects()).as("native objects").isEqualTo(objects);
        poller.close();
        adapter.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    /** The first channel makes a queue, which would belong to the thread that asked for it. */
    @Test
    void aThreadThatIsNotThePollersMakesNoChannel() throws Exception {
        List<Throwable> thrown = new ArrayList<>();
        Thread other =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    thrown.add(
                                            catchThrowable(
                                                    () ->
                                                            RawConnection.create(
                                                                    poller, LIMITS, 8, null,
                                                                    handler)));
                                    thrown.add(
                                            catchThrowable(() -> RawReceives.shared(poller, 4, 8)));
                                });
        other.join();
        assertThat(thrown)
                .hasSize(2)
                .allSatisfy(
                        t ->
                                assertThat(t)
                                        .isInstanceOf(WrongThreadException.class)
                                        .hasMessageContaining(
                                                "its channels and their messages belong to"));
    }

    private static void isMissing(String name, ThrowingCallable call) {
        assertThatThrownBy(call)
                .isInstanceOf(NullPointerException.class)
                .hasMessage(name + " must not be null");
    }

    private static void isRefused(String message, ThrowingCallable call) {
        assertThatThrownBy(call)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(message);
    }

    @Test
    void ofAPoller() {
        isMissing("idle", () -> Poller.start(adapter, null));
        isMissing("idle", () -> Poller.onThisThread(adapter, null));
        isMissing("adapter", () -> Poller.start(null, IdleStrategy.events()));
        isMissing("task", () -> poller.execute((Runnable) null));
    }

    @Test
    void ofARawConnection() {
        isMissing("poller", () -> RawConnection.create(null, LIMITS, 64, null, handler));
        isMissing("handler", () -> RawConnection.create(poller, LIMITS, 64, null, null));
        isMissing("limits", () -> RawConnection.create(poller, null, 64, null, handler));
        isMissing("receives", () -> RawConnection.create(poller, LIMITS, null, null, handler));
        isRefused(
                "1 or more receives of 1 or more bytes each, not 4 of -1 bytes",
                () -> RawConnection.create(poller, LIMITS, -1, null, handler));
        isRefused(
                "longer than zero, or null for none, not -1 s",
                () -> RawConnection.create(poller, LIMITS, 64, Duration.ofSeconds(-1), handler));
    }

    @Test
    void ofAPoolOfReceives() {
        isMissing("poller", () -> RawReceives.shared(null, 4, 64));
        isRefused("not -1 of 64 bytes", () -> RawReceives.shared(poller, -1, 64));
        isRefused("not 4 of 0 bytes", () -> RawReceives.shared(poller, 4, 0));
    }

    /** It would not be polled for by the thread that its receives are confined to, say. */
    @Test
    void aChannelTakesNoReceivesOfAnotherPoller() {
        try (Poller other = Poller.onThisThread(adapter, IdleStrategy.busySpin());
                RawReceives receives = RawReceives.shared(other, 4, 64)) {
            isRefused(
                    "made for another poller than the connection's",
                    () -> RawConnection.create(poller, LIMITS, receives, null, handler));
        }
    }

    @Test
    void ofAServer() {
        isMissing("pollers", () -> server(null, SERVER, OPTIONS, 1, true));
        isMissing("address", () -> server(poller, null, OPTIONS, 1, true));
        isMissing("options", () -> server(poller, SERVER, null, 1, true));
        isMissing("opened", () -> server(poller, SERVER, OPTIONS, 1, false));
        isRefused("not -1", () -> server(poller, SERVER, OPTIONS, -1, true));
    }

    private static void server(
            Poller poller,
            InetSocketAddress address,
            MessagingOptions options,
            int most,
            boolean opens) {
        MessageServer.listen(poller, address, options, most, null, opens ? channel -> {} : null)
                .close();
    }

    @Test
    void ofAClient() {
        isMissing("pollers", () -> client(null, SERVER, OPTIONS, ReconnectOptions.DEFAULTS, true));
        isMissing("server", () -> client(poller, null, OPTIONS, ReconnectOptions.DEFAULTS, true));
        isMissing("options", () -> client(poller, SERVER, null, ReconnectOptions.DEFAULTS, true));
        isMissing("reconnect", () -> client(poller, SERVER, OPTIONS, null, true));
        isMissing(
                "opened", () -> client(poller, SERVER, OPTIONS, ReconnectOptions.DEFAULTS, false));
    }

    private static void client(
            Poller poller,
            InetSocketAddress server,
            MessagingOptions options,
            ReconnectOptions reconnect,
            boolean opens) {
        MessageClient.start(poller, server, options, reconnect, null, opens ? channel -> {} : null)
                .close();
    }

    @Test
    void ofAChannel() {
        isMissing("pollers", () -> MessageChannel.connect(null, SERVER, OPTIONS, null).close());
        isMissing("server", () -> MessageChannel.connect(poller, null, OPTIONS, null).close());
        isMissing("options", () -> MessageChannel.connect(poller, SERVER, null, null).close());
    }
}
