package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeDevice;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Two connected queue pairs of a device that does not exist, with memory and a completion queue.
 */
final class Rig implements AutoCloseable {
    static final long REMOTE = 0x7000_0000_0000L;
    static final int TOKEN = 0x8765_4321;

    /** What threads of the library threw, and nobody caught; a test that means it has a handler. */
    private static final Queue<Throwable> UNCAUGHT = new ConcurrentLinkedQueue<>();

    static {
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> UNCAUGHT.add(thrown));
    }

    final FakeDevice device;
    final Adapter adapter;
    final ProtectionDomain domain;
    final CompletionQueue queue;
    final QueuePair a;
    final QueuePair b;
    final Arena arena = Arena.ofShared();
    final MemoryRegion memory;
    private boolean closed;

    Rig(QueuePairLimits limits) {
        this(limits, device -> {}, null);
    }

    Rig(QueuePairLimits limits, Consumer<FakeDevice> habits, Consumer<Status> callback) {
        this(limits, habits, callback, false);
    }

    private Rig(
            QueuePairLimits limits,
            Consumer<FakeDevice> habits,
            Consumer<Status> callback,
            boolean confined) {
        device = new FakeDevice();
        habits.accept(device);
        adapter = FakeAdapters.open(device);
        domain = adapter.createProtectionDomain();
        int depth = 2 * (limits.initiatorDepth() + limits.receiveDepth());
        if (confined) {
            queue = adapter.createConfinedCompletionQueue(depth);
        } else {
            queue =
                    callback == null
                            ? adapter.createCompletionQueue(depth)
                            : adapter.createCompletionQueue(depth, callback);
        }
        a = domain.createQueuePair(queue, queue, limits);
        b = domain.createQueuePair(queue, queue, limits);
        memory = domain.register(arena.allocate(4096, 64), Access.REMOTE_READ, Access.REMOTE_WRITE);
    }

    static Rig connected(QueuePairLimits limits) {
        return new Rig(limits).connect();
    }

    /** The same, confined to the current thread. */
    static Rig confined(QueuePairLimits limits) {
        return new Rig(limits, device -> {}, null, true).connect();
    }

    Rig connect() {
        a.connect(b.address());
        b.connect(a.address());
        return this;
    }

    /** One buffer of so many bytes. */
    BufferList bytes(int bytes) {
        return new BufferList(1).add(memory, 0, bytes);
    }

    /** Defers a write that the provider then refuses: its failure is synthesized. */
    void failADeferredWrite(long context) {
        a.write(context, bytes(8), REMOTE, 1, OpFlags.DEFER).orThrow();
        device.answer = 22;
        device.refused = 0;
        assertThat(a.write(context + 1, bytes(8), REMOTE, 1, OpFlags.NONE).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }

    /** Eight bytes that only a thread that has ended may access. */
    MemoryRegion memoryOfAnotherThread() throws Exception {
        FutureTask<MemoryRegion> elsewhere =
                new FutureTask<>(
                        () -> domain.register(Arena.ofConfined().allocate(8), Access.REMOTE_WRITE));
        Thread thread = Thread.ofPlatform().start(elsewhere);
        MemoryRegion confined = elsewhere.get(30, TimeUnit.SECONDS);
        thread.join();
        return confined;
    }

    /** What is there now, as in "SEND 5 SUCCESS". */
    List<String> poll() {
        List<String> seen = new ArrayList<>();
        Completions completions = new Completions(3);
        while (queue.poll(completions) > 0) {
            for (int i = 0; i < completions.size(); i++) {
                seen.add(
                        completions.type(i)
                                + " "
                                + completions.context(i)
                                + " "
                                + completions.status(i).name());
            }
        }
        return seen;
    }

    /** Closes everything and looks whether anything was left behind. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        a.close();
        b.close();
        memory.close();
        queue.close();
        domain.close();
        adapter.close();
        arena.close();
        assertThat(device.panics).as("kernel panics").isEmpty();
        assertThat(device.overruns).as("completion queue overruns").isZero();
        // The adapter's thread may hold one for a moment while it handles an event of the device.
        device.until(() -> device.objects() == 0);
        device.dispose();
        nobodyThrew();
    }

    /** Fails when a thread of the library threw something. */
    static void nobodyThrew() {
        List<Throwable> thrown = new ArrayList<>();
        while (!UNCAUGHT.isEmpty()) {
            thrown.add(UNCAUGHT.remove());
        }
        if (!thrown.isEmpty()) {
            throw new AssertionError("A thread threw " + thrown, thrown.getFirst());
        }
    }
}
