package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.CompletionQueue;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import java.net.InetSocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Connecting and disconnecting, one connection after the other, each with a queue pair of its own,
 * as {@code c/connect.c} does it. The client prints the median of each round: until the connection
 * stands, from disconnecting until all is closed, and both.
 */
public final class Connecting {
    private static final long DEADLINE_SECONDS = 60;

    private final ProtectionDomain domain;
    private final CompletionQueue queue;

    private Connecting(ProtectionDomain domain, CompletionQueue queue) {
        this.domain = domain;
        this.queue = queue;
    }

    /**
     * Serves or measures.
     *
     * @param arguments "server" or "client" and the server's address, then options
     * @throws InterruptedException when interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        Options options = Options.ofPair("Connecting", arguments);
        int count = options.number("--count", 50);
        int warmup = options.number("--warmup", 1000);
        int rounds = options.number("--rounds", 5);
        try (Adapter adapter =
                        Options.adapterOf(
                                options.server()
                                        ? options.address().getAddress()
                                        : options.from());
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = queue(adapter, options.server())) {
            Connecting program = new Connecting(domain, queue);
            if (options.server()) {
                program.serve(adapter, options.address(), warmup + rounds * count);
            } else {
                ConnectionOptions how =
                        ConnectionOptions.DEFAULTS.withLocalAddress(
                                new InetSocketAddress(options.from(), 0));
                program.measure(adapter, options.address(), how, warmup, false);
                for (int i = 0; i < rounds; i++) {
                    program.measure(adapter, options.address(), how, count, true);
                }
            }
        }
    }

    /** The server's is used by the listener's threads. */
    private static CompletionQueue queue(Adapter adapter, boolean ofServer) {
        return ofServer
                ? adapter.createCompletionQueue(64)
                : adapter.createConfinedCompletionQueue(64);
    }

    private QueuePair makeQueuePair() {
        return domain.createQueuePair(queue, queue, QueuePairLimits.depths(16, 16));
    }

    private void serve(Adapter adapter, InetSocketAddress address, int connections)
            throws InterruptedException {
        CountDownLatch left = new CountDownLatch(connections);
        try (Listener listener = adapter.listen(address, 0, request -> accept(request, left))) {
            System.out.println("LISTENING");
            long before;
            do {
                before = left.getCount();
                if (left.await(DEADLINE_SECONDS, TimeUnit.SECONDS)) {
                    return;
                }
            } while (left.getCount() < before);
            throw new IllegalStateException(
                    "%s: no connection ended within %d s, %d are to come"
                            .formatted(listener, DEADLINE_SECONDS, before));
        }
    }

    private void accept(Connector request, CountDownLatch left) {
        QueuePair queuePair = makeQueuePair();
        try {
            request.accept(queuePair);
        } catch (VerbenaException e) {
            if (e.status() != Status.CONNECTION_ABORTED) {
                throw e;
            }
            // The client's READY TO USE may be overtaken: its connection was established, and
            // ended, before this side's was. Close answers the disconnect.
            end(request, queuePair, left);
            return;
        }
        request.onDisconnect(
                status -> {
                    request.disconnect(); // the client waits for it
                    end(request, queuePair, left);
                });
    }

    private static void end(Connector request, QueuePair queuePair, CountDownLatch left) {
        queuePair.close();
        request.close();
        left.countDown();
    }

    private void measure(
            Adapter adapter,
            InetSocketAddress peer,
            ConnectionOptions how,
            int count,
            boolean print) {
        long[] connecting = new long[count];
        long[] disconnecting = new long[count];
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            Connector connector = adapter.createConnector();
            QueuePair queuePair = makeQueuePair();
            connector.connect(queuePair, peer, how);
            connector.completeConnect();
            long middle = System.nanoTime();
            connector.disconnect();
            queuePair.close();
            connector.close();
            connecting[i] = middle - start;
            disconnecting[i] = System.nanoTime() - middle;
        }
        if (print) {
            Results.print(
                    "connect-disconnect",
                    "-",
                    Results.medianMicros(Results.sums(connecting, disconnecting)),
                    "us");
            Results.print("connect", "-", Results.medianMicros(connecting), "us");
            Results.print("disconnect", "-", Results.medianMicros(disconnecting), "us");
        }
    }
}
