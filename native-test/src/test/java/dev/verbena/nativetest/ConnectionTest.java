package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Connections between two sides of this library, by IP address. */
@NeedsDevices
@Timeout(60)
class ConnectionTest {
    private static final QueuePairLimits LIMITS = QueuePairLimits.depths(16, 16);

    private final Pair pair = new Pair(LIMITS);
    private final Pair.Side client = pair.left;
    private final Pair.Side server = pair.right;
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();

    @AfterEach
    void close() {
        pair.close();
    }

    private InetSocketAddress any(Pair.Side side) {
        return new InetSocketAddress(side.adapter.gid().gid().gid().toInetAddress(), 0);
    }

    private Connector request() throws InterruptedException {
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        return request;
    }

    @Test
    void connectsAndSendsBothWays() throws Exception {
        try (Listener listener = server.adapter.listen(any(server), 0, requests::add);
                Connector connector = client.adapter.createConnector()) {
            assertThat(listener.localAddress().getPort()).isPositive();
            var connecting =
                    connector.connectAsync(
                            client.queuePair,
                            listener.localAddress(),
                            ConnectionOptions.DEFAULTS.withPrivateData(new byte[] {1, 2, 0}));
            try (Connector accepted = request()) {
                assertThat(accepted.connectionData().privateData()).containsExactly(1, 2, 0);
                assertThat(accepted.connectionData().exact()).isTrue();
                var accepting =
                        accepted.acceptAsync(
                                server.queuePair,
                                ConnectionOptions.DEFAULTS.withPrivateData(new byte[] {9}));
                connecting.get(30, TimeUnit.SECONDS);
                assertThat(connector.connectionData().privateData()).containsExactly(9);
                assertThat(accepting).isNotDone();
                connector.completeConnect();
                accepting.get(30, TimeUnit.SECONDS);
                var to = server.memory(64);
                var from = client.filled(64, 7);
                assertThat(server.queuePair.receive(1, Pair.whole(to))).isEqualTo(Status.SUCCESS);
                assertThat(client.queuePair.send(2, Pair.whole(from))).isEqualTo(Status.SUCCESS);
                assertThat(server.ends(1)).containsExactly("RECEIVE 1 SUCCESS");
                assertThat(client.ends(1)).containsExactly("SEND 2 SUCCESS");
                assertThat(to.memory().mismatch(from.memory())).isEqualTo(-1);
                CompletableFuture<Status> over = new CompletableFuture<>();
                accepted.onDisconnect(over::complete);
                connector.disconnect();
                assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
                accepted.disconnect();
            }
        }
    }

    @Test
    void isRefusedWhereNobodyListens() {
        InetSocketAddress nobody = new InetSocketAddress(any(server).getAddress(), 7777);
        try (Connector connector = client.adapter.createConnector()) {
            assertThatThrownBy(() -> connector.connect(client.queuePair, nobody))
                    .hasMessageContaining("nobody listens")
                    .extracting(e -> ((VerbenaException) e).status())
                    .isEqualTo(Status.CONNECTION_REFUSED);
        }
    }

    @Test
    void explainsLoopback() {
        InetSocketAddress loopback = new InetSocketAddress(InetAddress.getLoopbackAddress(), 7471);
        try (Connector connector = client.adapter.createConnector()) {
            assertThatThrownBy(() -> connector.connect(client.queuePair, loopback))
                    .hasMessageContaining("loopback");
        }
    }
}
