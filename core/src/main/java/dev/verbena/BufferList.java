package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.Buffers;
import dev.verbena.internal.queue.RegisteredMemory;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * The scatter-gather list of a request: the bytes that it sends, or the memory that it writes to.
 * An array of NDK_SGE in native memory, which has the layout of {@code ibv_sge}. Create it once and
 * refill it for each post.
 *
 * <p>May be changed and reused as soon as the post has returned. For one thread at a time. If
 * another thread changes the list during a post, the message may have the wrong bytes, but nothing
 * worse happens: a post reads the size once, copies at most as many buffers as the request can
 * hold, and checks the bytes of an inline request against the bounds of their memory.
 *
 * <p><b>Freed memory.</b> {@link #add} and {@link #addUnregistered} throw for memory whose arena is
 * closed, and a post returns {@link Status#ACCESS_VIOLATION} if an arena was closed since. After an
 * accepted post, the memory must stay allocated until the completion: there is no further check,
 * and the device keeps using the registered pages, whatever they contain by then. Registered memory
 * may be named also if it is confined to another thread, because the device accesses it, not this
 * thread. But {@link #addUnregistered} throws for such memory, and a post with {@link
 * OpFlags#INLINE} returns ACCESS_VIOLATION. During a post with INLINE, whose bytes the processor
 * reads, no other thread may close the region, pool or arena of its memory.
 */
public final class BufferList {
    final Buffers buffers;
    private final @Nullable RegisteredArena arena;

    /**
     * Creates an empty list.
     *
     * @param capacity how many buffers it can name, at least 1
     */
    public BufferList(int capacity) {
        this(null, capacity);
    }

    /**
     * Creates an empty list for segments of an arena: {@link #add(MemorySegment)}.
     *
     * @param capacity how many buffers it can name, at least 1
     * @param arena where its segments come from; parts of regions can be added as well
     */
    public BufferList(int capacity, RegisteredArena arena) {
        this(Arguments.notNull(arena, "arena"), capacity);
    }

    private BufferList(@Nullable RegisteredArena arena, int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException(
                    "A list of buffers has a capacity of 1 or more, not " + capacity);
        }
        this.buffers = new Buffers(capacity);
        this.arena = arena;
    }

    /**
     * Creates a list of one buffer, a whole region.
     *
     * @param region registered memory of less than 4 GiB
     * @return a new list with room for this buffer only
     */
    @CheckReturnValue
    public static BufferList of(MemoryRegion region) {
        return new BufferList(1).add(Arguments.notNull(region, "region"), 0, region.bytes());
    }

    /**
     * Removes all buffers.
     *
     * @return this list
     */
    public BufferList clear() {
        buffers.clear();
        return this;
    }

    /**
     * Adds a part of a region.
     *
     * @param region registered memory
     * @param offset the first byte, counted from the region's start
     * @param length how many bytes: at most 4 GiB less one, because verbs stores it in 32 bits
     * @return this list
     * @throws IllegalStateException if the region or the arena of its memory is closed
     * @throws IndexOutOfBoundsException for bytes outside the region, and if the list is full
     */
    public BufferList add(MemoryRegion region, long offset, long length) {
        region.ensureOpen();
        Objects.checkFromIndexSize(offset, length, region.bytes());
        checkLength(length);
        return add(region.registered(), offset, length);
    }

    /** Adds a part of a pooled buffer; the caller has checked the range. */
    BufferList add(RegisteredMemory memory, long offset, long length) {
        if (!buffers.add(memory, offset, length)) {
            throw gone(memory.memory());
        }
        return this;
    }

    /**
     * Adds a segment of the arena that this list was created for.
     *
     * @param segment from that arena, or a part of one; at most 4 GiB less one byte
     * @return this list
     * @throws IllegalArgumentException for other memory
     * @throws IllegalStateException if the arena is closed, or the list was created without one
     * @throws IndexOutOfBoundsException when the list is full
     */
    public BufferList add(MemorySegment segment) {
        if (arena == null) {
            throw new IllegalStateException(
                    "This list was created without an arena: create it by new BufferList(capacity, arena), or name a region, offset and length");
        }
        MemoryRegion region = arena.regionOf(segment);
        return add(region, segment.address() - region.start(), segment.byteSize());
    }

    /**
     * Adds memory that is not registered, for requests with {@link OpFlags#INLINE} only, whose
     * bytes the post copies.
     *
     * @param memory native memory; no other thread may close its arena during the post
     * @return this list
     * @throws IllegalArgumentException for memory on the Java heap
     * @throws IllegalStateException for memory whose arena is closed
     * @throws WrongThreadException for memory that is confined to another thread
     * @throws IndexOutOfBoundsException when the list is full
     */
    public BufferList addUnregistered(MemorySegment memory) {
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "This memory segment is on the Java heap: copy it to native memory, as from"
                            + " Arena.ofConfined().allocate(…), first");
        }
        if (!memory.isAccessibleBy(Thread.currentThread())) {
            throw new WrongThreadException(
                    "This memory is confined to another thread (Arena.ofConfined), and a post with"
                            + " INLINE reads it: post it there, or use Arena.ofShared()");
        }
        checkLength(memory.byteSize());
        if (!buffers.addUnregistered(memory)) {
            throw gone(memory);
        }
        return this;
    }

    /**
     * Adds a part of another list, whose bytes are counted through all of its buffers. The part may
     * take several buffers; some of them are added also if it throws.
     *
     * @param other a list, which may be changed afterwards
     * @param offset the first byte
     * @param length how many bytes
     * @return this list
     * @throws IllegalStateException if an arena of that memory is closed
     * @throws IndexOutOfBoundsException for bytes outside that list, and if this list is full
     */
    public BufferList add(BufferList other, long offset, long length) {
        Objects.checkFromIndexSize(offset, length, other.bytes());
        if (!buffers.add(other.buffers, offset, length)) {
            throw new IllegalStateException("An arena of the other list's memory was closed");
        }
        return this;
    }

    private static void checkLength(long length) {
        if (length > 0xFFFF_FFFFL) {
            throw new IndexOutOfBoundsException(
                    "One buffer holds 4 GiB less one byte at most, not " + length);
        }
    }

    private static IllegalStateException gone(MemorySegment memory) {
        return new IllegalStateException(
                ("The %d bytes of memory at 0x%x cannot be used, their arena was closed: close it after"
                                + " the last completion of a request that names them, and after"
                                + " their MemoryRegion")
                        .formatted(memory.byteSize(), memory.address()));
    }

    /**
     * The number of buffers in the list.
     *
     * @return 0 or more
     */
    public int size() {
        return buffers.size();
    }

    /**
     * The number of bytes in all buffers.
     *
     * @return the sum of the buffers' lengths
     */
    public long bytes() {
        return buffers.bytes();
    }
}
