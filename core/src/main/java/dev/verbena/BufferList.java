package dev.verbena;

import dev.verbena.internal.verbs.SgeArray;

import java.util.Objects;

/**
 * Which bytes a request sends, or where it puts what comes: an array of NDK_SGE in native memory,
 * which are the bytes of {@code ibv_sge} too. Made once and filled anew for each post.
 *
 * <p>May be changed and reused as soon as the post has returned. For one thread at a time.
 */
public final class BufferList {
    private final SgeArray entries;
    private final int capacity;
    private int size;
    private long bytes;

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
        this.entries = new SgeArray(capacity);
        this.capacity = capacity;
    }

    /**
     * Forgets all buffers.
     *
     * @return this list
     */
    public BufferList clear() {
        size = 0;
        bytes = 0;
        return this;
    }

    /**
     * Adds a part of a region.
     *
     * @param region registered memory
     * @param offset the first byte, counted from the region's start
     * @param length how many bytes; verbs has 32 bits for it, so 4 GiB less one at most
     * @return this list
     * @throws IllegalStateException for a closed region
     * @throws IndexOutOfBoundsException for bytes outside the region, and when the list is full
     */
    public BufferList add(MemoryRegion region, long offset, long length) {
        region.ensureOpen();
        Objects.checkFromIndexSize(offset, length, region.memory().byteSize());
        if (length > 0xFFFF_FFFFL) {
            throw new IndexOutOfBoundsException(
                    "One buffer holds 4 GiB less one byte at most, not " + length);
        }
        Objects.checkIndex(size, capacity);
        entries.set(size, region.memory().address() + offset, (int) length, region.localToken());
        bytes += length;
        size++;
        return this;
    }

    /**
     * How many buffers it names.
     *
     * @return 0 or more
     */
    public int size() {
        return size;
    }

    /**
     * How many bytes it names.
     *
     * @return the buffers' lengths, added up
     */
    public long bytes() {
        return bytes;
    }

    long address() {
        return entries.address();
    }
}
