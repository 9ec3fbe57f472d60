package dev.verbena;

import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.SgeArray;

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
    /** What {@link #nameInline} answers when there are more bytes than fit into a request. */
    static final long NO_ROOM = -1;

    /** What {@link #nameInline} answers when a buffer's bytes cannot be read. */
    static final long UNREADABLE = -2;

    private final SgeArray entries;
    private final MemorySegment[] memories; // the whole of what each buffer is a part of
    private MemorySegment.Scope scope; // of the first of them, as long as there is one
    private boolean scopes; // whether others have another
    private int size; // never above the capacity, whatever several threads do at once
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
        this.memories = new MemorySegment[capacity];
    }

    /**
     * Forgets all buffers.
     *
     * @return this list
     */
    public BufferList clear() {
        size = 0;
        bytes = 0;
        scopes = false;
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
     * @throws IllegalStateException for a closed region, and for one whose memory's arena is closed
     * @throws IndexOutOfBoundsException for bytes outside the region, and when the list is full
     */
    public BufferList add(MemoryRegion region, long offset, long length) {
        region.ensureOpen();
        Objects.checkFromIndexSize(offset, length, region.bytes());
        add(region.memory(), region.start() + offset, length, region.localToken());
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
        add(memory, memory.address(), memory.byteSize(), 0);
        registered = false;
        only = null;
        return this;
    }

    @SuppressWarnings("ReferenceEquality") // another object for the same scope is noted once more
    private void add(MemorySegment memory, long address, long length, int token) {
        if (length > 0xFFFF_FFFFL) {
            throw new IndexOutOfBoundsException(
                    "One buffer holds 4 GiB less one byte at most, not " + length);
        }
        int index = Objects.checkIndex(size, memories.length);
        MemorySegment.Scope of = memory.scope();
        if (!of.isAlive()) {
            throw gone(memory);
        }
        entries.set(index, address, (int) length, token);
        memories[index] = memory;
        if (of != scope) {
            noteScope(index, of);
        }
        bytes += length;
        size = index + 1;
    }

    private static IllegalStateException gone(MemorySegment memory) {
        return new IllegalStateException(
                ("The %d bytes of memory at 0x%x are gone, their arena was closed: close it after"
                                + " the last completion of a request that names them, and after"
                                + " their MemoryRegion")
                        .formatted(memory.byteSize(), memory.address()));
    }

    private void noteScope(int index, MemorySegment.Scope of) {
        if (index == 0) {
            scope = of;
        } else {
            scopes = true;
        }
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

    /**
     * Whether no arena of what it names was closed. For requests that the device gets its bytes
     * for; who reads them here looks at each buffer.
     *
     * @param count the {@link #size}, as the caller has read it
     */
    boolean alive(int count) {
        MemorySegment.Scope first = scope;
        return count == 0 || (first != null && first.isAlive() && (!scopes || allAlive(count)));
    }

    private boolean allAlive(int count) {
        for (int i = 0; i < count; i++) {
            MemorySegment memory = memories[i];
            if (memory == null || !memory.scope().isAlive()) {
                return false;
            }
        }
        return true;
    }

    /**
     * Names this list's bytes in a request that carries them in itself.
     *
     * <p>Another thread may change the list meanwhile, although it must not: size, addresses and
     * lengths are read once, and each buffer is compared with the memory that it is a part of,
     * because provider and JDK would read whatever address they are given.
     *
     * @param request an initiator request that was begun
     * @param count the {@link #size}, as the caller has read it
     * @param most how many bytes a request may carry
     * @param gather whether the bytes are copied now; if not, the provider copies them when it
     *     takes the request
     * @return how many bytes, or {@link #NO_ROOM}, or {@link #UNREADABLE}
     */
    long nameInline(SendChain request, int count, long most, boolean gather) {
        long total = 0;
        for (int i = 0; i < count; i++) {
            MemorySegment memory = memories[i];
            long address = entries.addressOf(i);
            long lengthAndKey = entries.lengthAndKeyOf(i);
            long length = SgeArray.lengthIn(lengthAndKey);
            if (length > most - total) {
                return NO_ROOM;
            }
            if (!gather) {
                if (memory == null || !readable(memory, address - memory.address(), length)) {
                    return UNREADABLE;
                }
                request.buffer(i, address, lengthAndKey);
            } else if (!gather(request, total, memory, address, length)) {
                return UNREADABLE;
            }
            total += length;
        }
        if (gather) {
            request.ownBytes(total);
        } else {
            request.ownBuffers(count);
        }
        return total;
    }

    /** Copies; the JDK looks whether it may, and goes on looking while it does. */
    private static boolean gather(
            SendChain request, long before, MemorySegment memory, long address, long length) {
        if (memory == null) {
            return false;
        }
        try {
            request.gather(before, memory, address - memory.address(), length);
            return true;
        } catch (IllegalStateException | WrongThreadException | IndexOutOfBoundsException e) {
            return false; // gone, another thread's, or not what the list says
        }
    }

    private static boolean readable(MemorySegment memory, long offset, long length) {
        return offset >= 0
                && offset <= memory.byteSize() - length
                && memory.scope().isAlive()
                && memory.isAccessibleBy(Thread.currentThread());
    }
}
