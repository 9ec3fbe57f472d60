package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;

/**
 * Native memory blocks of one object: zeroed, accessible from any thread, freed together by {@link
 * #free}.
 *
 * <p>Not a shared arena, because closing one briefly stops every thread of the JVM (a handshake,
 * JEP 454), once for each queue pair that is closed. That protection is not needed here: the memory
 * is used only under its object's lock, which is closed first, or by a caller that keeps the object
 * alive.
 */
public final class NativeMemory implements SegmentAllocator {
    @SuppressWarnings("restricted") // making downcalls is what this module asks native access for
    private static final class C {
        private static final Linker LINKER = Linker.nativeLinker();

        /** {@code void *calloc(size_t, size_t)}, with the pointer as a {@code long}. */
        static final MethodHandle CALLOC =
                LINKER.downcallHandle(
                        LINKER.defaultLookup().findOrThrow("calloc"),
                        FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG));

        /** {@code void free(void *)}. */
        static final MethodHandle FREE =
                LINKER.downcallHandle(
                        LINKER.defaultLookup().findOrThrow("free"),
                        FunctionDescriptor.ofVoid(JAVA_LONG));

        private C() {}
    }

    private final List<Long> blocks = new ArrayList<>();

    /** Creates an allocator without any block. */
    public NativeMemory() {}

    @Override
    public synchronized MemorySegment allocate(long bytes, long alignment) {
        try {
            long block = (long) C.CALLOC.invokeExact(1L, Math.addExact(bytes, alignment - 1));
            if (block == 0) {
                throw new OutOfMemoryError("calloc(%d)".formatted(bytes));
            }
            blocks.add(block);
            return Native.at(block + alignment - 1 & -alignment, bytes);
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
    }

    /** Frees all blocks. No thread may use them during or after the call. */
    public synchronized void free() {
        try {
            for (long block : blocks) {
                C.FREE.invokeExact(block);
            }
        } catch (Throwable t) {
            throw Calls.unexpected(t);
        }
        blocks.clear();
    }
}
