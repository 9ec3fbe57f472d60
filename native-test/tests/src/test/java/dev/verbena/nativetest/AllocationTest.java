package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;

import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;

/** The promise that a request costs the collector nothing. */
@NeedsDevices
@Timeout(120)
class AllocationTest {
    private static final int WARM_UP = 2_000;
    private static final int MEASURED = 1_000;
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    /** Runs something that was warmed up, and that makes what it needs before. */
    private static void assertAllocatesNothing(String what, Runnable run) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        threads.getCurrentThreadAllocatedBytes(); // the first call allocates itself
        long before = threads.getCurrentThreadAllocatedBytes();
        run.run();
        long allocated = threads.getCurrentThreadAllocatedBytes() - before;
        assertThat(allocated).as("bytes allocated by %s", what).isZero();
    }

    @Test
    void postsAndPollsAllocateNothing() {
        // More receives than messages: a poll that finds nothing then asks Soft-RoCE from time to
        // time for queue pairs that failed without a completion.
        try (Pair pair = Pair.connected(4)) {
            MemoryRegion source = pair.left.memory(64);
            MemoryRegion target = pair.right.memory(64);
            for (Pair.Side side : List.of(pair.left, pair.right)) {
                MemoryRegion spare = side.memory(64);
                succeed(side.queuePair.receive(-1, whole(spare)).status());
            }
            BufferList sent = whole(source);
            BufferList received = whole(target);
            Completions completions = new Completions(2);
            run(WARM_UP, pair, target, sent, received, completions, Deadline.of("warm-up"));
            Deadline deadline = Deadline.of("%d messages".formatted(MEASURED));

            assertAllocatesNothing(
                    "%d messages".formatted(MEASURED),
                    () -> run(MEASURED, pair, target, sent, received, completions, deadline));
        }
    }

    private static void run(
            int messages,
            Pair pair,
            MemoryRegion target,
            BufferList sent,
            BufferList received,
            Completions completions,
            Deadline deadline) {
        for (int i = 0; i < messages; i++) {
            received.clear().add(target, 0, 64);
            succeed(pair.right.queuePair.receive(i, received).status());
            succeed(pair.left.queuePair.send(i, sent).status());
            drain(pair.right, completions, 1, deadline);
            drain(pair.left, completions, 1, deadline);
        }
    }

    /** Arming, sleeping and waking; and the looks for failed queue pairs during long waits. */
    @Test
    void wakesAllocateNothing() {
        try (Pair pair = Pair.connected(4)) {
            MemoryRegion spare = pair.right.memory(64);
            succeed(pair.right.queuePair.receive(-1, whole(spare)).status());
            BufferList sent = whole(pair.left.memory(64));
            BufferList received = whole(pair.right.memory(64));
            Completions completions = new Completions(2);
            Duration nothingComes = Duration.ofMillis(50);
            Deadline warmUp = Deadline.of("warm-up");
            wakes(WARM_UP, pair, sent, received, completions, nothingComes, warmUp);
            Deadline deadline = Deadline.of("%d wakes".formatted(MEASURED));

            assertAllocatesNothing(
                    "%d wakes".formatted(MEASURED),
                    () ->
                            wakes(
                                    MEASURED,
                                    pair,
                                    sent,
                                    received,
                                    completions,
                                    nothingComes,
                                    deadline));
        }
    }

    private static void wakes(
            int messages,
            Pair pair,
            BufferList sent,
            BufferList received,
            Completions completions,
            Duration nothingComes,
            Deadline deadline) {
        CompletionQueue queue = pair.right.completionQueue;
        for (int i = 0; i < messages; i++) {
            succeed(pair.right.queuePair.receive(i, received).status());
            queue.arm(NotifyType.ANY);
            if (i % 500 == 0 && queue.await(nothingComes) != Status.IO_TIMEOUT) {
                throw new AssertionError("woken by nothing");
            }
            succeed(pair.left.queuePair.send(i, sent).status());
            succeed(queue.await(TIMEOUT));
            drain(pair.right, completions, 1, deadline);
            drain(pair.left, completions, 1, deadline);
        }
    }

    /** Every initiator operation, with every flag that changes the way it goes. */
    @Test
    void everyOperationAllocatesNothing() {
        try (Pair pair =
                new Pair(QueuePairLimits.depths(64, 64).withBuffers(2, 1).withInlineBytes(64))
                        .connect()) {
            MemoryRegion source = pair.left.filled(64, 1);
            MemoryRegion target = pair.right.filled(64, 2);
            BufferList list = new BufferList(4);
            Completions completions = new Completions(8);
            boolean windows = pair.left.adapter.info().invalidatableWindows();
            MemoryWindow window = windows ? pair.left.domain.createMemoryWindow() : null;
            Deadline warmUp = Deadline.of("warm-up");
            round(WARM_UP / 10, pair, source, target, list, completions, window, warmUp);
            Deadline deadline = Deadline.of("50 rounds");

            // Fewer binds than a token has generations: a new window is a new object of the device.
            assertAllocatesNothing(
                    "50 rounds",
                    () -> round(50, pair, source, target, list, completions, window, deadline));
            if (windows) {
                window.close();
            }
        }
    }

    private static void round(
            int rounds,
            Pair pair,
            MemoryRegion source,
            MemoryRegion target,
            BufferList list,
            Completions completions,
            MemoryWindow window,
            Deadline deadline) {
        QueuePair left = pair.left.queuePair;
        long at = target.memory().address();
        int token = target.remoteToken();
        for (int i = 0; i < rounds; i++) {
            list.clear().add(target, 0, 64);
            succeed(pair.right.queuePair.receive(i, list).status());
            succeed(pair.right.queuePair.receive(i, list).status());
            list.clear().add(source, 0, 8).add(source, 16, 8);
            succeed(
                    left.write(i, list, at, token, OpFlags.DEFER.and(OpFlags.SILENT_SUCCESS))
                            .status());
            list.add(source, 32, 8);
            succeed(left.write(i, list, at, token, OpFlags.INLINE).status());
            succeed(
                    left.send(i, list, OpFlags.INLINE.and(OpFlags.DEFER).and(OpFlags.READ_FENCE))
                            .status());
            list.clear().add(source, 0, 8);
            succeed(left.read(i, list, at, token, OpFlags.SILENT_SUCCESS).status());
            succeed(left.fetchAndAdd(i, list, at, token, 1, OpFlags.NONE).status());
            succeed(left.sendWithImmediate(i, list, 7, OpFlags.SEND_AND_SOLICIT_EVENT).status());
            int expected = 4;
            if (window != null) {
                succeed(left.bind(i, window, source, 0, 64, OpFlags.ALLOW_REMOTE_READ).status());
                succeed(left.invalidate(i, window, OpFlags.NONE).status());
                expected += 2;
            }
            drain(pair.left, completions, expected, deadline);
            drain(pair.right, completions, 2, deadline);
        }
    }

    private static void drain(
            Pair.Side side, Completions completions, int expected, Deadline deadline) {
        int seen = 0;
        while (seen < expected) {
            int count = side.completionQueue.poll(completions);
            for (int i = 0; i < count; i++) {
                succeed(completions.status(i));
            }
            seen += count;
            deadline.check();
        }
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new AssertionError(status);
        }
    }
}
