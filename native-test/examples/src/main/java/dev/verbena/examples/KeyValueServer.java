package dev.verbena.examples;

import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.RemoteMemory;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.PeerMemory;
import dev.verbena.messaging.Poller;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Holds values by keys. A {@link KeyValueClient} exposes memory and sends its address with the key;
 * the value is written there, and the answer takes the memory back.
 */
public final class KeyValueServer implements AutoCloseable {
    private record Value(MemoryRegion region, int length) { // a region has a byte at least
        BufferList bytes() {
            return new BufferList(1).add(region, 0, length);
        }
    }

    private final Map<String, Value> values = new HashMap<>();
    private final MessageServer server;

    /**
     * Listens for clients.
     *
     * @param poller polls for them
     * @param address an address of the device; port 0 lets the kernel choose
     * @param contents values by keys
     */
    public KeyValueServer(Poller poller, InetSocketAddress address, Map<String, byte[]> contents) {
        contents.forEach(
                (key, bytes) -> {
                    MemoryRegion region = poller.domain().allocate(Math.max(1, bytes.length));
                    region.memory().copyFrom(MemorySegment.ofArray(bytes));
                    values.put(key, new Value(region, bytes.length));
                });
        this.server =
                MessageServer.listen(
                        poller,
                        address,
                        MessagingOptions.DEFAULTS,
                        100, // clients at most
                        this::answer,
                        channel -> {});
    }

    /**
     * Serves the variables of its environment.
     *
     * @param arguments an address of the device, and a port
     * @throws InterruptedException when it is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress address =
                new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
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

    /** On the polling thread. */
    private void answer(MessageChannel channel, Message message) {
        MemorySegment request = message.data(); // too short a one closes the channel
        byte[] name = request.asSlice(RemoteMemory.MESSAGE_BYTES).toArray(ValueLayout.JAVA_BYTE);
        Value value = values.get(new String(name, StandardCharsets.UTF_8));
        // @start region="answer"
        RemoteMemory target = RemoteMemory.readFrom(request, 0);
        PeerMemory client = channel.peerMemory();
        long length = value == null ? -1 : value.length();
        MemorySegment answer = MemorySegment.ofArray(new long[] {length});
        CompletableFuture<Void> sent =
                length > 0 && length <= target.bytes()
                        ? client.writeAndInvalidateAsync(value.bytes(), target, answer)
                        : client.sendAndInvalidateAsync(answer, target); // nothing to write
        // @end
        var _ =
                sent.exceptionally(
                        thrown -> { // the client has given up, or is gone
                            System.out.println("Not answered: " + thrown.getMessage());
                            return null;
                        });
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
        server.close(); // the regions after the writes from them
        values.values().forEach(value -> value.region().close());
    }
}
