package dev.verbena;

import dev.verbena.internal.verbs.SgeArray;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * Which bytes a request sends, or where it puts what comes: an array of NDK_SGE in native memory,
 * which are the bytes of {@code ibv_sge} too. Made once and filled anew for each post.
 *
 * <p>May be changed and reused as soon as the post has returned. For one thread at a time.
 */
public final class BufferList {
    private final SgeArray entries;
    private final Object[] owners; // a MemoryRegion, or the segment of what is not registered
    private int size;
    private long bytes;
    private boolean registered = true;
    private boolean writable = true;
    private ProtectionDomain domain; // of the first region
    private boolean mixed;
    private ProtectionDomain only; // of all that is in it, or null

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
        this.owners = new Object[capacity];
    }

    /**
     * Forgets all buffers.
     *
     * @return this list
     */
    public BufferList clear() {
        size = 0;
        bytes = 0;
        registered = true;
        writable = true;
        domain = null;
        mixed = false;
        only = null;
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
        Objects.checkFromIndexSize(offset, length, region.bytes());
        add(region, region.start() + offset, length, region.localToken());
        writable &= region.locallyWritable();
        if (domain == null) {
            domain = region.domain();
        }
        mixed |= domain != region.domain();
        only = registered && !mixed ? domain : null;
        return this;
    }

    /**
     * Adds memory that is not registered, for requests with {@link OpFlags#INLINE} only: their
     * bytes are copied by the post.
     *
     * @param memory native memory; a post refuses it when its arena was closed before, and it must
     *     not be closed by another thread meanwhile
     * @return this list
     * @throws IllegalArgumentException for memory on the Java heap
     * @throws IndexOutOfBoundsException when the list is full
     */
    public BufferList addUnregistered(MemorySegment memory) {
        if (!memory.isNative()) {
            throw new IllegalArgumentException(
                    "This memory segment is on the Java heap: copy it to native memory, as from"
                            + " Arena.ofConfined().allocate(…), first");
        }
        add(memory, memory.address(), memory.byteSize(), 0);
        registered = false;
        only = null;
        return this;
    }

    private void add(Object owner, long address, long length, int token) {
        if (length > 0xFFFF_FFFFL) {
            throw new IndexOutOfBoundsException(
                    "One buffer holds 4 GiB less one byte at most, not " + length);
        }
        Objects.checkIndex(size, owners.length);
        entries.set(size, address, (int) length, token);
        owners[size] = owner;
        bytes += length;
        size++;
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

    SgeArray entries() {
        return entries;
    }

    /** Whether a device takes it as it is: regions of one domain, and nothing else. */
    boolean isPlainlyOf(ProtectionDomain one) {
        return only == one;
    }

    /** Whether its regions are all of one domain. */
    boolean isOf(ProtectionDomain one) {
        return domain == null || (domain == one && !mixed);
    }

    /** Whether the device has a token for each buffer. */
    boolean registered() {
        return registered;
    }

    /** Whether the device may write into each buffer. */
    boolean writable() {
        return registered && writable;
    }

    /** Whether each buffer may be read by this thread now, so that its bytes can be copied. */
    boolean readable() {
        for (int i = 0; i < size; i++) {
            MemorySegment memory =
                    owners[i] instanceof MemoryRegion region
                            ? region.memory()
                            : (MemorySegment) owners[i];
            if (!memory.scope().isAlive()) {
                return false;
            }
        }
        return true;
    }
}
