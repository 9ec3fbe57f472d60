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
 * the last are silent, so a round has one completion. And writes to one place after the other, by a
 * request of which only the place is written anew.
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
            batch.write(i, piece, target, i * length, flags).orThrow();
        }
        for (int round = 0; round < rounds; round++) {
            batch.context(pieces - 1, round).post().orThrow();
            ended += await(queue, completions);
        }
        // @end
        return ended;
    }

    /**
     * Writes the same bytes to one place of the peer's memory after the other, by a request that is
     * recorded once.
     *
     * @param queuePair a connected queue pair
     * @param queue its completion queue
     * @param record what is written
     * @param log the peer's memory
     * @param records how many times; the memory is as long as that many
     * @return how many completions came
     */
    public static int append(
            QueuePair queuePair,
            CompletionQueue queue,
            MemoryRegion record,
            RemoteMemory log,
            int records) {
        Completions completions = new Completions(1);
        int ended = 0;
        // @start region="again"
        RequestBatch write = new RequestBatch(queuePair, 1);
        write.write(0, BufferList.of(record), log, 0, OpFlags.NONE).orThrow();
        for (int i = 0; i < records; i++) {
            write.remote(0, log, i * record.bytes()).orThrow();
            write.context(0, i).post().orThrow();
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
        completions.orThrow(0);
        return 1;
    }
}
