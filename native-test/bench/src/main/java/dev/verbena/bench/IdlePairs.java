package dev.verbena.bench;

import dev.verbena.Adapter;
import dev.verbena.CompletionQueue;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;

/**
 * What an idle queue pair of depth 16 takes, on a stand-in for libibverbs: of Java's heap and of
 * the C heap ({@link MemoryInUse}). All are connected and stay open. {@code c/idle_pairs.c} does
 * the same in C.
 */
public final class IdlePairs {
    private static final int DEPTH = 16;
    private static final int FIRST = 100; // which load classes, and make what is made once

    private IdlePairs() {}

    /**
     * Measures.
     *
     * @param arguments options
     */
    public static void main(String[] arguments) {
        Options options = new Options("IdlePairs [--count N]", 0, arguments, "--count");
        int count = options.number("--count", 10_000);
        QueuePair[] pairs = new QueuePair[FIRST + count];
        try (Adapter adapter = Adapter.open("copy0");
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(64)) {
            fill(pairs, 0, FIRST, domain, queue);
            MemoryInUse before = MemoryInUse.now();
            fill(pairs, FIRST, pairs.length, domain, queue);
            MemoryInUse.now().print("idle-queue-pair", before, count);
            for (QueuePair pair : pairs) {
                pair.close();
            }
        }
    }

    @SuppressWarnings("MustBeClosed") // closed by main
    private static void fill(
            QueuePair[] pairs, int from, int to, ProtectionDomain domain, CompletionQueue queue) {
        QueuePairLimits limits = QueuePairLimits.depths(DEPTH, DEPTH);
        for (int i = from; i < to; i++) {
            pairs[i] = domain.createQueuePair(queue, queue, limits);
            pairs[i].connect(pairs[i].address());
        }
    }
}
