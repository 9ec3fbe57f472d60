package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.fill;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.RequestBatch;
import dev.verbena.Status;
import dev.verbena.examples.Batches;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.List;

/** Batches over a real device: recorded once, posted often, with parts replaced in between. */
@NeedsDevices
@Timeout(120)
class BatchesTest {
    private static final QueuePairLimits LIMITS =
            QueuePairLimits.depths(16, 16).withBuffers(2, 1).withInlineBytes(64);

    private static RemoteMemory remote(MemoryRegion region) {
        return new RemoteMemory(
                region.memory().address(), region.remoteToken(), region.memory().byteSize());
    }

    @Test
    void aRegionIsCopiedInEachRound() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            MemoryRegion source = pair.left.filled(16 * 5000, 1);
            MemoryRegion target = pair.right.filled(16 * 5000, 2);
            int ended =
                    Batches.copy(
                            pair.left.queuePair,
                            pair.left.completionQueue,
                            source,
                            remote(target),
                            16,
                            5);
            assertThat(ended).isEqualTo(5);
            assertThat(target.memory().mismatch(source.memory())).isEqualTo(-1);
        }
    }

    @Test
    void aRecordIsAppendedToALog() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            MemoryRegion entry = pair.left.filled(100, 1);
            MemoryRegion log = pair.right.filled(20 * 100, 2);
            int ended =
                    Batches.append(
                            pair.left.queuePair, pair.left.completionQueue, entry, remote(log), 20);
            assertThat(ended).isEqualTo(20);
            for (int i = 0; i < 20; i++) {
                assertThat(log.memory().asSlice(i * 100L, 100).mismatch(entry.memory()))
                        .as("entry %d", i)
                        .isEqualTo(-1);
            }
        }
    }

    /** Other buffers, places and bytes in each round. */
    @Test
    void eachRoundTakesWhatItWasGiven() {
        try (Pair pair = new Pair(LIMITS).connect()) {
            MemoryRegion source = pair.left.filled(4096, 1);
            MemoryRegion target = pair.right.filled(4096, 2);
            MemoryRegion inbox = pair.right.filled(64, 3);
            BufferList part = new BufferList(2).add(source, 0, 1);
            RequestBatch batch = new RequestBatch(pair.left.queuePair, 2);
            batch.write(1, part, remote(target), 0, OpFlags.SILENT_SUCCESS).orThrow();
            batch.send(2, part, OpFlags.INLINE).orThrow();
            for (int round = 0; round < 8; round++) {
                fill(source.memory(), round);
                fill(target.memory(), 100);
                part.clear().add(source, round, 50).add(source, 1000 + round, 10L * round);
                batch.buffers(0, part).orThrow();
                batch.remote(0, remote(target), 7L * round).orThrow();
                part.clear().add(source, 2000, round);
                batch.buffers(1, part).orThrow();
                pair.right.queuePair.receive(round, Pair.whole(inbox)).orThrow();
                batch.context(1, round).post().orThrow();
                assertThat(pair.left.ends(1)).containsExactly("SEND " + round + " SUCCESS");
                var received = pair.right.completion();
                assertThat(received.status(0)).isEqualTo(Status.SUCCESS);
                assertThat(received.bytes(0)).isEqualTo(round);
                assertThat(
                                List.of(
                                        inbox.memory()
                                                .asSlice(0, round)
                                                .mismatch(source.memory().asSlice(2000, round)),
                                        target.memory()
                                                .asSlice(7L * round, 50)
                                                .mismatch(source.memory().asSlice(round, 50)),
                                        target.memory()
                                                .asSlice(7L * round + 50, 10L * round)
                                                .mismatch(
                                                        source.memory()
                                                                .asSlice(
                                                                        1000 + round,
                                                                        10L * round))))
                        .containsOnly(-1L);
            }
        }
    }
}
