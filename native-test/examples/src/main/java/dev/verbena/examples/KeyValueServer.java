package dev.verbena.examples;

import dev.verbena.Adapter;
import dev.verbena.messaging.Call;
import dev.verbena.messaging.Calls;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.NoSuchElementException;

/** Holds values by keys, for {@link KeyValueClient}s. */
public final class KeyValueServer implements AutoCloseable {
    private final Map<String, byte[]> values;
    private final MessageServer server;

    /**
     * Listens for clients.
     *
     * @param poller polls for them
     * @param address an address of the device; port 0 lets the kernel choose
     * @param contents values by keys
     */
    public KeyValueServer(Poller poller, InetSocketAddress address, Map<String, byte[]> contents) {
        this.values = Map.copyOf(contents);
        this.server =
                MessageServer.listen(
                        poller,
                        address,
                        KeyValueClient.OPTIONS,
                        100, // clients at most
                        Calls.answeredBy(this::answer),
                        channel -> {});
    }

    /**
     * Serves the variables of its environment.
     *
     * @param arguments an address of the device, and a port
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        var address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        Map<String, byte[]> contents = new HashMap<>();
        System.getenv()
                .forEach((key, text) -> contents.put(key, text.getBytes(StandardCharsets.UTF_8)));
        try (Adapter adapter = Adapter.forAddress(address.getAddress());
                Poller poller = Poller.start(adapter, IdleStrategy.events());
                KeyValueServer server = new KeyValueServer(poller, address, contents)) {
            System.out.println("Listening on " + server.localAddress());
            Thread.currentThread().join();
        }
    }

    /**
     * Where it listens.
     *
     * @return the address, with the actual port
     */
    public InetSocketAddress localAddress() {
        return server.localAddress();
    }

    @Override
    public void close() {
        server.close();
    }

    // @start region="answer"
    private void answer(Call call) { // on the polling thread
        String key = new String(call.data().toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
        byte[] value = values.get(key);
        if (value == null) {
            throw new NoSuchElementException("No value for " + key); // the client gets this text
        }
        call.answer(MemorySegment.ofArray(value)); // or later, from another thread
    }
    // @end
}
