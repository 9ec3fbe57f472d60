package dev.verbena.examples;

import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.RequestBatch;

import java.time.Duration;

/**
 * Copies a region to the peer again and again, by a batch of writes that is recorded once: all but
 * the last are silent, so a round has one completion.
 */
public final class Batches {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private Batches() {}

    /**
     * Writes a region into the peer's memory, piece by piece.
     *
     * @param queuePair a connected queue pair
     * @param queue its completion queue
     * @param region what is copied
     * @param target the peer's memory, as long as the region
     * @param pieces how many pieces; the queue is as deep
     * @param rounds how many times
     * @return how many completions came
     */
    public static int copy(
            QueuePair queuePair,
            CompletionQueue queue,
            MemoryRegion region,
            RemoteMemory target,
            int pieces,
            int rounds) {
        Completions completions = new Completions(1);
        long length = region.bytes() / pieces;
        int ended = 0;
        // @start region="batch"
        RequestBatch batch = new RequestBatch(queuePair, pieces);
        BufferList piece = new BufferList(1);
        for (int i = 0; i < pieces; i++) {
            piece.clear().add(region, i * length, length);
            OpFlags flags = i < pieces - 1 ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
            batch.write(i, piece, target, i * length, flags).orThrow(queuePair);
        }
        for (int round = 0; round < rounds; round++) {
            batch.context(pieces - 1, round).post().orThrow(queuePair);
            ended += await(queue, completions);
        }
        // @end
        return ended;
    }

    private static int await(CompletionQueue queue, Completions completions) {
        while (queue.poll(completions) == 0) {
            if (!queue.arm(NotifyType.ANY)) {
                queue.await(TIMEOUT).orThrow();
            }
        }
        completions.status(0).orThrow();
        return 1;
    }
}
