package dev.verbena.bench.child;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.time.Duration;

/**
 * Posts and polls requests of every kind on the stand-in provider, and prints how many completions
 * came. A process of its own, as the stand-in takes the place of libibverbs.
 */
public final class Requests {
    private static final int DEPTH = 64;
    private static final int BYTES = 64;
    private static final int ROUNDS = 2_000;

    private final QueuePair pair;
    private final CompletionQueue queue;
    private final Completions completions = new Completions(DEPTH);
    private int came;

    private Requests(QueuePair pair, CompletionQueue queue) {
        this.pair = pair;
        this.queue = queue;
    }

    /**
     * Runs it.
     *
     * @param arguments none
     */
    public static void main(String[] arguments) {
        int came = 0;
        for (boolean confined : new boolean[] {true, false}) {
            try (Arena arena = Arena.ofConfined();
                    Adapter adapter = Adapter.open("copy0");
                    ProtectionDomain domain = adapter.createProtectionDomain();
                    MemoryRegion region =
                            domain.register(
                                    arena.allocate(BYTES),
                                    Access.LOCAL_WRITE,
                                    Access.REMOTE_READ,
                                    Access.REMOTE_WRITE);
                    CompletionQueue queue =
                            confined
                                    ? adapter.createConfinedCompletionQueue(DEPTH)
                                    : adapter.createCompletionQueue(DEPTH);
                    SharedReceiveQueue shared =
                            domain.createSharedReceiveQueue(DEPTH, 1, event -> {});
                    MemoryWindow window = domain.createMemoryWindow();
                    QueuePair pair =
                            domain.createQueuePair(
                                    queue, queue, QueuePairLimits.depths(DEPTH, DEPTH));
                    QueuePair sharing =
                            domain.createQueuePair(
                                    queue, queue, shared, QueuePairLimits.depths(DEPTH, 1))) {
                pair.connect(pair.address());
                sharing.connect(sharing.address());
                Requests requests = new Requests(pair, queue);
                requests.run(region, window);
                succeed(shared.receive(1, new BufferList(1).add(region, 0, BYTES)).status());
                came += requests.came;
            }
        }
        System.out.println("completions: " + came);
    }

    private void run(MemoryRegion region, MemoryWindow window) {
        BufferList buffers = new BufferList(1).add(region, 0, BYTES);
        BufferList eight = new BufferList(1).add(region, 0, 8);
        RemoteMemory there = region.remoteMemory();
        for (int i = 0; i < ROUNDS; i++) {
            succeed(pair.send(i, buffers, OpFlags.NONE).status());
            expect(1, i);
            succeed(pair.write(i, buffers, there, 0, OpFlags.NONE).status());
            expect(1, i);
            succeed(pair.read(i, buffers, there, 0, OpFlags.NONE).status());
            expect(1, i);
            succeed(pair.fetchAndAdd(i, eight, there, 0, 1, OpFlags.NONE).status());
            expect(1, i);
            succeed(pair.bind(i, window, region, 0, BYTES, OpFlags.ALLOW_REMOTE_READ).status());
            expect(1, i);
            succeed(pair.invalidate(i, window, OpFlags.NONE).status());
            expect(1, i);
            succeed(pair.send(i, eight, OpFlags.SILENT_SUCCESS).status());
            for (int j = 1; j < 16; j++) {
                succeed(pair.send(i, buffers, OpFlags.DEFER).status());
            }
            succeed(pair.send(i, buffers, OpFlags.NONE).status());
            expect(16, i);
        }
        for (int i = 0; i < ROUNDS; i++) {
            queue.arm(NotifyType.ANY);
            succeed(pair.send(i, buffers, OpFlags.NONE).status());
            if (queue.await(Duration.ofSeconds(10)) != Status.SUCCESS) {
                throw new IllegalStateException("no event");
            }
            expect(1, i);
        }
        for (int i = 0; i < DEPTH; i++) {
            succeed(pair.receive(i, buffers).status());
        }
        pair.flush(); // there is no peer to send something
        int cancelled = 0;
        while (cancelled < DEPTH) {
            int count = queue.poll(completions);
            for (int i = 0; i < count; i++) {
                if (completions.status(i) != Status.CANCELLED) {
                    throw new IllegalStateException(completions.toString());
                }
            }
            cancelled += count;
        }
        came += cancelled;
    }

    private void expect(int count, long context) {
        if (queue.poll(completions) != count) {
            throw new IllegalStateException(completions + ", not " + count);
        }
        for (int i = 0; i < count; i++) {
            succeed(completions.status(i));
            if (completions.context(i) != context) {
                throw new IllegalStateException(completions.toString());
            }
        }
        came += count;
    }

    private static void succeed(Status status) {
        if (status != Status.SUCCESS) {
            throw new IllegalStateException(status.toString());
        }
    }
}
