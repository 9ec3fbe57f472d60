package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

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
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** One end of a connection that writes into the other's memory, as much as its queue takes. */
final class WritingEnd implements AutoCloseable {
    private static final int DEPTH = 16;
    private static final int BYTES = 4096;

    final Adapter adapter;
    final QueuePair pair;
    final RemoteMemory target;
    private final ProtectionDomain domain;
    private final CompletionQueue queue;
    private final Arena arena = Arena.ofShared();
    private final MemoryRegion memory;
    private final Completions completions = new Completions(DEPTH);
    private final List<Status> failures = new ArrayList<>();
    private int posted;
    private int ended;

    WritingEnd(String device) {
        adapter = Adapter.open(device);
        domain = adapter.createProtectionDomain();
        memory = domain.register(arena.allocate(BYTES, 64), Access.REMOTE_WRITE);
        target = memory.remoteMemory();
        queue = adapter.createCompletionQueue(2 * DEPTH);
        pair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(DEPTH, DEPTH));
    }

    /** Connects two without the connection manager. */
    static void connect(WritingEnd a, WritingEnd b) {
        a.pair.connect(b.pair.address());
        b.pair.connect(a.pair.address());
    }

    /** Posts writes until one is refused; why it was. */
    Status fill(RemoteMemory to) {
        BufferList buffers = BufferList.of(memory);
        while (true) {
            Status status = pair.write(posted, buffers, to, 0, OpFlags.NONE).status();
            if (status != Status.SUCCESS) {
                return status;
            }
            posted++;
        }
    }

    /** Polls; the status of the last that failed, or SUCCESS. */
    private Status poll() {
        Status failure = Status.SUCCESS;
        int count = queue.poll(completions);
        for (int i = 0; i < count; i++) {
            assertThat(completions.context(i)).as("each once, in order").isEqualTo(ended);
            ended++;
            if (completions.status(i) != Status.SUCCESS) {
                failure = completions.status(i);
                failures.add(failure);
            }
        }
        return failure;
    }

    /**
     * Keeps writing until the connection has failed, which is the status, or it is over. Soft-RoCE
     * of Linux 6.1 may send nothing more after a retransmission, for ever: then all is cancelled.
     */
    Status writeUntil(AtomicBoolean over, RemoteMemory to) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!over.get()) {
            if (System.nanoTime() - deadline > 0) {
                pair.flush();
                return Status.CANCELLED;
            }
            Status refused = fill(to);
            Status failed = poll();
            if (failed != Status.SUCCESS) {
                return failed;
            }
            if (refused != Status.NO_MORE_ENTRIES) {
                return refused;
            }
        }
        return Status.SUCCESS;
    }

    /** Waits until everything that was posted has ended, once; whether all succeeded. */
    boolean awaitAll() {
        boolean allWell = true;
        Deadline deadline = Deadline.of("end of all that was posted to " + pair);
        while (ended < posted) {
            allWell &= poll() == Status.SUCCESS;
            deadline.check();
        }
        allWell &= poll() == Status.SUCCESS;
        assertThat(ended).isEqualTo(posted);
        return allWell;
    }

    /** The statuses of the requests that did not succeed so far, in order. */
    List<Status> failures() {
        return failures;
    }

    /** How many have ended. */
    int ended() {
        return ended;
    }

    @Override
    public void close() {
        pair.close();
        queue.close();
        memory.close();
        domain.close();
        adapter.close();
        arena.close();
    }
}
