package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.examples.services.GrpcClient;
import dev.verbena.examples.services.GrpcServer;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.TlsServerCredentials;
import io.netty.pkitesting.X509Bundle;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.File;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The example of gRPC: each kind of call. */
@Timeout(180)
class GrpcExampleTest {
    private static final Duration LONG = Duration.ofSeconds(60); // an emulated processor is slow

    @Test
    void eachKindOfCallIsAnswered() throws Exception {
        try (NettySides sides = new NettySides(1)) {
            calls(sides, InsecureServerCredentials.create(), InsecureChannelCredentials.create());
        }
    }

    @Test
    void eachKindOfCallIsAnsweredOverTls() throws Exception {
        try (NettySides sides = new NettySides(1)) {
            X509Bundle certificate = sides.certificate();
            File chain = certificate.toTempCertChainPem();
            calls(
                    sides,
                    TlsServerCredentials.create(chain, certificate.toTempPrivateKeyPem()),
                    TlsChannelCredentials.newBuilder().trustManager(chain).build());
        }
    }

    private static void calls(
            NettySides sides, ServerCredentials ofServer, ChannelCredentials ofClient)
            throws Exception {
        BlockingQueue<String> log = new LinkedBlockingQueue<>();
        Server server = GrpcServer.start(sides.servers, sides.address, ofServer, log::add);
        InetSocketAddress address = (InetSocketAddress) server.getListenSockets().getFirst();
        try (GrpcClient client = new GrpcClient(sides.clients, address, ofClient, LONG)) {
            assertThat(client.upper("Hello, RDMA")).isEqualTo("HELLO, RDMA");
            assertThat(client.upper("x".repeat(4 << 20))).isEqualTo("X".repeat(4 << 20));
            assertThat(client.join("a", "", "stream")).isEqualTo("a  stream");
            assertThat(client.chat("What?", "Why?"))
                    .containsExactly("You say: What?", "You say: Why?");
            assertThat(client.count(7, 1000)).hasSize(1000).startsWith("7").endsWith("1006");
            assertThat(log.poll(60, TimeUnit.SECONDS)).startsWith("Cancelled before ");
            try (GrpcClient hasty =
                    new GrpcClient(sides.clients, address, ofClient, Duration.ofMillis(300))) {
                assertThatThrownBy(() -> hasty.count(0, Integer.MAX_VALUE))
                        .satisfies(
                                thrown ->
                                        assertThat(Status.fromThrowable(thrown).getCode())
                                                .isEqualTo(Status.Code.DEADLINE_EXCEEDED));
            }
        } finally {
            server.shutdownNow().awaitTermination(30, TimeUnit.SECONDS);
        }
    }
}
