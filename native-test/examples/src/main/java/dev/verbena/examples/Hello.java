package dev.verbena.examples;

// @start region="imports"
import dev.verbena.*;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.*;

// @end

/**
 * Sends one message from one process to another over a queue pair. {@code DEVICE ADDRESS PORT}
 * receives it, {@code DEVICE ADDRESS PORT TEXT} sends it. Both take the receiver's address and
 * port.
 */
public final class Hello {
    private Hello() {}

    /**
     * Runs one side.
     *
     * @param args the device, the receiver's address and port, and at the sender the text
     * @throws InterruptedException if the receiver is interrupted before a sender connects
     */
    // @start region="program"
    public static void main(String[] args) throws InterruptedException {
        InetSocketAddress receiver = new InetSocketAddress(args[1], Integer.parseInt(args[2]));
        // @start region="objects"
        QueuePairLimits limits = QueuePairLimits.depths(1, 1); // outstanding sends, receives
        try (Adapter adapter = Adapter.open(args[0]); // all are closed at the end, in reverse order
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(2);
                QueuePair pair = domain.createQueuePair(queue, queue, limits);
                MemoryRegion region = domain.allocate(4096, Access.LOCAL_WRITE)) {
            BufferList buffers = BufferList.of(region);
            // @end
            if (args.length > 3) {
                region.memory().setString(0, args[3]);
                // @start region="connect"
                try (Connector connector = adapter.createConnector()) {
                    connector.connect(pair, receiver); // returns when the receiver has accepted
                    connector.completeConnect();
                    pair.send(1, buffers).orThrow();
                    awaitOne(queue); // the receiver has the message
                }
                // @end
            } else {
                // @start region="listen"
                pair.receive(1, buffers).orThrow(); // before a message can come
                BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
                try (Listener listener = adapter.listen(receiver, 0, requests::add)) {
                    System.out.println("Listening on " + listener.localAddress());
                    try (Connector connector = requests.take()) {
                        connector.accept(pair); // returns when the connection is complete
                        awaitOne(queue);
                        System.out.println(region.memory().getString(0));
                    }
                }
                // @end
            }
        }
    }

    // @start region="await"
    static void awaitOne(CompletionQueue queue) {
        Completions completions = new Completions(1);
        while (queue.poll(completions) == 0) {
            queue.arm(NotifyType.ANY);
            queue.await(Duration.ofSeconds(30)).orThrow(); // blocks until a completion arrives
        }
        completions.orThrow(0); // throws if the request failed
    }
    // @end
    // @end
}
