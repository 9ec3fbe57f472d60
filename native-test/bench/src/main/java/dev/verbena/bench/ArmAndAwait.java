package dev.verbena.bench;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * The event path without a network, on a stand-in for libibverbs whose provider only copies. The
 * event is there before the wait, so no thread sleeps: what is measured is the event's way to the
 * caller, and its system calls. {@code c/arm_await.c} does the same in C.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class ArmAndAwait {
    private static final Duration DEADLINE = Duration.ofSeconds(10);

    private Arena arena;
    private Adapter adapter;
    private ProtectionDomain domain;
    private CompletionQueue queue;
    private QueuePair queuePair;
    private MemoryRegion region;
    private BufferList buffers;
    private Completions completions;

    /** Opens the stand-in's device and connects a queue pair to itself. */
    @Setup
    @SuppressWarnings("MustBeClosed") // closed by the tear-down
    public void open() {
        arena = Arena.ofShared();
        adapter = Adapter.open(Adapter.names().getFirst());
        domain = adapter.createProtectionDomain();
        queue = adapter.createConfinedCompletionQueue(32);
        queuePair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(16, 1));
        queuePair.connect(queuePair.address());
        region = domain.register(arena.allocate(4096, 64), Access.LOCAL_WRITE);
        buffers = new BufferList(1).add(region, 0, 64);
        completions = new Completions(1);
    }

    /** Closes all of it. */
    @TearDown
    public void close() {
        queuePair.close();
        region.close();
        queue.close();
        domain.close();
        adapter.close();
        arena.close();
    }

    /** Arms, sends, waits for the event, and polls the completion. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE) // see PostAndPoll
    public long wake() {
        queue.arm(NotifyType.ANY);
        succeed(queuePair.send(7, buffers, OpFlags.NONE).status());
        succeed(queue.await(DEADLINE));
        if (queue.poll(completions) != 1) {
            throw new IllegalStateException("no completion behind an event");
        }
        succeed(completions.status(0));
        return completions.context(0);
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
