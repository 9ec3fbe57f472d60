package dev.verbena.examples;

import dev.verbena.Adapter;
import dev.verbena.messaging.Calls;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageClient;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.ReconnectOptions;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Asks a {@link KeyValueServer} for values. Connects again when the connection has ended. */
public final class KeyValueClient implements AutoCloseable {
    static final MessagingOptions OPTIONS = MessagingOptions.DEFAULTS.withMaxMessage(1 << 20);
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final InetSocketAddress server;
    private final MessageClient client;

    /**
     * Begins to connect to a server.
     *
     * @param poller polls for it
     * @param server where the server listens
     */
    public KeyValueClient(Poller poller, InetSocketAddress server) {
        this.server = server;
        this.client =
                MessageClient.start(
                        poller,
                        server,
                        OPTIONS,
                        ReconnectOptions.DEFAULTS,
                        Calls.outgoing(),
                        channel -> {});
    }

    /**
     * Prints the values of keys.
     *
     * @param arguments the server's address and port, and the keys
     */
    public static void main(String[] arguments) {
        var server = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        try (Adapter adapter = Adapter.forPeer(server.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                KeyValueClient client = new KeyValueClient(poller, server)) {
            for (int i = 2; i < arguments.length; i++) {
                byte[] value = client.get(arguments[i]).join();
                System.out.println(new String(value, StandardCharsets.UTF_8));
            }
        }
    }

    /**
     * Gets a value.
     *
     * @param key its key
     * @return a future of the value, which fails if there is none, or no server in time
     */
    public CompletableFuture<byte[]> get(String key) {
        return ask(key).exceptionallyCompose(
                        failure ->
                                CompletableFuture.failedFuture(
                                        failure.getCause() instanceof TimeoutException
                                                ? notConnected(key)
                                                : failure));
    }

    private TimeoutException notConnected(String key) {
        return new TimeoutException(
                "The value of \"%s\" could not be asked for: no connection to %s within %d s"
                        .formatted(key, server, TIMEOUT.toSeconds()));
    }

    private CompletableFuture<byte[]> ask(String key) {
        // @start region="get"
        MemorySegment request = MemorySegment.ofArray(key.getBytes(StandardCharsets.UTF_8));
        return client.channel() // the one that is connected, or the next one
                .orTimeout(TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                .thenCompose(
                        channel ->
                                Calls.call(
                                        channel,
                                        request,
                                        TIMEOUT,
                                        answer -> answer.data().toArray(ValueLayout.JAVA_BYTE)));
        // @end
    }

    @Override
    public void close() {
        client.close();
    }
}
