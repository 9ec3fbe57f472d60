package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.SgeArray;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;

/**
 * A list of buffers, as posts see it: the {@code ibv_sge} array, the memory that each entry lies
 * in, and what holds for all entries together. The public {@code BufferList} fills it.
 *
 * <p>For one thread at a time. A caller that lets another thread change a list during a post may
 * send the wrong bytes, and nothing worse: a post reads the size once, copies no more than a
 * request has room for, and compares the bytes of an inline request with the memory that they lie
 * in.
 */
@SuppressWarnings("ReferenceEquality") // domains and scopes are the same object or another one
public final class Buffers {
    /** What {@link #copyInline} returns when there are more bytes than fit into a request. */
    static final long TOO_MANY = -1;

    /** What {@link #copyInline} returns when a buffer's bytes cannot be read. */
    static final long UNREADABLE = -2;

    private final SgeArray entries;
    private final @Nullable MemorySegment[]
            memories; // the whole memory that each buffer is a part of
    private MemorySegment.@Nullable Scope scope; // of all buffers; null when there are several
    private int size; // never above the capacity, whatever several threads do at once
    private long bytes;
    private boolean registered = true;
    private boolean writable = true;
    private @Nullable Domain domain; // of the first region
    private boolean severalDomains;
    private @Nullable Domain onlyDomain; // null when a buffer is not registered, or of another

    public Buffers(int capacity) {
        this.entries = new SgeArray(capacity);
        this.memories = new MemorySegment[capacity];
    }

    public void clear() {
        size = 0;
        bytes = 0;
        registered = true;
        writable = true;
        domain = null;
        severalDomains = false;
        onlyDomain = null;
    }

    /**
     * Adds a part of a registered region.
     *
     * @param offset where the buffer starts in it; the caller has checked the range
     * @param length how many bytes, at most 4 GiB less one
     * @return false when the memory's arena is closed; nothing was added then
     * @throws IndexOutOfBoundsException when the list is full
     */
    public boolean add(RegisteredMemory region, long offset, long length) {
        if (!add(region.memory(), region.start() + offset, length, region.localKey())) {
            return false;
        }
        writable &= region.writable();
        addDomain(region.domain());
        return true;
    }

    private void addDomain(@Nullable Domain of) {
        if (domain == null) {
            domain = of;
        }
        severalDomains |= domain != of;
        onlyDomain = registered && !severalDomains ? domain : null;
    }

    /**
     * Adds a part of another list, whose bytes are counted through its buffers.
     *
     * @param offset the first byte; the caller has checked the range
     * @return false when an arena is closed; some of the part may have been added then
     * @throws IndexOutOfBoundsException when the list is full
     */
    public boolean add(Buffers other, long offset, long length) {
        long skip = offset;
        long left = length;
        for (int i = 0; left > 0; i++) {
            long here = other.entries.lengthOf(i);
            long taken = Math.min(here - skip, left);
            MemorySegment memory = other.memories[i];
            if (taken <= 0) {
                skip -= here;
                continue;
            }
            long address = other.entries.addressOf(i) + skip;
            if (memory == null || !add(memory, address, taken, other.entries.keyOf(i))) {
                return false;
            }
            // Each time: an exception or a refusal may come next and leave this part here.
            registered &= other.registered;
            writable &= other.writable;
            severalDomains |= other.severalDomains;
            addDomain(other.domain);
            skip = 0;
            left -= taken;
        }
        return true;
    }

    /**
     * Adds memory that is not registered, for inline requests only.
     *
     * @return false when its arena is closed; nothing was added then
     * @throws IndexOutOfBoundsException when the list is full
     */
    public boolean addUnregistered(MemorySegment memory) {
        if (!add(memory, memory.address(), memory.byteSize(), 0)) {
            return false;
        }
        registered = false;
        onlyDomain = null;
        return true;
    }

    private boolean add(MemorySegment memory, long address, long length, int key) {
        int index = size;
        if (index >= memories.length) {
            throw new IndexOutOfBoundsException(
                    "This list of buffers is full: it holds %s at most. Clear it, or create one with a higher capacity"
                            .formatted(Text.count(memories.length, "buffer")));
        }
        MemorySegment.Scope of = memory.scope();
        if (!of.isAlive()) {
            return false;
        }
        entries.set(index, address, (int) length, key);
        memories[index] = memory;
        if (of != scope) {
            scope = index == 0 ? of : null;
        }
        bytes += length;
        size = index + 1;
        return true;
    }

    public int size() {
        return size;
    }

    public long bytes() {
        return bytes;
    }

    long address() {
        return entries.address();
    }

    SgeArray entries() {
        return entries;
    }

    MemorySegment.@Nullable Scope scopeOf(int index) {
        MemorySegment memory = memories[index];
        return memory == null ? null : memory.scope();
    }

    /** The refusal of an inline request, by what {@link #copyInline} returned. */
    static PostResult refusal(long copied) {
        return copied == TOO_MANY ? PostResult.TOO_MANY_INLINE_BYTES : PostResult.UNREADABLE;
    }

    /**
     * Checks the buffers of a request whose bytes the device reads or writes.
     *
     * @param count the {@link #size}, as the caller has read it
     */
    public PostResult check(Domain one, int count) {
        if (onlyDomain != one) {
            if (!registered) {
                return PostResult.NOT_REGISTERED;
            }
            if (!isOf(one)) {
                return PostResult.OTHER_DOMAIN;
            }
        }
        return alive(count) ? PostResult.ACCEPTED : PostResult.ARENA_CLOSED;
    }

    boolean isOf(Domain one) {
        return domain == null || (domain == one && !severalDomains);
    }

    /** Whether the device may write into each buffer. */
    boolean writable() {
        return registered && writable;
    }

    /**
     * Whether no arena of the buffers was closed. For requests whose bytes the device reads or
     * writes; those of inline requests are checked one by one.
     *
     * @param count the {@link #size}, as the caller has read it
     */
    boolean alive(int count) {
        MemorySegment.Scope all = scope;
        return (all != null && all.isAlive()) || allAlive(count);
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
     * Copies the bytes into a request that carries them itself. Size, addresses and lengths are
     * read once, and the JDK checks the memory while it copies. A provider would read whatever
     * address it is given, and another thread may close the memory's arena or region meanwhile.
     *
     * @param count the {@link #size}, as the caller has read it
     * @param most how many bytes a request may carry
     * @return how many bytes, or {@link #TOO_MANY}, or {@link #UNREADABLE}
     */
    long copyInline(SendChain request, int count, long most) {
        long total = 0;
        for (int i = 0; i < count; i++) {
            MemorySegment memory = memories[i];
            long address = entries.addressOf(i);
            long length = entries.lengthOf(i);
            if (length > most - total) {
                return TOO_MANY;
            }
            if (!gather(request, total, memory, address, length)) {
                return UNREADABLE;
            }
            total += length;
        }
        if (total > 0) {
            request.ownBytes(total);
        } else {
            request.buffers(0, 0);
        }
        return total;
    }

    /** Copies a buffer's bytes; the JDK checks the memory before and while it copies. */
    private static boolean gather(
            SendChain request,
            long before,
            @Nullable MemorySegment memory,
            long address,
            long length) {
        if (memory == null) {
            return false;
        }
        try {
            request.gather(before, memory, address - memory.address(), length);
            return true;
        } catch (IllegalStateException | WrongThreadException | IndexOutOfBoundsException e) {
            return false; // closed, another thread's, or not what the list says
        }
    }
}
