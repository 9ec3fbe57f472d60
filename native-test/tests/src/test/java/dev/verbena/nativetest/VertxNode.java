package dev.verbena.nativetest;

import dev.verbena.examples.services.VertxTransport;
import dev.verbena.netty.RdmaIoHandler;

import io.netty.channel.IoHandlerFactory;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxBuilder;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.DeliveryOptions;
import io.vertx.core.eventbus.EventBusOptions;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpVersion;
import io.vertx.core.json.JsonObject;
import io.vertx.core.spi.cluster.NodeInfo;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A node of Vert.x, which is unchanged, over RDMA: HTTP, and the event bus of two nodes. */
public final class VertxNode {
    /** Where {@link #main}'s server listens to HTTP/2. */
    public static final int HTTP_PORT = 7474;

    /** Where both nodes of {@link #main} listen to each other. */
    public static final int BUS_PORT = 7475;

    static final int TIMEOUT = 60; // seconds; an emulated processor is slow
    private static final DeliveryOptions PATIENT =
            new DeliveryOptions().setSendTimeout(TIMEOUT * 1000L);
    private static final Buffer LARGE = random(3_000_001);

    static {
        System.setProperty("vertx.disableDnsResolver", "true"); // names are resolved by the JDK
    }

    private VertxNode() {}

    /**
     * Runs one of two nodes: a server until it is stopped, or the client, which asks it.
     *
     * @param words {@code server} or {@code client}, the node's device and address, and the other's
     *     address
     */
    public static void main(String[] words) throws Exception {
        KnownCluster cluster = new KnownCluster();
        NodeInfo other = new NodeInfo(words[3], BUS_PORT, new JsonObject());
        VertxBuilder builder =
                over(RdmaIoHandler.newFactory(words[1]), words[2], BUS_PORT)
                        .withClusterManager(cluster.member(words[0]));
        if (words[0].equals("server")) {
            cluster.declare("client", other);
            Vertx node = get(builder.buildClustered());
            answer(node, news -> System.out.println("News: " + news));
            HttpServer server = serve(node, new HttpServerOptions(), words[2], HTTP_PORT);
            System.out.println("Listening on port " + server.actualPort());
            return; // it runs on threads of its own
        }
        cluster.declare("server", other, "echo", "news");
        Vertx node = get(builder.buildClustered());
        try {
            HttpClientOptions options = new HttpClientOptions().setHttp2ClearTextUpgrade(false);
            request(node, options, HttpVersion.HTTP_2, words[3], HTTP_PORT);
            System.out.println("All answers over HTTP/2 were right");
            node.eventBus().publish("news", "hello");
            ask(node); // over the same connection, so the news has arrived
            System.out.println("All answers over the event bus were right");
        } finally {
            get(node.close());
        }
    }

    /** A builder of a node that listens to others at a port of an address. */
    static VertxBuilder over(IoHandlerFactory device, String address, int port) {
        return Vertx.builder()
                .with(
                        new VertxOptions()
                                .setEventLoopPoolSize(2)
                                .setEventBusOptions(
                                        new EventBusOptions().setHost(address).setPort(port)))
                .withTransport(new VertxTransport(device));
    }

    static <T> T get(Future<T> future) throws Exception {
        return future.await(TIMEOUT, TimeUnit.SECONDS);
    }

    /** Serves HTTP: sends bodies back, and a file for each GET. */
    static HttpServer serve(Vertx node, HttpServerOptions options, String host, int port)
            throws Exception {
        Path file = Files.write(Files.createTempFile("vertx", ".file"), LARGE.getBytes());
        file.toFile().deleteOnExit();
        return get(
                node.createHttpServer(options)
                        .requestHandler(
                                request -> {
                                    if (request.method() == HttpMethod.GET) {
                                        var _ = request.response().sendFile(file.toString());
                                    } else {
                                        request.body().onSuccess(request.response()::end);
                                    }
                                })
                        .listen(port, host));
    }

    /** Asks what {@link #serve} serves: small bodies that come back, a large one, and the file. */
    static void request(
            Vertx node, HttpClientOptions options, HttpVersion version, String host, int port)
            throws Exception {
        HttpClient client = node.createHttpClient(options.setProtocolVersion(version));
        List<Future<Buffer>> answers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            answers.add(body(client, HttpMethod.POST, port, host, random(i * 11), version));
        }
        for (int i = 0; i < 100; i++) {
            expect(random(i * 11), get(answers.get(i)));
        }
        expect(LARGE, get(body(client, HttpMethod.POST, port, host, LARGE, version)));
        expect(LARGE, get(body(client, HttpMethod.GET, port, host, Buffer.buffer(), version)));
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

    /** Listens on the event bus: what is sent to "echo" comes back, "news" are passed on. */
    static void answer(Vertx node, Consumer<String> news) throws Exception {
        get(
                node.eventBus()
                        .<Buffer>consumer("echo", message -> message.reply(message.body()))
                        .completion());
        get(
                node.eventBus()
                        .<String>consumer("news", message -> news.accept(message.body()))
                        .completion());
    }

    /** Sends small messages and a large one to "echo". */
    static void ask(Vertx node) throws Exception {
        List<Future<Buffer>> answers = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            answers.add(echo(node, random(i * 7)));
        }
        for (int i = 0; i < 300; i++) {
            expect(random(i * 7), get(answers.get(i)));
        }
        expect(LARGE, get(echo(node, LARGE)));
    }

    static Future<Buffer> echo(Vertx node, Buffer sent) {
        return node.eventBus().<Buffer>request("echo", sent, PATIENT).map(answer -> answer.body());
    }

    private static void expect(Buffer sent, Buffer answer) {
        if (!answer.equals(sent)) {
            throw new AssertionError(
                    "Sent %,d bytes, and got %,d others back"
                            .formatted(sent.length(), answer.length()));
        }
    }

    private static Buffer random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return Buffer.buffer(bytes);
    }
}
