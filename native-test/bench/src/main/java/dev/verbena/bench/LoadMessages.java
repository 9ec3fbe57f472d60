package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;
import dev.verbena.messaging.ConnectedChannels;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.SendCallback;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * What a message of 64 bytes costs by how many connections there are, on a stand-in for libibverbs
 * whose provider only copies: one message on each connection in turn, both ends in one thread, by
 * its processor time. With {@code --active}, only some carry messages. The order is random, the
 * same in each turn: in the order in which they were made, the processor would fetch the next
 * connection's memory ahead, as no client's order lets it. Through message channels of one poller,
 * which is two channels for each connection; or by hand, through queue pairs with the same limits
 * that share their receives, as {@code c/load_messages.c} does it. One line for each round.
 */
public final class LoadMessages {
    private static final int BYTES = 64;
    private static final int RECEIVES = 64; // shared
    private static final int STRIDE = 4160;
    private static final int SENDS = 16;
    private static final int MOST_INLINE = 128;
    private static final int WARM_UPS = 3;

    private static long arrived;
    private static long ended;

    private LoadMessages() {}

    /** Sends a message on one of the connections, and returns when it has arrived. */
    private interface Connections {
        void message(int connection);
    }

    /**
     * Measures.
     *
     * @param arguments {@code channel|queue-pair}, and options
     */
    public static void main(String[] arguments) {
        Options options =
                new Options(
                        "LoadMessages channel|queue-pair [--pairs N] [--active N] [--ms N] [--rounds N]",
                        1,
                        arguments,
                        "--pairs",
                        "--active",
                        "--ms",
                        "--rounds");
        int pairs = options.number("--pairs", 5_000);
        int active = options.number("--active", pairs);
        long nanos = options.number("--ms", 150) * 1_000_000L;
        int rounds = options.number("--rounds", 2);
        try (Adapter adapter = Adapter.open("copy0")) {
            switch (options.argument(0)) {
                case "channel" -> channels(adapter, pairs, active, nanos, rounds);
                case "queue-pair" -> queuePairs(adapter, pairs, active, nanos, rounds);
                default -> throw new IllegalArgumentException("There is no " + options.argument(0));
            }
        }
    }

    private static void measure(
            Connections connections, int pairs, int active, long nanos, int rounds) {
        List<Integer> shuffled = IntStream.range(0, pairs).boxed().collect(Collectors.toList());
        Collections.shuffle(shuffled, new Random(1));
        int[] order = shuffled.stream().limit(active).mapToInt(i -> i).toArray();
        for (int round = -WARM_UPS; round < rounds; round++) {
            double each = round(connections, order, round < 0 ? 4 * nanos : nanos);
            if (round >= 0) {
                String which = active == pairs ? "" : " active=" + active;
                Results.print("load-messages", pairs + which, each, "ns");
            }
        }
    }

    private static double round(Connections connections, int[] order, long nanos) {
        int turns = 1 + 1000 / order.length;
        long messages = 0;
        long start = ThreadClock.nanos();
        long end;
        do {
            for (int turn = 0; turn < turns; turn++) {
                for (int i : order) {
                    connections.message(i);
                }
            }
            messages += (long) turns * order.length;
            end = ThreadClock.nanos();
        } while (end - start < nanos);
        return (double) (end - start) / messages;
    }

    private static void channels(Adapter adapter, int pairs, int active, long nanos, int rounds) {
        MessageHandler count = (channel, message) -> arrived++;
        SendCallback end =
                (channel, attachment, status) -> {
                    succeed(status);
                    ended++;
                };
        MemorySegment data = MemorySegment.ofArray(new byte[BYTES]);
        // The stand-in fails a message that finds no receive, as 10,000 keep-alives at once would.
        MessagingOptions options = MessagingOptions.DEFAULTS.withKeepAlive(Duration.ofHours(1));
        try (Poller poller = Poller.onThisThread(adapter, IdleStrategy.busySpin())) {
            MessageChannel[] senders = new MessageChannel[pairs];
            for (int i = 0; i < pairs; i++) {
                senders[i] = ConnectedChannels.pair(poller, options, count, count)[0];
            }
            measure(
                    i -> {
                        long before = arrived + ended;
                        succeed(senders[i].trySend(data, 0, BYTES, end, null));
                        while (arrived + ended < before + 2) {
                            if (poller.poll() == 0 && !senders[i].isOpen()) {
                                throw senders[i].closeReason();
                            }
                        }
                    },
                    pairs,
                    active,
                    nanos,
                    rounds);
        }
    }

    @SuppressWarnings("MustBeClosed") // closed below
    private static void queuePairs(Adapter adapter, int pairs, int active, long nanos, int rounds) {
        QueuePairLimits limits = QueuePairLimits.depths(SENDS, 1).withInlineBytes(MOST_INLINE);
        Completions completions = new Completions(2);
        QueuePair[] all = new QueuePair[2 * pairs];
        try (ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue =
                        adapter.createConfinedCompletionQueue(2 * pairs + RECEIVES);
                SharedReceiveQueue shared =
                        domain.createSharedReceiveQueue(RECEIVES, 1, status -> {});
                MemoryRegion region =
                        domain.allocate((long) (RECEIVES + 1) * STRIDE, Access.LOCAL_WRITE)) {
            BufferList[] receives = new BufferList[RECEIVES];
            for (int i = 0; i < RECEIVES; i++) {
                receives[i] = new BufferList(1).add(region, (long) i * STRIDE, STRIDE);
                succeed(shared.receive(i, receives[i]).status());
            }
            BufferList message = new BufferList(1).add(region, (long) RECEIVES * STRIDE, BYTES);
            for (int i = 0; i < all.length; i++) {
                all[i] = domain.createQueuePair(queue, queue, shared, limits);
            }
            for (int i = 0; i < all.length; i++) {
                all[i].connect(all[i ^ 1].address());
            }
            measure(
                    i -> {
                        succeed(all[2 * i].send(i, message, OpFlags.INLINE).status());
                        int left = 2;
                        while (left > 0) {
                            int count = queue.poll(completions);
                            for (int j = 0; j < count; j++) {
                                succeed(completions.status(j));
                                if (completions.type(j) == OperationType.RECEIVE) {
                                    int slot = (int) completions.context(j);
                                    succeed(shared.receive(slot, receives[slot]).status());
                                }
                            }
                            left -= count;
                        }
                    },
                    pairs,
                    active,
                    nanos,
                    rounds);
            for (QueuePair pair : all) {
                pair.close();
            }
        }
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
