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
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Takes one message from each of two peers, which share one receive queue; {@link Hello} sends
 * them.
 */
public final class TwoPeers {
    private static final int PEERS = 2;
    private static final long BYTES = 4096; // of each message
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private TwoPeers() {}

    /**
     * Prints what two peers send.
     *
     * @param arguments the device, and an address and a port to listen on
     * @throws InterruptedException when it is interrupted before both have come
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress address =
                new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (Adapter adapter = Adapter.open(arguments[0]);
                Listener listener = adapter.listen(address, 0, requests::add)) {
            System.out.println("Listening on " + listener.localAddress());
            receive(adapter, requests).forEach(System.out::println);
        }
    }

    /**
     * Receives a message from each of two peers.
     *
     * @param adapter the device
     * @param requests of the peers; the first two are accepted and, at the end, closed
     * @return the texts, in the order in which they came
     * @throws InterruptedException when it is interrupted before both have come
     */
    public static List<String> receive(Adapter adapter, BlockingQueue<Connector> requests)
            throws InterruptedException {
        List<String> texts = new ArrayList<>();
        try (Connector first = requests.take();
                Connector second = requests.take();
                ProtectionDomain domain = adapter.createProtectionDomain();
                MemoryRegion region = domain.allocate(PEERS * BYTES, Access.LOCAL_WRITE);
                CompletionQueue queue = adapter.createConfinedCompletionQueue(2 * PEERS);
                SharedReceiveQueue receives =
                        domain.createSharedReceiveQueue(PEERS, 1, TwoPeers::report)) {
            // @start region="receives"
            for (int i = 0; i < PEERS; i++) { // any of the peers takes the next one
                receives.receive(i, new BufferList(1).add(region, i * BYTES, BYTES)).orThrow();
            }
            QueuePairLimits limits = QueuePairLimits.depths(1, 1);
            try (QueuePair one = domain.createQueuePair(queue, queue, receives, limits);
                    QueuePair other = domain.createQueuePair(queue, queue, receives, limits)) {
                first.accept(one);
                second.accept(other);
                for (int i = 0; i < PEERS; i++) {
                    long slot = awaitOne(queue).context(0);
                    texts.add(region.memory().getString(slot * BYTES));
                }
            }
            // @end
        }
        return texts;
    }

    /** Called when the shared receive queue has failed: what waits for it ends by its deadline. */
    private static void report(Status status) {
        System.err.println("The shared receive queue: " + status);
    }

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
