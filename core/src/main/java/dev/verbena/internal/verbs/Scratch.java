package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Call scratch: native memory for the arguments, results and errno of one call of a C library, or
 * of a few in a row. After {@link #close}, the next call reuses it.
 *
 * <p>Pooled, because creating an arena and allocating from it takes longer than many of the calls.
 * The pool grows to the largest number of concurrent calls and is never freed, so the memory comes
 * from the global arena. Memory of an automatic arena would count against the JVM's limit for
 * direct memory, and a call that destroys an object must not fail for lack of it.
 */
final class Scratch implements AutoCloseable {
    /** On Linux it has one member, the int {@code errno}. */
    static final StructLayout STATE = Linker.Option.captureStateLayout();

    // Enough for the largest call: rdma_connect's parameters (40 bytes) with 196 bytes of private
    // data, an ibv_device_attr of 232 bytes, 32 pollfd structs (256 bytes). What grows with the
    // machine, such as a GID table, gets an arena of its own.
    private static final long BYTES = 512;

    private static final long MAP_FAILED = -1;

    // One that is taken and put back by an exchange; the others are in a queue, to which adding
    // allocates.
    private static final AtomicReference<@Nullable Scratch> READY = new AtomicReference<>();
    private static final Queue<Scratch> SPARE = new ConcurrentLinkedQueue<>();

    /** Receives the captured errno of a call. */
    final MemorySegment state = Arena.global().allocate(STATE);

    private final MemorySegment memory = Arena.global().allocate(BYTES, Long.BYTES);
    private long used;

    private Scratch() {}

    static Scratch borrow() {
        Scratch spare = READY.getAndSet(null);
        if (spare == null) {
            spare = SPARE.poll();
        }
        return spare != null ? spare : new Scratch();
    }

    /** Allocates zeroed memory at a multiple of 8, valid until {@link #close}. */
    long allocate(long bytes) {
        long address = reserve(bytes);
        memory.asSlice(address - memory.address(), bytes).fill((byte) 0);
        return address;
    }

    /** Like {@link #allocate}, but not zeroed: for memory that is written before it is read. */
    long reserve(long bytes) {
        long address = memory.address() + Objects.checkFromIndexSize(used, bytes, BYTES);
        used += bytes + Long.BYTES - 1 & -Long.BYTES;
        return address;
    }

    /** Allocates a copy of an array; NULL for an empty one. */
    long copyOf(byte[] bytes) {
        if (bytes.length == 0) {
            return 0;
        }
        long copy = reserve(bytes.length);
        MemorySegment.copy(bytes, 0, Native.EVERYWHERE, JAVA_BYTE, copy, bytes.length);
        return copy;
    }

    /** The captured errno of the last call. */
    int errno() {
        return Native.getInt(state.address(), 0);
    }

    /**
     * The result of a function that returns NULL (mmap: MAP_FAILED) and sets errno: the address, or
     * a negative errno.
     */
    long pointer(long answer) {
        return answer == 0 || answer == MAP_FAILED ? -knownErrno() : answer;
    }

    /**
     * The result of a function that returns the error by value, an int: 0, or a negative errno.
     * Functions that the library forwards to older code return -1 and set errno instead.
     */
    int value(long answer) {
        int error = (int) answer;
        return error == -1 ? -knownErrno() : -Math.abs(error);
    }

    /**
     * The result of a function that returns how many, or -1 and sets errno: or a negative errno.
     */
    int count(long answer) {
        int count = (int) answer;
        return count < 0 ? -knownErrno() : count;
    }

    private int knownErrno() {
        int errno = errno();
        return errno == 0 ? Errno.EIO : errno; // failed without errno; 0 would mean success
    }

    @Override
    public void close() {
        used = 0;
        if (!READY.compareAndSet(null, this)) {
            try {
                SPARE.add(this);
            } catch (OutOfMemoryError e) {
                // Its memory is lost, but not the result of the call, perhaps an object's address.
            }
        }
    }
}
