package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.lang.foreign.StructLayout;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Native memory for one call of a C library: where it leaves its errno, and what it reads or fills
 * in. Nothing of it is used after {@link #close}, when the next call has it.
 *
 * <p>It is borrowed, as making it takes longer than many a call: an arena, and memory that is got
 * and given back. There are as many as calls ever went on at once. They are never freed, and so of
 * the global arena: an automatic one's memory counts against the JVM's limit for direct memory, and
 * a call that gives something back must not fail at that.
 */
final class Scratch implements SegmentAllocator, AutoCloseable {
    static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final long ERRNO =
            STATE.byteOffset(MemoryLayout.PathElement.groupElement("errno"));

    // What the largest call wants: rdma_connect's parameters (40 bytes) with 196 of private data,
    // an ibv_device_attr of 232, 32 descriptors to wait for. What grows with the machine, as a GID
    // table, is in an arena of its own.
    private static final long BYTES = 512;

    private static final Queue<Scratch> SPARE = new ConcurrentLinkedQueue<>();

    /** Where a call leaves its errno. */
    final MemorySegment state = Arena.global().allocate(STATE);

    private final MemorySegment memory = Arena.global().allocate(BYTES, Long.BYTES);
    private long used;

    private Scratch() {}

    static Scratch borrow() {
        Scratch spare = SPARE.poll();
        return spare != null ? spare : new Scratch();
    }

    /** Zeros. */
    @Override
    public MemorySegment allocate(long bytes, long alignment) {
        long start = used + alignment - 1 & -alignment;
        MemorySegment part = memory.asSlice(start, bytes, alignment);
        used = start + bytes;
        return part.fill((byte) 0);
    }

    /** Why the call failed, as the C library left it. */
    int errno() {
        return errno(state);
    }

    static int errno(MemorySegment state) {
        return state.get(JAVA_INT, ERRNO);
    }

    /** For functions that answer NULL and set errno: the address, or the negative errno. */
    long pointer(MemorySegment answer) {
        return answer.address() != 0 ? answer.address() : -reason(state);
    }

    /**
     * For functions that answer the error by value: 0, or the negative errno. Some answer -1 and
     * set errno instead (those that the library forwards to older code).
     */
    int value(int answer) {
        return value(answer, state);
    }

    /** The same for who keeps a place for errno of its own. */
    static int value(int answer, MemorySegment state) {
        return answer == -1 ? -reason(state) : -Math.abs(answer);
    }

    private static int reason(MemorySegment state) {
        int errno = errno(state);
        return errno == 0 ? Errno.EIO : errno; // failed without saying why; 0 would read as success
    }

    /** Gives it back. */
    @Override
    public void close() {
        used = 0;
        SPARE.add(this);
    }
}
