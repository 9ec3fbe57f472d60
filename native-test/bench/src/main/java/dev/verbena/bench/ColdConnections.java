package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.WarmUp;

import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * How long the first connections of a JVM take, and their first messages: a device is connected to
 * itself several times, one after the other. The first shows what a JVM has still to do, the others
 * what is left of that once it was done: what warming up can save.
 */
public final class ColdConnections {
    private static final int BYTES = 64;
    private static final int ROUNDS = 4;
    private static final int MESSAGES = 100;

    private ColdConnections() {}

    /**
     * Measures.
     *
     * @param arguments an address of a device; "warm" behind it to begin with {@link WarmUp}
     * @throws Exception when something fails
     */
    public static void main(String[] arguments) throws Exception {
        InetAddress address = InetAddress.getByName(arguments[0]);
        long start = System.nanoTime();
        try (Arena arena = Arena.ofShared();
                Adapter adapter = Adapter.forAddress(address);
                ProtectionDomain domain = adapter.createProtectionDomain();
                MemoryRegion region = domain.register(arena.allocate(BYTES), Access.LOCAL_WRITE);
                CompletionQueue queue = adapter.createCompletionQueue(64)) {
            if (arguments.length > 1) {
                boolean worked = WarmUp.run(adapter, Duration.ofSeconds(5));
                print(worked ? "warm-up" : "warm-up-failed", 0, System.nanoTime() - start);
                start = System.nanoTime();
            }
            BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
            try (Listener listener =
                    adapter.listen(new InetSocketAddress(address, 0), 0, requests::add)) {
                print("listening", 0, System.nanoTime() - start);
                for (int i = 1; i <= ROUNDS; i++) {
                    round(i, listener, requests, adapter, domain, queue, region);
                }
            }
        }
    }

    private static void round(
            int number,
            Listener listener,
            BlockingQueue<Connector> requests,
            Adapter adapter,
            ProtectionDomain domain,
            CompletionQueue queue,
            MemoryRegion region)
            throws Exception {
        QueuePairLimits limits = QueuePairLimits.depths(16, 16);
        BufferList buffers = new BufferList(1).add(region, 0, BYTES);
        Completions completions = new Completions(4);
        long start = System.nanoTime();
        try (QueuePair here = domain.createQueuePair(queue, queue, limits);
                QueuePair there = domain.createQueuePair(queue, queue, limits);
                Connector connector = adapter.createConnector()) {
            long made = System.nanoTime();
            Thread accepting =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            requests.take().accept(there);
                                        } catch (InterruptedException e) {
                                            throw new IllegalStateException(e);
                                        }
                                    });
            InetSocketAddress address = listener.localAddress();
            connector.connect(
                    here,
                    address,
                    ConnectionOptions.DEFAULTS.withLocalAddress(
                            new InetSocketAddress(address.getAddress(), 0)));
            connector.completeConnect();
            accepting.join();
            long connected = System.nanoTime();
            message(here, there, queue, buffers, completions);
            long first = System.nanoTime();
            for (int i = 0; i < MESSAGES; i++) {
                message(here, there, queue, buffers, completions);
            }
            long messages = System.nanoTime();
            print("queue-pairs", number, made - start);
            print("connect", number, connected - made);
            print("message", number, first - connected);
            print(MESSAGES + "-messages", number, messages - first);
        }
    }

    private static void message(
            QueuePair here,
            QueuePair there,
            CompletionQueue queue,
            BufferList buffers,
            Completions completions) {
        succeed(there.receive(1, buffers).status());
        succeed(here.send(2, buffers, OpFlags.NONE).status());
        for (int left = 2; left > 0; ) {
            int count = queue.poll(completions);
            for (int i = 0; i < count; i++) {
                succeed(completions.status(i));
            }
            left -= count;
        }
    }

    private static void print(String what, int round, long nanos) {
        Results.print("cold-" + what, Integer.toString(round), nanos / 1e6, "ms");
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
