package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.Arrays;

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
    private static final NativeFunction CALLOC = Libraries.c("calloc");
    private static final NativeFunction FREE = Libraries.c("free");

    private long[] blocks = new long[1]; // of a queue pair that has no more than a chain
    private int count;

    @Override
    public synchronized MemorySegment allocate(long bytes, long alignment) {
        if (count == blocks.length) {
            blocks = Arrays.copyOf(blocks, 2 * count);
        }
        long block = CALLOC.pointer(1, Math.addExact(bytes, alignment - 1));
        if (block < 0) {
            throw new OutOfMemoryError("calloc(" + bytes + ")");
        }
        blocks[count++] = block;
        return Native.at(block + alignment - 1 & -alignment, bytes);
    }

    /** Frees all blocks. No thread may use them during or after the call. */
    public synchronized void free() {
        while (count > 0) {
            FREE.callWithoutErrno(blocks[--count], 0, 0);
        }
    }
}
