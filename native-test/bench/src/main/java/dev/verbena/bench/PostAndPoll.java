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
import dev.verbena.RequestBatch;
import dev.verbena.Status;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

import java.lang.foreign.Arena;
import java.util.concurrent.TimeUnit;

/**
 * The whole way of a request, from the API to the provider and back, on a stand-in for libibverbs
 * whose provider only copies: what is measured is this library. {@code c/post_poll.c} does the same
 * in C.
 *
 * <p>What is measured is not inlined into JMH's loop: the JIT compiles that while it runs, and what
 * is in it less well (OSR; a chain cost half as much again) than the methods of a running program.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class PostAndPoll {
    private static final int CHAIN = 16;
    private static final int BYTES = 64;

    /** Whether any thread may use the queues, which take locks then, or one only. */
    public enum Threads {
        /** Any thread. */
        SHARED,
        /** The thread that made them. */
        CONFINED
    }

    /** The mode that is measured. */
    @Param public Threads threads;

    private Arena arena;
    private Adapter adapter;
    private ProtectionDomain domain;
    private CompletionQueue queue;
    private QueuePair queuePair;
    private MemoryRegion region;
    private BufferList buffers;
    private Completions completions;
    private RequestBatch batch;
    private RequestBatch prepared;
    private long posts;

    /** Opens the stand-in's device and connects a queue pair to itself. */
    @Setup
    @SuppressWarnings("MustBeClosed") // closed by the tear-down
    public void open() {
        arena = Arena.ofShared();
        adapter = Adapter.open(Adapter.names().getFirst());
        domain = adapter.createProtectionDomain();
        queue =
                threads == Threads.CONFINED
                        ? adapter.createConfinedCompletionQueue(256)
                        : adapter.createCompletionQueue(256);
        queuePair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(128, 1));
        queuePair.connect(queuePair.address());
        region = domain.register(arena.allocate(4096, 64), Access.LOCAL_WRITE);
        buffers = new BufferList(1).add(region, 0, BYTES);
        completions = new Completions(CHAIN);
        batch = new RequestBatch(queuePair, CHAIN);
        prepared = new RequestBatch(queuePair, CHAIN);
        for (int i = 1; i <= CHAIN; i++) {
            succeed(prepared.send(i, buffers, OpFlags.NONE).status());
        }
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

    /** One signalled send, and its completion. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    public long one() {
        succeed(queuePair.send(7, buffers, OpFlags.NONE).status());
        return poll(1);
    }

    /** Sixteen signalled sends that reach the provider as one chain, and their completions. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    @OperationsPerInvocation(CHAIN)
    public long chain() {
        for (int i = 1; i < CHAIN; i++) {
            succeed(queuePair.send(i, buffers, OpFlags.DEFER).status());
        }
        succeed(queuePair.send(CHAIN, buffers, OpFlags.NONE).status());
        return poll(CHAIN);
    }

    /** Sixteen signalled sends, recorded in a batch and posted by one call. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    @OperationsPerInvocation(CHAIN)
    public long batch() {
        batch.clear();
        for (int i = 1; i <= CHAIN; i++) {
            succeed(batch.send(i, buffers, OpFlags.NONE).status());
        }
        succeed(batch.post().status());
        return poll(CHAIN);
    }

    /** Such a batch that was recorded before, with another context for one of them. */
    @Benchmark
    @CompilerControl(CompilerControl.Mode.DONT_INLINE)
    @OperationsPerInvocation(CHAIN)
    public long prepared() {
        succeed(prepared.context(0, ++posts).post().status());
        return poll(CHAIN);
    }

    private long poll(int expected) {
        int count = queue.poll(completions);
        if (count != expected) {
            throw new IllegalStateException("%d of %d".formatted(count, expected));
        }
        long sum = 0;
        for (int i = 0; i < count; i++) {
            succeed(completions.status(i));
            sum += completions.context(i);
        }
        return sum;
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
