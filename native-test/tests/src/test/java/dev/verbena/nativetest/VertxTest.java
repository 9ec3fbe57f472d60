package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.examples.services.VertxTransport;

import io.netty.channel.IoHandlerFactory;
import io.netty.pkitesting.X509Bundle;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxBuilder;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.DeliveryOptions;
import io.vertx.core.eventbus.EventBusOptions;
import io.vertx.core.eventbus.ReplyException;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Unchanged Vert.x: HTTP, and the event bus of two nodes. */
@Timeout(180)
class VertxTest {
    private static final int TIMEOUT = 60; // seconds; an emulated processor is slow

    @BeforeAll
    static void resolveNamesByTheJdk() {
        System.setProperty("vertx.disableDnsResolver", "true");
    }

    private static VertxBuilder over(IoHandlerFactory device, String address) {
        return Vertx.builder()
                .with(
                        new VertxOptions()
                                .setEventLoopPoolSize(2)
                                .setEventBusOptions(new EventBusOptions().setHost(address)))
                .withTransport(new VertxTransport(device));
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.await(TIMEOUT, TimeUnit.SECONDS);
    }

    private static Buffer random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return Buffer.buffer(bytes);
    }

    @Test
    void http2InTheClear(@TempDir Path folder) throws Exception {
        try (NettySides sides = new NettySides(1)) {
            requests(
                    sides,
                    new HttpServerOptions(),
                    new HttpClientOptions().setHttp2ClearTextUpgrade(false),
                    HttpVersion.HTTP_2,
                    folder);
        }
    }

    @Test
    void http2OverTls(@TempDir Path folder) throws Exception {
        try (NettySides sides = new NettySides(1)) {
            X509Bundle certificate = sides.certificate();
            String chain = certificate.toTempCertChainPem().getPath();
            requests(
                    sides,
                    new HttpServerOptions()
                            .setSsl(true)
                            .setUseAlpn(true)
                            .setKeyCertOptions(
                                    new PemKeyCertOptions()
                                            .setCertPath(chain)
                                            .setKeyPath(
                                                    certificate.toTempPrivateKeyPem().getPath())),
                    new HttpClientOptions()
                            .setSsl(true)
                            .setUseAlpn(true)
                            .setTrustOptions(new PemTrustOptions().addCertPath(chain)),
                    HttpVersion.HTTP_2,
                    folder);
        }
    }

    /** Which sends files by {@code FileRegion}s. */
    @Test
    void http1(@TempDir Path folder) throws Exception {
        try (NettySides sides = new NettySides(1)) {
            requests(
                    sides,
                    new HttpServerOptions(),
                    new HttpClientOptions(),
                    HttpVersion.HTTP_1_1,
                    folder);
        }
    }

    /** Small bodies that come back, a large one, and a file. */
    private static void requests(
            NettySides sides,
            HttpServerOptions ofServer,
            HttpClientOptions ofClient,
            HttpVersion version,
            Path folder)
            throws Exception {
        String host = sides.address.getAddress().getHostAddress();
        Buffer large = random(3_000_001);
        Path file = Files.write(folder.resolve("file"), large.getBytes());
        Vertx there = over(sides.ofServers, host).build();
        Vertx here = over(sides.ofClients, host).build();
        HttpServer server =
                get(
                        there.createHttpServer(ofServer)
                                .requestHandler(
                                        request -> {
                                            if (request.method() == HttpMethod.GET) {
                                                var _ =
                                                        request.response()
                                                                .sendFile(file.toString());
                                            } else {
                                                request.body().onSuccess(request.response()::end);
                                            }
                                        })
                                .listen(0, host));
        HttpClient client = here.createHttpClient(ofClient.setProtocolVersion(version));
        List<Future<Buffer>> answers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            answers.add(
                    body(
                            client,
                            HttpMethod.POST,
                            server.actualPort(),
                            host,
                            random(i * 11),
                            version));
        }
        for (int i = 0; i < 100; i++) {
            assertThat(get(answers.get(i))).isEqualTo(random(i * 11));
        }
        int port = server.actualPort();
        assertThat(get(body(client, HttpMethod.POST, port, host, large, version)).equals(large))
                .isTrue();
        assertThat(
                        get(body(client, HttpMethod.GET, port, host, Buffer.buffer(), version))
                                .equals(large))
                .isTrue();
        get(here.close());
        get(there.close());
    }

    private static Future<Buffer> body(
            HttpClient client,
            HttpMethod method,
            int port,
            String host,
            Buffer body,
            HttpVersion version) {
        return client.request(method, port, host, "/")
                .compose(request -> request.send(body))
                .expecting(response -> response.version() == version)
                .compose(HttpClientResponse::body);
    }

    @Test
    void theEventBusOfTwoNodes() throws Exception {
        OneProcessCluster cluster = new OneProcessCluster();
        try (NettySides sides = new NettySides(1)) {
            String host = sides.address.getAddress().getHostAddress();
            String other = sides.clientAddress.getAddress().getHostAddress();
            Vertx there =
                    get(
                            over(sides.ofServers, host)
                                    .withClusterManager(cluster.member("there"))
                                    .buildClustered());
            Vertx here =
                    get(
                            over(sides.ofClients, other)
                                    .withClusterManager(cluster.member("here"))
                                    .buildClustered());
            get(
                    there.eventBus()
                            .<Buffer>consumer("echo", message -> message.reply(message.body()))
                            .completion());
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            for (Vertx node : List.of(there, here)) {
                get(
                        node.eventBus()
                                .<String>consumer("news", m -> heard.add(m.body()))
                                .completion());
            }
            List<Future<Buffer>> answers = new ArrayList<>();
            DeliveryOptions options = new DeliveryOptions().setSendTimeout(TIMEOUT * 1000L);
            for (int i = 0; i < 300; i++) {
                answers.add(
                        here.eventBus()
                                .<Buffer>request("echo", random(i * 7), options)
                                .map(answer -> answer.body()));
            }
            for (int i = 0; i < 300; i++) {
                assertThat(get(answers.get(i))).isEqualTo(random(i * 7));
            }
            Buffer large = random(1_000_001);
            Buffer back = get(here.eventBus().<Buffer>request("echo", large, options)).body();
            assertThat(back.equals(large)).isTrue();
            here.eventBus().publish("news", "hello");
            assertThat(heard.poll(TIMEOUT, TimeUnit.SECONDS)).isEqualTo("hello");
            assertThat(heard.poll(TIMEOUT, TimeUnit.SECONDS)).isEqualTo("hello");
            get(there.close());
            assertThatThrownBy(() -> get(here.eventBus().request("echo", large, options)))
                    .isInstanceOf(ReplyException.class)
                    .hasMessageContaining("No handlers for address echo");
            get(here.close());
        }
    }
}
