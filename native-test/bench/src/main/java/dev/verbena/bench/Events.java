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
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * A ping-pong of 64 bytes in which each side sleeps until the other's message is there, as {@code
 * c/events.c} does it. The client prints half of a round trip, median and mean of each round.
 *
 * <p>Receives complete in one queue; sends in another that nobody waits for, which is looked at
 * before the next send, when its completion has long been there. To sleep: poll, arm, poll again,
 * wait.
 */
public final class Events implements AutoCloseable {
    private static final int BYTES = 64;
    private static final int DEPTH = 16;
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private final ProtectionDomain domain;
    private final CompletionQueue sent;
    private final CompletionQueue received;
    private final QueuePair queuePair;
    private final MemoryRegion region;
    private final BufferList outgoing;
    private final BufferList incoming;
    private final Completions completions = new Completions(DEPTH);
    private final Completions ended = new Completions(1);
    private boolean armed;
    private boolean sending;

    private Events(Adapter adapter, Arena arena) {
        domain = adapter.createProtectionDomain();
        sent = adapter.createConfinedCompletionQueue(DEPTH);
        received = adapter.createConfinedCompletionQueue(DEPTH);
        queuePair = domain.createQueuePair(sent, received, QueuePairLimits.depths(DEPTH, DEPTH));
        region = domain.register(arena.allocate(4096, 4096), Access.LOCAL_WRITE);
        outgoing = new BufferList(1).add(region, 0, BYTES);
        incoming = new BufferList(1).add(region, BYTES, BYTES);
        for (int i = 0; i < DEPTH; i++) {
            postReceive();
        }
    }

    /**
     * Serves or measures.
     *
     * @param arguments "server" or "client" and the server's address, then options
     * @throws Exception when interrupted, or the peer does not disconnect
     */
    public static void main(String[] arguments) throws Exception {
        Options options = Options.ofPair("Events", arguments);
        int count = options.number("--count", 2_000);
        int warmup = options.number("--warmup", 20_000);
        int rounds = options.number("--rounds", 5);
        try (Arena arena = Arena.ofShared();
                Adapter adapter =
                        Options.adapterOf(
                                options.server()
                                        ? options.address().getAddress()
                                        : options.from());
                Events program = new Events(adapter, arena)) {
            if (options.server()) {
                program.serve(adapter, options.address(), warmup + rounds * count);
            } else {
                try (Connector connector = adapter.createConnector()) {
                    connector.connect(
                            program.queuePair,
                            options.address(),
                            ConnectionOptions.DEFAULTS.withLocalAddress(
                                    new InetSocketAddress(options.from(), 0)));
                    connector.completeConnect();
                    program.measure(warmup, false);
                    for (int i = 0; i < rounds; i++) {
                        program.measure(count, true);
                    }
                    connector.disconnect();
                }
            }
        }
    }

    private void serve(Adapter adapter, InetSocketAddress address, int messages) throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        CompletableFuture<Status> over = new CompletableFuture<>();
        try (Listener listener = adapter.listen(address, 0, requests::add)) {
            System.out.println("LISTENING");
            Connector request = requests.poll(DEADLINE.toSeconds(), TimeUnit.SECONDS);
            if (request == null) {
                throw new IllegalStateException(
                        "%s: nobody came within %d s".formatted(listener, DEADLINE.toSeconds()));
            }
            try (request) {
                request.onDisconnect(over::complete);
                request.accept(queuePair);
                for (int i = 0; i < messages; i++) {
                    awaitMessage();
                    sendMessage();
                }
                over.get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
            }
        }
    }

    private void measure(int count, boolean print) {
        long[] times = new long[count];
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            sendMessage();
            awaitMessage();
            times[i] = System.nanoTime() - start;
        }
        if (print) {
            Results.print("events", "bytes=64 mean", Results.meanMicros(times) / 2, "us");
            Results.print("events", "bytes=64 median", Results.medianMicros(times) / 2, "us");
        }
    }

    private void postReceive() {
        succeed(queuePair.receive(1, incoming).status());
    }

    /** Sends, after the completion of the send before. */
    private void sendMessage() {
        if (sending) {
            long deadline = 0;
            while (sent.poll(ended) == 0) {
                if (deadline == 0) {
                    deadline = System.nanoTime() + DEADLINE.toNanos();
                } else if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(
                            "No end of a send within %d s".formatted(DEADLINE.toSeconds()));
                }
            }
            succeed(ended.status(0));
        }
        succeed(queuePair.send(2, outgoing, OpFlags.NONE).status());
        sending = true;
    }

    /** Waits for the next message, and posts its receive anew. */
    private void awaitMessage() {
        int count;
        while ((count = received.poll(completions)) == 0) {
            if (armed) {
                succeed(received.await(DEADLINE));
                armed = false;
            } else {
                received.arm(NotifyType.ANY);
                armed = true;
            }
        }
        if (count != 1) {
            throw new IllegalStateException(
                    "%d completions, where one message is outstanding".formatted(count));
        }
        succeed(completions.status(0));
        if (completions.bytes(0) != BYTES) {
            throw new IllegalStateException(
                    "%d bytes came, of %d".formatted(completions.bytes(0), BYTES));
        }
        postReceive();
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }

    @Override
    public void close() {
        queuePair.close();
        region.close();
        received.close();
        sent.close();
        domain.close();
    }
}
