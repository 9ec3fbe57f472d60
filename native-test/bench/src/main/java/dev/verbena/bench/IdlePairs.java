package dev.verbena.bench;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Adapter;
import dev.verbena.CompletionQueue;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.lang.management.ManagementFactory;

/**
 * What an idle queue pair of depth 16 takes, on a stand-in for libibverbs: of Java's heap, after a
 * collection, and of the C heap, which is what malloc has given out (glibc's mallinfo2). All are
 * connected and stay open. To be run with {@code -Xint}: compilers take of the C heap, too, which
 * moved the figure by a tenth. {@code c/idle_pairs.c} does the same in C.
 */
public final class IdlePairs {
    private static final int DEPTH = 16;
    private static final int FIRST = 100; // which load classes, and make what is made once

    private static final StructLayout INFO =
            MemoryLayout.structLayout(
                    JAVA_LONG.withName("arena"),
                    JAVA_LONG.withName("ordblks"),
                    JAVA_LONG.withName("smblks"),
                    JAVA_LONG.withName("hblks"),
                    JAVA_LONG.withName("hblkhd"),
                    JAVA_LONG.withName("usmblks"),
                    JAVA_LONG.withName("fsmblks"),
                    JAVA_LONG.withName("uordblks"),
                    JAVA_LONG.withName("fordblks"),
                    JAVA_LONG.withName("keepcost"));

    private IdlePairs() {}

    /**
     * Measures.
     *
     * @param arguments options
     * @throws Throwable when the C heap cannot be asked
     */
    public static void main(String[] arguments) throws Throwable {
        Options options = new Options("IdlePairs [--count N]", 0, arguments, "--count");
        int count = options.number("--count", 10_000);
        @SuppressWarnings("restricted")
        MethodHandle mallinfo =
                Linker.nativeLinker()
                        .downcallHandle(
                                Linker.nativeLinker().defaultLookup().findOrThrow("mallinfo2"),
                                FunctionDescriptor.of(INFO));
        QueuePair[] pairs = new QueuePair[FIRST + count];
        try (Adapter adapter = Adapter.open("copy0");
                ProtectionDomain domain = adapter.createProtectionDomain();
                CompletionQueue queue = adapter.createConfinedCompletionQueue(64)) {
            fill(pairs, 0, FIRST, domain, queue);
            long heapBefore = heap();
            long nativeBefore = allocated(mallinfo);
            fill(pairs, FIRST, pairs.length, domain, queue);
            long heapAfter = heap();
            long nativeAfter = allocated(mallinfo);
            print("heap", (double) (heapAfter - heapBefore) / count);
            print("native", (double) (nativeAfter - nativeBefore) / count);
            for (QueuePair pair : pairs) {
                pair.close();
            }
        }
    }

    @SuppressWarnings("MustBeClosed") // closed by main
    private static void fill(
            QueuePair[] pairs, int from, int to, ProtectionDomain domain, CompletionQueue queue) {
        QueuePairLimits limits = QueuePairLimits.depths(DEPTH, DEPTH);
        for (int i = from; i < to; i++) {
            pairs[i] = domain.createQueuePair(queue, queue, limits);
            pairs[i].connect(pairs[i].address());
        }
    }

    private static long heap() {
        ManagementFactory.getMemoryMXBean().gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    private static long allocated(MethodHandle mallinfo) throws Throwable {
        try (Arena arena = Arena.ofConfined()) {
            SegmentAllocator allocator = arena;
            MemorySegment info = (MemorySegment) mallinfo.invokeExact(allocator);
            return info.get(JAVA_LONG, offset("uordblks")) + info.get(JAVA_LONG, offset("hblkhd"));
        }
    }

    private static long offset(String field) {
        return INFO.byteOffset(MemoryLayout.PathElement.groupElement(field));
    }

    private static void print(String what, double bytes) {
        Results.print("idle-queue-pair", what, bytes, "B");
    }
}
