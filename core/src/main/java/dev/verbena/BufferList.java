package dev.verbena;

import dev.verbena.internal.queue.Buffers;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * Which bytes a request sends, or where it puts what comes: an array of NDK_SGE in native memory,
 * which are the bytes of {@code ibv_sge} too. Made once and filled anew for each post.
 *
 * <p>May be changed and reused as soon as the post has returned. For one thread at a time: a list
 * that another thread changes during a post may make a message of the wrong bytes, and nothing
 * worse. A post reads the size once, copies no more than a request has room for, and compares the
 * bytes of an inline request with the memory that they are in.
 *
 * <p><b>Memory that is gone.</b> {@link #add} and {@link #addUnregistered} throw for memory whose
 * arena is closed, and each post answers {@link Status#ACCESS_VIOLATION} when an arena was closed
 * since. What a post has accepted has to stay until its completion: nobody looks again, and the
 * device goes on with the pages that were registered, whatever they hold by then. Memory that is
 * confined to another thread may be named when it is registered, because the device reads and
 * writes it then, not this thread; {@link #addUnregistered} throws for it, and a post with {@link
 * OpFlags#INLINE} answers ACCESS_VIOLATION.
 */
public final class BufferList {
    final Buffers buffers;

    /**
     * Makes an empty list.
     *
     * @param capacity how many buffers it can name, at least 1
     */
    public BufferList(int capacity) {
        if (capacity < 1) {
            throw new IllegalArgumentException(
                    "A list of buffers has room for 1 or more, not " + capacity);
        }
        this.buffers = new Buffers(capacity);
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
     * @param length how many bytes; verbs has 32 bits for it, so 4 GiB less one at most
     * @return this list
     * @throws IllegalStateException for a closed region, and for one whose memory's arena is closed
     * @throws IndexOutOfBoundsException for bytes outside the region, and when the list is full
     */
    public BufferList add(MemoryRegion region, long offset, long length) {
        region.ensureOpen();
        Objects.checkFromIndexSize(offset, length, region.bytes());
        checkLength(length);
        if (!buffers.add(region.registered(), offset, length)) {
            throw gone(region.memory());
        }
        return this;
    }

    /**
     * Adds memory that is not registered, for requests with {@link OpFlags#INLINE} only: their
     * bytes are copied by the post.
     *
     * @param memory native memory; it must not be closed by another thread during the post
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

    private static void checkLength(long length) {
        if (length > 0xFFFF_FFFFL) {
            throw new IndexOutOfBoundsException(
                    "One buffer holds 4 GiB less one byte at most, not " + length);
        }
    }

    private static IllegalStateException gone(MemorySegment memory) {
        return new IllegalStateException(
                ("The %d bytes of memory at 0x%x are gone, their arena was closed: close it after"
                                + " the last completion of a request that names them, and after"
                                + " their MemoryRegion")
                        .formatted(memory.byteSize(), memory.address()));
    }

    /**
     * How many buffers it names.
     *
     * @return 0 or more
     */
    public int size() {
        return buffers.size();
    }

    /**
     * How many bytes it names.
     *
     * @return the buffers' lengths, added up
     */
    public long bytes() {
        return buffers.bytes();
    }
}
