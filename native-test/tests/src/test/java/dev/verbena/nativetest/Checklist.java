package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePairLimits;

import java.time.Duration;
import java.util.function.Supplier;

/** What the tests of NDK's promises have in common. */
final class Checklist {
    static final OpFlags SILENT = OpFlags.SILENT_SUCCESS;
    static final OpFlags DEFER = OpFlags.DEFER;
    static final OpFlags INLINE = OpFlags.INLINE;
    static final OpFlags RW = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);
    static final Duration LONG = Duration.ofSeconds(30);
    static final Duration SHORT = Duration.ofMillis(300);

    static QueuePairLimits limits(int depth) {
        return QueuePairLimits.depths(depth, depth);
    }

    static void assumeWindows(Pair pair) {
        assumeTrue(
                pair.right.adapter.info().invalidatableWindows()
                        && pair.left.adapter.info().sendsWithInvalidate(),
                "SKIPPED: the device has no memory windows of type 2");
    }

    /** Writes as fast as the device can: a full queue is no failure. */
    static void write(
            Pair pair, long context, MemoryRegion source, MemoryRegion target, OpFlags flags) {
        BufferList bytes = whole(source);
        whenThereIsRoom(
                "write " + context,
                () ->
                        pair.left.queuePair.write(
                                context,
                                bytes,
                                target.memory().address(),
                                target.remoteToken(),
                                flags));
    }

    /** Posts again as long as the queue is full of requests that the device has not ended yet. */
    static void whenThereIsRoom(String what, Supplier<PostResult> post) {
        Deadline deadline = Deadline.of("room for " + what);
        PostResult result;
        do {
            deadline.check();
            result = post.get();
        } while (result == PostResult.FULL);
        result.orThrow();
    }

    private Checklist() {}
}
