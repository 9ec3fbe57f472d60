package dev.verbena.examples;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** The smallest service: the client sends one message, and the server sends it back. */
public final class Echo {
    private static final int BYTES = 4096; // at most, in each message
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private Echo() {}

    /**
     * Runs one side.
     *
     * @param arguments {@code server DEVICE ADDRESS PORT} or {@code client DEVICE ADDRESS PORT
     *     TEXT}, where the address is the server's
     * @throws InterruptedException never: a server runs until its process is ended
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress server =
                new InetSocketAddress(arguments[2], Integer.parseInt(arguments[3]));
        try (Adapter adapter = Adapter.open(arguments[1])) {
            if (arguments[0].equals("client")) {
                System.out.println(ask(adapter, server, arguments[4]));
                return;
            }
            try (Listener listener = serve(adapter, server)) {
                System.out.println("Listening on " + listener.localAddress());
                Thread.currentThread().join();
            }
        }
    }

    /**
     * Serves clients, each on a thread of the listener's, until the listener is closed.
     *
     * @param adapter the device
     * @param address an address of the device; port 0 lets the kernel choose
     * @return the listener, to be closed by the caller
     */
    public static Listener serve(Adapter adapter, InetSocketAddress address) {
        return adapter.listen(address, 0, request -> answer(adapter, request));
    }

    private static void answer(Adapter adapter, Connector request) {
        try (request; // closing it ends the connection, or refuses a request that was not accepted
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(2);
                QueuePair queuePair =
                        domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
                MemoryRegion region = domain.allocate(BYTES, Access.LOCAL_WRITE)) {
            queuePair.receive(1, BufferList.of(region)).orThrow();
            request.accept(queuePair); // the receive is posted already: the peer may send at once
            long received = awaitOne(queue).bytes(0);
            queuePair.send(2, new BufferList(1).add(region, 0, received)).orThrow();
            awaitOne(queue); // the peer has it: only now may the connection end
        }
    }

    /**
     * Sends a text and waits for it to come back.
     *
     * @param adapter the device
     * @param server where the server listens
     * @param text of at most 4,096 bytes
     * @return what came back
     */
    public static String ask(Adapter adapter, InetSocketAddress server, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(2);
                QueuePair queuePair =
                        domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
                MemoryRegion out = domain.allocate(BYTES);
                MemoryRegion in = domain.allocate(BYTES, Access.LOCAL_WRITE);
                Connector connector = adapter.createConnector()) {
            queuePair.receive(1, BufferList.of(in)).orThrow();
            connector.connect(queuePair, server);
            connector.completeConnect();
            out.memory().asByteBuffer().put(bytes);
            queuePair.send(2, new BufferList(1).add(out, 0, bytes.length)).orThrow();
            // The send completes and the answer arrives, in either order.
            long received = awaitOne(queue).bytes(0) + awaitOne(queue).bytes(0);
            ByteBuffer answer = in.memory().asSlice(0, received).asByteBuffer();
            return StandardCharsets.UTF_8.decode(answer).toString();
        }
    }

    /** Sleeps until there is a completion; throws if that reports a failure. */
    private static Completions awaitOne(CompletionQueue queue) {
        Completions completions = new Completions(1);
        while (queue.poll(completions) == 0) {
            queue.arm(NotifyType.ANY);
            queue.await(TIMEOUT).orThrow();
        }
        completions.orThrow(0);
        return completions;
    }
}
