package dev.verbena.nativetest;

import static dev.verbena.nativetest.Pair.whole;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.Status;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.management.ManagementFactory;

/** The promise that a request costs the collector nothing. */
@NeedsDevices
@Timeout(120)
class AllocationTest {
    private static final int WARM_UP = 2_000;
    private static final int MEASURED = 1_000;

    @Test
    void postsAndPollsAllocateNothing() {
        try (Pair pair = Pair.connected(1)) {
            MemoryRegion source = pair.left.memory(64);
            MemoryRegion target = pair.right.memory(64);
            BufferList sent = whole(source);
            BufferList received = whole(target);
            Completions completions = new Completions(2);
            run(WARM_UP, pair, target, sent, received, completions);

            ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
            threads.getCurrentThreadAllocatedBytes(); // the first call allocates itself
            long before = threads.getCurrentThreadAllocatedBytes();
            run(MEASURED, pair, target, sent, received, completions);
            long allocated = threads.getCurrentThreadAllocatedBytes() - before;
            assertThat(allocated).as("bytes allocated by %d messages", MEASURED).isZero();
        }
    }

    private static void run(
            int messages,
            Pair pair,
            MemoryRegion target,
            BufferList sent,
            BufferList received,
            Completions completions) {
        for (int i = 0; i < messages; i++) {
            received.clear().add(target, 0, 64);
            succeed(pair.right.queuePair.receive(i, received));
            succeed(pair.left.queuePair.send(i, sent));
            while (pair.right.completionQueue.poll(completions) == 0) {
                Thread.onSpinWait();
            }
            succeed(completions.status(0));
            while (pair.left.completionQueue.poll(completions) == 0) {
                Thread.onSpinWait();
            }
            succeed(completions.status(0));
        }
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new AssertionError(status);
        }
    }
}
