package dev.verbena.nativetest;

import static dev.verbena.nativetest.VertxNode.get;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.netty.channel.IoHandlerFactory;
import io.netty.pkitesting.X509Bundle;
import io.vertx.core.Vertx;
import io.vertx.core.VertxBuilder;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.ReplyException;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.net.InetSocketAddress;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Unchanged Vert.x: HTTP, and the event bus of two nodes. */
@Timeout(180)
class VertxTest {
    private static VertxBuilder over(IoHandlerFactory device, InetSocketAddress anyPort) {
        return VertxNode.over(device, anyPort.getAddress().getHostAddress(), 0);
    }

    @Test
    void http2InTheClear() throws Exception {
        try (NettySides sides = new NettySides(1)) {
            requests(
                    sides,
                    new HttpServerOptions(),
                    new HttpClientOptions().setHttp2ClearTextUpgrade(false),
                    HttpVersion.HTTP_2);
        }
    }

    @Test
    void http2OverTls() throws Exception {
        try (NettySides sides = new NettySides(1)) {
            X509Bundle certificate = sides.certificate();
            String chain = certificate.toTempCertChainPem().getPath();
            requests(
                    sides,
                    new HttpServerOptions()
                            .setSsl(true)
                            .setSslHandshakeTimeout(VertxNode.TIMEOUT)
                            .setUseAlpn(true)
                            .setKeyCertOptions(
                                    new PemKeyCertOptions()
                                            .setCertPath(chain)
                                            .setKeyPath(
                                                    certificate.toTempPrivateKeyPem().getPath())),
                    new HttpClientOptions()
                            .setSsl(true)
                            .setSslHandshakeTimeout(VertxNode.TIMEOUT)
                            .setUseAlpn(true)
                            .setTrustOptions(new PemTrustOptions().addCertPath(chain)),
                    HttpVersion.HTTP_2);
        }
    }

    /** Which sends files by {@code FileRegion}s. */
    @Test
    void http1() throws Exception {
        try (NettySides sides = new NettySides(1)) {
            requests(sides, new HttpServerOptions(), new HttpClientOptions(), HttpVersion.HTTP_1_1);
        }
    }

    private static void requests(
            NettySides sides,
            HttpServerOptions ofServer,
            HttpClientOptions ofClient,
            HttpVersion version)
            throws Exception {
        String host = sides.address.getAddress().getHostAddress();
        Vertx there = over(sides.ofServers, sides.address).build();
        Vertx here = over(sides.ofClients, sides.clientAddress).build();
        HttpServer server = VertxNode.serve(there, ofServer, host, 0);
        VertxNode.request(here, ofClient, version, host, server.actualPort());
        get(here.close());
        get(there.close());
    }

    @Test
    void theEventBusOfTwoNodes() throws Exception {
        KnownCluster cluster = new KnownCluster();
        try (NettySides sides = new NettySides(1)) {
            Vertx there =
                    get(
                            over(sides.ofServers, sides.address)
                                    .withClusterManager(cluster.member("there"))
                                    .buildClustered());
            Vertx here =
                    get(
                            over(sides.ofClients, sides.clientAddress)
                                    .withClusterManager(cluster.member("here"))
                                    .buildClustered());
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            VertxNode.answer(there, heard::add);
            get(
                    here.eventBus()
                            .<String>consumer("news", message -> heard.add(message.body()))
                            .completion());
            VertxNode.ask(here);
            here.eventBus().publish("news", "hello");
            assertThat(heard.poll(VertxNode.TIMEOUT, TimeUnit.SECONDS)).isEqualTo("hello");
            assertThat(heard.poll(VertxNode.TIMEOUT, TimeUnit.SECONDS)).isEqualTo("hello");
            get(there.close());
            assertThatThrownBy(() -> get(VertxNode.echo(here, Buffer.buffer())))
                    .isInstanceOf(ReplyException.class)
                    .hasMessageContaining("No handlers for address echo");
            get(here.close());
        }
    }
}
