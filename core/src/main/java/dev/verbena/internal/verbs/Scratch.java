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
 * Call scratch: native memory for the arguments, results and errno of one call of a C library.
 * After {@link #close}, the next call reuses it.
 *
 * <p>Pooled, because creating an arena and allocating from it takes longer than many of the calls.
 * The pool grows to the largest number of concurrent calls and is never freed, so the memory comes
 * from the global arena. Memory of an automatic arena would count against the JVM's limit for
 * direct memory, and a call that destroys an object must not fail for lack of it.
 */
final class Scratch implements SegmentAllocator, AutoCloseable {
    static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final long ERRNO =
            STATE.byteOffset(MemoryLayout.PathElement.groupElement("errno"));

    // Enough for the largest call: rdma_connect's parameters (40 bytes) with 196 bytes of private
    // data, an ibv_device_attr of 232 bytes, 32 pollfd structs (256 bytes). What grows with the
    // machine, such as a GID table, gets an arena of its own.
    private static final long BYTES = 512;

    private static final Queue<Scratch> SPARE = new ConcurrentLinkedQueue<>();

    /** Receives the captured errno of a call. */
    final MemorySegment state = Arena.global().allocate(STATE);

    private final MemorySegment memory = Arena.global().allocate(BYTES, Long.BYTES);
    private long used;

    private Scratch() {}

    static Scratch borrow() {
        Scratch spare = SPARE.poll();
        return spare != null ? spare : new Scratch();
    }

    /** Allocates zeroed memory, valid until {@link #close}. */
    @Override
    public MemorySegment allocate(long bytes, long alignment) {
        long start = used + alignment - 1 & -alignment;
        MemorySegment part = memory.asSlice(start, bytes, alignment);
        used = start + bytes;
        return part.fill((byte) 0);
    }

    /** The captured errno of the last call. */
    int errno() {
        return errno(state);
    }

    static int errno(MemorySegment state) {
        return state.get(JAVA_INT, ERRNO);
    }

    /**
     * The result of a function that returns NULL and sets errno: the address, or a negative errno.
     */
    long pointer(MemorySegment answer) {
        return answer.address() != 0 ? answer.address() : -knownErrno(state);
    }

    /**
     * The result of a function that returns the error by value: 0, or a negative errno. Functions
     * that the library forwards to older code return -1 and set errno instead.
     */
    int value(int answer) {
        return value(answer, state);
    }

    /** The same for a caller that has its own capture state. */
    static int value(int answer, MemorySegment state) {
        return answer == -1 ? -knownErrno(state) : -Math.abs(answer);
    }

    private static int knownErrno(MemorySegment state) {
        int errno = errno(state);
        return errno == 0 ? Errno.EIO : errno; // failed without errno; 0 would mean success
    }

    /** Returns this to the pool. */
    @Override
    public void close() {
        used = 0;
        SPARE.add(this);
    }
}
