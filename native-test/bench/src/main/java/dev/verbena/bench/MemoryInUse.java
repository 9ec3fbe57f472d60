package dev.verbena.bench;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.management.ManagementFactory;

import javax.management.JMException;
import javax.management.ObjectName;

/**
 * How much memory this process uses: of Java's heap, after a collection, and of the C heap, which
 * is what malloc has given out (glibc's mallinfo2). Programs that measure it run with {@code
 * -Xint}: compilers take of the C heap, too, which moved the figures by a tenth.
 *
 * @param heap bytes of Java's heap
 * @param ofMalloc bytes of the C heap
 */
record MemoryInUse(long heap, long ofMalloc) {
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

    @SuppressWarnings("restricted")
    private static final MethodHandle MALLINFO =
            Linker.nativeLinker()
                    .downcallHandle(
                            Linker.nativeLinker().defaultLookup().findOrThrow("mallinfo2"),
                            FunctionDescriptor.of(INFO));

    /** What is in use now. */
    static MemoryInUse now() {
        ManagementFactory.getMemoryMXBean().gc();
        long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
        return new MemoryInUse(heap, allocated());
    }

    /** The same without what the provider has allocated, which is the stand-in for libibverbs. */
    MemoryInUse withoutProvider() {
        @SuppressWarnings("restricted")
        MethodHandle ofProvider =
                Linker.nativeLinker()
                        .downcallHandle(
                                SymbolLookup.libraryLookup("libibverbs.so.1", Arena.global())
                                        .findOrThrow("stand_in_allocated"),
                                FunctionDescriptor.of(JAVA_LONG));
        try {
            return new MemoryInUse(heap, ofMalloc - (long) ofProvider.invokeExact());
        } catch (Throwable t) {
            throw new IllegalStateException("The stand-in cannot be asked", t);
        }
    }

    private static long allocated() {
        try (Arena arena = Arena.ofConfined()) {
            SegmentAllocator allocator = arena;
            MemorySegment info = (MemorySegment) MALLINFO.invokeExact(allocator);
            return info.get(JAVA_LONG, offset("uordblks")) + info.get(JAVA_LONG, offset("hblkhd"));
        } catch (Throwable t) {
            throw new IllegalStateException("The C heap cannot be asked", t);
        }
    }

    private static long offset(String field) {
        return INFO.byteOffset(MemoryLayout.PathElement.groupElement(field));
    }

    /** Prints what each of so many things took that were made since. */
    void print(String row, MemoryInUse before, int count) {
        Results.print(row, "heap", (double) (heap - before.heap) / count, "B");
        Results.print(row, "native", (double) (ofMalloc - before.ofMalloc) / count, "B");
    }

    /** All reachable objects by class, most bytes first, as {@code jcmd GC.class_histogram}. */
    static String histogram() throws JMException {
        return (String)
                ManagementFactory.getPlatformMBeanServer()
                        .invoke(
                                new ObjectName("com.sun.management:type=DiagnosticCommand"),
                                "gcClassHistogram",
                                new Object[] {new String[0]},
                                new String[] {String[].class.getName()});
    }
}
