package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import static java.nio.charset.StandardCharsets.US_ASCII;

import dev.verbena.examples.services.ReactorLoops;

import io.netty.buffer.Unpooled;
import io.netty.pkitesting.X509Bundle;
import io.netty.resolver.DefaultAddressResolverGroup;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.ByteBufFlux;
import reactor.netty.ByteBufMono;
import reactor.netty.DisposableServer;
import reactor.netty.http.Http2SslContextSpec;
import reactor.netty.http.HttpProtocol;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;
import reactor.netty.tcp.SslProvider.GenericSslContextSpec;

import java.net.ConnectException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;

/** Unchanged Reactor Netty, which Spring WebFlux runs on. */
@Timeout(180)
class ReactorTest {
    private static final Duration LONG = Duration.ofSeconds(60); // an emulated processor is slow
    private static final int REQUESTS = 100;
    private static final byte[] LARGE = new byte[3_000_001];

    static {
        new Random(1).nextBytes(LARGE);
    }

    private final NettySides sides = new NettySides(1);
    private final ReactorLoops servers = new ReactorLoops(sides.ofServers, 1);
    private final ReactorLoops clients = new ReactorLoops(sides.ofClients, 1);
    private final ConnectionProvider pool = ConnectionProvider.create("test", 20);

    @AfterEach
    void close() {
        pool.disposeLater().block(LONG);
        clients.disposeLater(Duration.ZERO, LONG).block(LONG);
        servers.disposeLater(Duration.ZERO, LONG).block(LONG);
        sides.close();
    }

    private DisposableServer serve(HttpServer server) throws Exception {
        Path file = Files.write(Files.createTempFile("reactor", ".file"), LARGE);
        file.toFile().deleteOnExit();
        return server.runOn(servers)
                .bindAddress(() -> sides.address)
                .route(
                        routes ->
                                routes.post(
                                                "/echo",
                                                (request, response) ->
                                                        response.send(request.receive().retain()))
                                        .get(
                                                "/file",
                                                (request, response) -> response.sendFile(file))
                                        .ws("/ws", (in, out) -> out.send(in.receive().retain())))
                .bindNow(LONG);
    }

    private HttpClient to(DisposableServer server, HttpClient client) {
        return client.runOn(clients)
                .resolver(DefaultAddressResolverGroup.INSTANCE)
                .remoteAddress(server::address);
    }

    private static Mono<byte[]> echo(HttpClient client, byte[] body, int pieces) {
        int piece = (body.length + pieces - 1) / pieces;
        return client.post()
                .uri("/echo")
                .send(
                        ByteBufFlux.fromInbound(
                                Flux.range(0, pieces)
                                        .map(
                                                i ->
                                                        Unpooled.wrappedBuffer(
                                                                body,
                                                                i * piece,
                                                                Math.min(
                                                                        piece,
                                                                        body.length - i * piece)))))
                .responseContent()
                .aggregate()
                .asByteArray();
    }

    private static void requests(HttpClient client) {
        byte[] small = "hello".getBytes(US_ASCII);
        assertThat(
                        Flux.range(0, REQUESTS)
                                .flatMap(i -> echo(client, small, 1), 20)
                                .filter(body -> Arrays.equals(small, body))
                                .count()
                                .block(LONG))
                .isEqualTo(REQUESTS);
        assertThat(echo(client, LARGE, 30).block(LONG)).isEqualTo(LARGE);
        ByteBufMono file = client.get().uri("/file").responseContent().aggregate();
        assertThat(file.asByteArray().block(LONG)).isEqualTo(LARGE);
    }

    /** Which sends files by {@code FileRegion}s. */
    @Test
    void http1() throws Exception {
        requests(to(serve(HttpServer.create()), HttpClient.create(pool)));
    }

    @Test
    void http2OverTls() throws Exception {
        X509Bundle certificate = sides.certificate();
        GenericSslContextSpec<?> ofServer =
                Http2SslContextSpec.forServer(
                        certificate.getKeyPair().getPrivate(), certificate.getCertificatePath());
        GenericSslContextSpec<?> ofClient =
                Http2SslContextSpec.forClient()
                        .configure(tls -> tls.trustManager(certificate.getCertificatePath()));
        HttpServer server =
                HttpServer.create()
                        .protocol(HttpProtocol.H2)
                        .secure(tls -> tls.sslContext(ofServer).handshakeTimeout(LONG));
        HttpClient client =
                HttpClient.create(pool)
                        .protocol(HttpProtocol.H2)
                        .secure(tls -> tls.sslContext(ofClient).handshakeTimeout(LONG));
        requests(to(serve(server), client));
    }

    @Test
    void aWebSocket() throws Exception {
        HttpClient client = to(serve(HttpServer.create()), HttpClient.create(pool));
        assertThat(
                        client.websocket()
                                .uri("/ws")
                                .handle(
                                        (in, out) ->
                                                out.sendString(
                                                                Flux.range(0, REQUESTS)
                                                                        .map(i -> "word " + i))
                                                        .then()
                                                        .thenMany(in.receive().asString())
                                                        .take(REQUESTS))
                                .collectList()
                                .block(LONG))
                .hasSize(REQUESTS)
                .startsWith("word 0")
                .endsWith("word " + (REQUESTS - 1));
    }

    @Test
    void aServerThatIsGoneRefuses() throws Exception {
        DisposableServer server = serve(HttpServer.create());
        HttpClient client = to(server, HttpClient.create(pool));
        server.disposeNow(LONG);
        assertThatThrownBy(() -> client.get().uri("/file").response().block(LONG))
                .hasCauseInstanceOf(ConnectException.class)
                .hasMessageContaining("nobody listens");
    }
}
