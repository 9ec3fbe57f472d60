package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.util.Arrays;

/**
 * What a request costs by how much is going on, on a stand-in for libibverbs whose provider only
 * copies, as {@code c/load.c} does it: a send on each of so many queue pairs with one completion
 * queue, and so many outstanding sends on one queue pair. One line for each number, the median of
 * the rounds. With {@code --pairs} that number of queue pairs alone; with {@code --clock cpu} time
 * is the thread's on a processor.
 */
public final class Load {
    private static final int BYTES = 64;
    private static final int MOST_PAIRS = 1024;
    private static final int MOST_DEPTH = 4096;
    private static final int BATCH = 16;

    /** Of the first parameter, more than a JIT compiler wants to see. */
    private static final int WARM_UPS = 20;

    private final Adapter adapter;
    private final ProtectionDomain domain;
    private final BufferList buffers;
    private final Completions completions = new Completions(BATCH);
    private final long roundNanos;
    private final int rounds;
    private final boolean cpu;
    private long sink;

    private Load(Adapter adapter, ProtectionDomain domain, MemoryRegion region, Options options) {
        this.adapter = adapter;
        this.domain = domain;
        this.buffers = new BufferList(1).add(region, 0, BYTES);
        this.roundNanos = options.number("--ms", 100) * 1_000_000L;
        this.rounds = options.number("--rounds", 5);
        this.cpu = options.is("--clock", "cpu");
    }

    /**
     * Measures all numbers.
     *
     * @param arguments options
     */
    public static void main(String[] arguments) {
        Options options =
                new Options(
                        "Load [--ms N] [--rounds N] [--pairs N] [--clock cpu]",
                        0,
                        arguments,
                        "--ms",
                        "--rounds",
                        "--pairs",
                        "--clock");
        try (Arena arena = Arena.ofShared();
                Adapter adapter = Adapter.open("copy0");
                ProtectionDomain domain = adapter.createProtectionDomain();
                MemoryRegion region =
                        domain.register(arena.allocate(4096, 64), Access.LOCAL_WRITE)) {
            Load load = new Load(adapter, domain, region, options);
            // Both shapes, so that what is compiled for the first number suits the last.
            load.measure(4, 1, WARM_UPS);
            load.measure(1, 64, WARM_UPS);
            int alone = options.number("--pairs", MOST_PAIRS + 1);
            for (int count = 1; count <= MOST_PAIRS; count *= 2) {
                if (alone > MOST_PAIRS || count == alone) {
                    double nanos = load.measure(count, 1, load.rounds);
                    Results.print("load-queue-pairs", Integer.toString(count), nanos, "ns");
                }
            }
            for (int depth = 1; alone > MOST_PAIRS && depth <= MOST_DEPTH; depth *= 2) {
                double nanos = load.measure(1, depth, load.rounds);
                Results.print("load-depth", Integer.toString(depth), nanos, "ns");
            }
            if (load.sink == 0) {
                throw new IllegalStateException("no completion named a request");
            }
        }
    }

    private double measure(int count, int depth, int times) {
        try (CompletionQueue queue = adapter.createConfinedCompletionQueue(count * depth)) {
            QueuePair[] pairs = new QueuePair[count];
            for (int i = 0; i < count; i++) {
                pairs[i] = domain.createQueuePair(queue, queue, QueuePairLimits.depths(depth, 1));
                pairs[i].connect(pairs[i].address());
            }
            round(queue, pairs, depth); // warm-up
            double[] nanos = new double[times];
            for (int i = 0; i < times; i++) {
                nanos[i] = round(queue, pairs, depth);
            }
            for (QueuePair pair : pairs) {
                pair.close();
            }
            Arrays.sort(nanos);
            return times % 2 == 1
                    ? nanos[times / 2]
                    : (nanos[times / 2 - 1] + nanos[times / 2]) / 2;
        }
    }

    private long now() {
        return cpu ? ThreadClock.nanos() : System.nanoTime();
    }

    /** Goes round until the time is over; answers ns per request. */
    private double round(CompletionQueue queue, QueuePair[] pairs, int depth) {
        int requests = pairs.length * depth;
        // Few looks at the clock where one time round is short.
        int batch = 1 + 1000 / requests;
        long times = 0;
        long start = now();
        long end;
        do {
            for (int i = 0; i < batch; i++) {
                once(queue, pairs, depth);
            }
            times += batch;
            end = now();
        } while (end - start < roundNanos);
        return (double) (end - start) / (times * requests);
    }

    private void once(CompletionQueue queue, QueuePair[] pairs, int depth) {
        for (QueuePair pair : pairs) {
            for (int i = 0; i < depth; i++) {
                succeed(pair.send(i + 1, buffers, OpFlags.NONE).status());
            }
        }
        int left = pairs.length * depth;
        while (left > 0) {
            int count = queue.poll(completions);
            if (count == 0) {
                throw new IllegalStateException("nothing to poll, with %d to come".formatted(left));
            }
            for (int i = 0; i < count; i++) {
                succeed(completions.status(i));
                sink += completions.context(i);
            }
            left -= count;
        }
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
