package dev.verbena.nativetest;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Two queue pairs, on two devices where there are two, each with all it needs. */
final class Pair implements AutoCloseable {
    /** One end. */
    static final class Side implements AutoCloseable {
        final Adapter adapter;
        final ProtectionDomain domain;
        final CompletionQueue completionQueue;
        final QueuePair queuePair;
        final Arena arena = Arena.ofShared();
        private final List<MemoryRegion> regions = new ArrayList<>();

        Side(String device, QueuePairLimits limits, Consumer<Status> callback) {
            adapter = Adapter.open(device);
            domain = adapter.createProtectionDomain();
            int depth = limits.initiatorDepth() + limits.receiveDepth();
            completionQueue =
                    callback == null
                            ? adapter.createCompletionQueue(depth)
                            : adapter.createCompletionQueue(depth, callback);
            queuePair = domain.createQueuePair(completionQueue, completionQueue, limits);
        }

        MemoryRegion memory(long bytes) {
            return memory(bytes, Access.LOCAL_WRITE);
        }

        MemoryRegion memory(long bytes, Access... rights) {
            return register(arena.allocate(bytes, 64), rights);
        }

        /** Closed with this side, if not before. */
        MemoryRegion register(MemorySegment memory, Access... rights) {
            MemoryRegion region = domain.register(memory, rights);
            regions.add(region);
            return region;
        }

        /** Memory with all rights, filled. */
        MemoryRegion filled(long bytes, int seed) {
            MemoryRegion region = memory(bytes, Access.REMOTE_READ, Access.REMOTE_WRITE);
            fill(region.memory(), seed);
            return region;
        }

        /** Waits for so many completions, as in "SEND 5 SUCCESS". */
        List<String> ends(int count) {
            List<String> ends = new ArrayList<>();
            while (ends.size() < count) {
                ends.add(describe(completion()));
            }
            return ends;
        }

        /** What is there now. */
        List<String> endsNow() {
            List<String> ends = new ArrayList<>();
            Completions completions = new Completions(1);
            while (completionQueue.poll(completions) > 0) {
                ends.add(describe(completions));
            }
            return ends;
        }

        private static String describe(Completions one) {
            return one.type(0) + " " + one.context(0) + " " + one.status(0).name();
        }

        /** Waits for exactly one completion. */
        Completions completion() {
            Completions completions = new Completions(1);
            Deadline deadline = Deadline.of("completion on " + adapter.name());
            while (completionQueue.poll(completions) == 0) {
                deadline.check();
            }
            return completions;
        }

        @Override
        public void close() {
            queuePair.close();
            completionQueue.close();
            regions.forEach(MemoryRegion::close); // before their memory goes
            domain.close();
            adapter.close();
            arena.close();
        }
    }

    final Side left;
    final Side right;

    Pair(QueuePairLimits limits) {
        this(limits, null);
    }

    /** With a callback for the right one's completion queue. */
    Pair(QueuePairLimits limits, Consumer<Status> callback) {
        List<String> devices = RdmaDevices.active();
        left = new Side(devices.getFirst(), limits, null);
        right = new Side(devices.get(Math.min(1, devices.size() - 1)), limits, callback);
    }

    static Pair connected(int depth) {
        return new Pair(QueuePairLimits.depths(depth, depth)).connect();
    }

    Pair connect() {
        left.queuePair.connect(right.queuePair.address());
        right.queuePair.connect(left.queuePair.address());
        return this;
    }

    static BufferList whole(MemoryRegion region) {
        return new BufferList(1).add(region, 0, region.memory().byteSize());
    }

    static void fill(MemorySegment memory, int seed) {
        for (long i = 0; i < memory.byteSize(); i++) {
            memory.set(ValueLayout.JAVA_BYTE, i, (byte) (seed + i * 31 + (i >> 8)));
        }
    }

    @Override
    public void close() {
        left.close();
        right.close();
    }
}
