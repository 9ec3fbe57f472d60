package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.verbs.Pages;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * An arena whose memory is registered: any segment that it allocates can be sent, received into,
 * and named to the peer. Code that only knows {@link Arena} or {@link
 * java.lang.foreign.SegmentAllocator} can allocate from it.
 *
 * <p>Registering takes a system call and pins whole pages, so the arena registers slabs of some
 * megabytes and divides them up. {@link #regionOf} finds the region of a segment, and {@link
 * #offsetOf} the segment's offset in it. A {@link BufferList} that was created with the arena
 * accepts its segments:
 *
 * {@snippet :
 * try (RegisteredArena arena = domain.createArena(Access.LOCAL_WRITE)) {
 *     MemorySegment greeting = arena.allocateFrom("Hello");
 *     BufferList buffers = new BufferList(1, arena).add(greeting);
 *     pair.send(1, buffers).orThrow();
 * }
 * }
 *
 * <p>May be used from any thread, as {@link Arena#ofShared}: each allocation holds a lock for a
 * moment. Memory is zeroed, and freed only by {@link #close}, all at once. The close ends Java's
 * access, deregisters the slabs, and then frees them. The last two steps wait for {@link
 * MemoryWindow}s that are bound to the slabs. Until then the addresses are not reused, so a peer
 * that keeps writing cannot damage other memory.
 */
public final class RegisteredArena extends NativeObject implements Arena {
    /** The slabs of {@link ProtectionDomain#createArena(Access...)}: a huge page each. */
    static final long DEFAULT_SLAB = 2L << 20;

    /** What an arena of {@link ProtectionDomain#createArena(Access...)} registers at most. */
    static final long DEFAULT_LIMIT = 64L << 30;

    private static final long LARGEST = 1L << 46; // half of the addresses of user space

    private final ProtectionDomain domain;
    private final Access[] rights;
    private final Arena javaAccess = Arena.ofShared();
    private final long slabBytes; // a power of two
    private final long maxBytes; // a multiple of slabBytes

    // Replaced under the lock, read without it.
    private volatile MemoryRegion[] regions = {}; // sorted by address
    private volatile Counters counters = new Counters(0, 0, 0, 0);

    // Guarded by the lock.
    private long free; // the address of the first free byte of the current slab
    private long end; // of the current slab

    private RegisteredArena(
            ProtectionDomain domain, long slabBytes, long maxBytes, Access[] rights) {
        super(domain);
        this.domain = domain;
        this.rights = rights;
        this.slabBytes = slabBytes;
        this.maxBytes = align(maxBytes, slabBytes);
    }

    static RegisteredArena of(
            ProtectionDomain domain, long slabBytes, long maxBytes, Access... rights) {
        if (Long.bitCount(slabBytes) != 1 || slabBytes < Pages.SIZE || slabBytes > 1L << 40) {
            throw new IllegalArgumentException(
                    "The size of a slab is a power of two from %,d to 2^40, not %,d"
                            .formatted(Pages.SIZE, slabBytes));
        }
        if (maxBytes < 1 || maxBytes > LARGEST) {
            throw new IllegalArgumentException(
                    "The maximum is from 1 to 2^46 bytes, not %,d".formatted(maxBytes));
        }
        return new RegisteredArena(domain, slabBytes, maxBytes, rights.clone());
    }

    /**
     * Allocates zeroed, registered memory. An allocation larger than a slab becomes a region of its
     * own.
     *
     * @param bytes how many, 0 or more
     * @param alignment of the first byte, a power of two
     * @return the segment, valid until {@link #close}
     * @throws IllegalArgumentException for a negative size, or an alignment that is not a power of
     *     two
     * @throws IllegalStateException when the arena is closed
     * @throws VerbenaException with INSUFFICIENT_RESOURCES when the arena's maximum is reached, or
     *     when a slab cannot be registered, most often because the limit of lockable memory is too
     *     low
     */
    @Override
    @CheckReturnValue
    public MemorySegment allocate(long bytes, long alignment) {
        if (bytes < 0 || Long.bitCount(alignment) != 1 || alignment < 0) {
            throw new IllegalArgumentException(
                    "Cannot allocate %d bytes with an alignment of %d: a size is not negative, an alignment is a power of two"
                            .formatted(bytes, alignment));
        }
        long address;
        synchronized (this) {
            ensureOpen();
            long takes = Math.max(bytes, 1); // so that no two segments have one address
            if (bytes > slabBytes || alignment > slabBytes) {
                address = register(takes, alignment);
            } else {
                address = align(free, alignment);
                if (takes > end - address) {
                    address = register(slabBytes, slabBytes);
                    end = address + slabBytes;
                }
                free = address + takes;
            }
            counters = counters.plus(1, bytes, 0, 0);
        }
        return Pages.segment(address, bytes, javaAccess);
    }

    private static long align(long address, long alignment) {
        return address + alignment - 1 & -alignment;
    }

    /** Registers a new region, and returns the address of its first byte. */
    private long register(long bytes, long alignment) {
        if (bytes > maxBytes - counters.registeredBytes() || alignment > maxBytes) {
            throw new VerbenaException(
                    Status.INSUFFICIENT_RESOURCES,
                    "%s cannot register %,d more bytes, aligned to %,d: it has registered %,d of its %,d bytes. Create it with a higher maximum, or close it and create a new one"
                            .formatted(
                                    this, bytes, alignment, counters.registeredBytes(), maxBytes));
        }
        MemoryRegion[] all = Arrays.copyOf(regions, regions.length + 1); // first: it may fail
        MemoryRegion region =
                domain.allocate(
                        this,
                        this,
                        javaAccess,
                        bytes,
                        MemoryOptions.DEFAULTS
                                .withAlignment(alignment)
                                .withHugePages(HugePages.TRANSPARENT), // all of it is pinned anyway
                        rights);
        int at = below(regions, region.start()) + 1;
        System.arraycopy(regions, at, all, at + 1, regions.length - at);
        all[at] = region;
        regions = all;
        counters = counters.plus(0, 0, 1, bytes);
        return region.start();
    }

    /** The index of the last region that starts at or below an address; -1 if there is none. */
    private static int below(MemoryRegion[] all, long address) {
        int low = 0;
        int high = all.length;
        while (low < high) {
            int middle = low + high >>> 1;
            if (all[middle].start() <= address) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low - 1;
    }

    /**
     * Returns how much was allocated and registered so far. Takes no lock, and also works after the
     * close.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public Counters counters() {
        return counters;
    }

    /**
     * The counters of an arena, from {@link RegisteredArena#counters}.
     *
     * @param allocations how many segments it allocated
     * @param allocatedBytes how many bytes these segments have
     * @param registrations how many regions it registered: one for each slab, and one for each
     *     allocation that is larger than a slab
     * @param registeredBytes how many bytes it registered, and holds in memory until it is closed
     */
    public record Counters(
            long allocations, long allocatedBytes, int registrations, long registeredBytes) {
        private Counters plus(int segments, long allocated, int regions, long registered) {
            return new Counters(
                    allocations + segments,
                    allocatedBytes + allocated,
                    registrations + regions,
                    registeredBytes + registered);
        }
    }

    /**
     * The region that a segment of this arena lies in. Allocates nothing and takes no lock.
     *
     * @param segment from this arena, or a part of one
     * @return the region, which is closed with the arena and cannot be closed alone
     * @throws IllegalArgumentException for other memory
     * @throws IllegalStateException if the segment's arena is closed
     */
    public MemoryRegion regionOf(MemorySegment segment) {
        if (!segment.scope().isAlive()) { // perhaps of another arena, which had these addresses
            throw new IllegalStateException(
                    "These %,d bytes at 0x%x cannot be used: their arena was closed"
                            .formatted(segment.byteSize(), segment.address()));
        }
        MemoryRegion[] all = regions;
        int at = segment.isNative() ? below(all, segment.address()) : -1;
        if (at < 0
                || segment.byteSize() > all[at].bytes() - (segment.address() - all[at].start())) {
            throw new IllegalArgumentException(
                    "%s did not allocate these %,d bytes at 0x%x"
                            .formatted(this, segment.byteSize(), segment.address()));
        }
        return all[at];
    }

    /**
     * Where a segment of this arena lies in its {@linkplain #regionOf region}.
     *
     * @param segment from this arena, or a part of one
     * @return the offset of its first byte from the region's start
     * @throws IllegalArgumentException for other memory
     * @throws IllegalStateException if the segment's arena is closed
     */
    public long offsetOf(MemorySegment segment) {
        return segment.address() - regionOf(segment).start();
    }

    /**
     * Describes a segment of this arena for the peer, which may use it with the arena's rights
     * until the arena is closed.
     *
     * @param segment from this arena, or a part of one
     * @return address, remote key (NDK: token) and length
     * @throws IllegalArgumentException for other memory
     * @throws IllegalStateException if the segment's arena is closed
     */
    @CheckReturnValue
    public RemoteMemory remoteMemory(MemorySegment segment) {
        return new RemoteMemory(
                segment.address(), regionOf(segment).remoteToken(), segment.byteSize());
    }

    /**
     * The scope of all segments of this arena.
     *
     * @return a scope that is alive until {@link #close}
     */
    @Override
    public MemorySegment.Scope scope() {
        return javaAccess.scope();
    }

    /**
     * Ends Java's access to all segments, unless a thread is inside a call that uses one: then it
     * throws IllegalStateException and changes nothing.
     */
    @Override
    void checkMayClose() {
        if (scope().isAlive()) {
            try {
                javaAccess.close();
            } catch (IllegalStateException e) {
                if (scope().isAlive()) { // else another thread has closed it at this moment
                    throw new IllegalStateException(
                            "%s is not closed: a thread is inside a call that uses its memory (such as a read of a file). Close it when that has returned"
                                    .formatted(this),
                            e);
                }
            }
        }
    }

    @Override
    synchronized void shut(Teardown end) { // its regions free the memory
        for (MemoryRegion region : regions) {
            end.run(region, MemoryRegion::closeWithDivider);
        }
    }

    @Override
    String describe() {
        return "RegisteredArena of " + domain.adapter().name();
    }
}
