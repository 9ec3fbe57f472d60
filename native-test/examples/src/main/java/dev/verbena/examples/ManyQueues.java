package dev.verbena.examples;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionChannel;
import dev.verbena.CompletionQueue;
import dev.verbena.CompletionQueueOptions;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Takes one message from each of several peers, which {@link Hello} sends. Each peer has a
 * completion queue of its own, on a completion vector of its own; one thread waits for all.
 */
public final class ManyQueues {
    private static final long BYTES = 4096; // of each message
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private ManyQueues() {}

    /** A peer, and what its message needs. */
    private record Peer(CompletionQueue queue, MemoryRegion region, QueuePair pair) {
        /** Accepts a request. Adds how to close each object, also if a later step fails. */
        static Peer accept(
                ProtectionDomain domain,
                CompletionChannel channel,
                Connector request,
                Deque<Runnable> closes) {
            closes.push(request::close);
            CompletionQueueOptions options =
                    CompletionQueueOptions.depth(2).confined().channel(channel);
            CompletionQueue queue = channel.adapter().createCompletionQueue(options);
            closes.push(queue::close);
            MemoryRegion region = domain.allocate(BYTES, Access.LOCAL_WRITE);
            closes.push(region::close);
            QueuePair pair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(1, 1));
            closes.push(pair::close);
            pair.receive(1, BufferList.of(region)).orThrow();
            request.accept(pair);
            return new Peer(queue, region, pair);
        }
    }

    /**
     * Prints what peers send.
     *
     * @param arguments the device, an address and a port to listen on, and how many peers
     * @throws InterruptedException when it is interrupted before all have come
     */
    public static void main(String[] arguments) throws InterruptedException {
        InetSocketAddress address =
                new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (Adapter adapter = Adapter.open(arguments[0]);
                Listener listener = adapter.listen(address, 0, requests::add)) {
            System.out.println("Listening on " + listener.localAddress());
            receive(adapter, requests, Integer.parseInt(arguments[3])).forEach(System.out::println);
        }
    }

    /**
     * Receives a message from each of some peers.
     *
     * @param adapter the device
     * @param requests of the peers; as many as are taken are accepted and, at the end, closed
     * @param count how many peers
     * @return the texts, in the order in which they came
     * @throws InterruptedException when it is interrupted before all have come
     */
    public static List<String> receive(
            Adapter adapter, BlockingQueue<Connector> requests, int count)
            throws InterruptedException {
        List<String> texts = new ArrayList<>();
        List<Peer> peers = new ArrayList<>();
        Deque<Runnable> closes = new ArrayDeque<>(); // last first
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionChannel channel = adapter.createCompletionChannel()) {
            try {
                for (int i = 0; i < count; i++) {
                    peers.add(Peer.accept(domain, channel, requests.take(), closes));
                }
                collect(channel, peers, texts);
            } finally {
                closes.forEach(Runnable::run);
            }
        }
        return texts;
    }

    private static void collect(CompletionChannel channel, List<Peer> peers, List<String> texts) {
        Completions completions = new Completions(1);
        // @start region="loop"
        for (Peer peer : peers) {
            peer.queue().arm(NotifyType.ANY);
        }
        while (texts.size() < peers.size()) {
            CompletionQueue fired = channel.await(TIMEOUT); // sleeps until there is something
            if (fired == null) {
                throw new IllegalStateException("Some peers are silent, after " + TIMEOUT);
            }
            while (fired.poll(completions) > 0) {
                completions.orThrow(0); // how the receive has ended
                texts.add(text(peers, completions.queuePair(0)));
            }
            fired.arm(NotifyType.ANY); // for the next one, if there was more to come
        }
        // @end
    }

    private static String text(List<Peer> peers, QueuePair pair) {
        return peers.stream()
                .filter(peer -> peer.pair() == pair)
                .findFirst()
                .map(peer -> peer.region().memory().getString(0))
                .orElseThrow();
    }
}
