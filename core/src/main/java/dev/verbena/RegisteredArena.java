package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.Pages;

import org.jspecify.annotations.Nullable;

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
 * #offsetOf} the segment's offset in it, both in constant time. A {@link BufferList} that was
 * created with the arena accepts its segments:
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
 * moment. Memory is zeroed, and freed only by {@link #close}, all at once. It ends Java's access,
 * deregisters the slabs, and then frees them. The last two steps wait for {@link MemoryWindow}s
 * that are bound to the slabs. Until then the addresses are not reused, so a peer that goes on
 * writing cannot damage other memory.
 */
public final class RegisteredArena extends NativeObject implements Arena {
    /** The slabs of {@link ProtectionDomain#createArena(Access...)}: a huge page each. */
    static final long DEFAULT_SLAB = 2L << 20;

    /** What {@link ProtectionDomain#createArena(Access...)} allocates at most. */
    static final long DEFAULT_LIMIT = 64L << 30;

    private static final long LARGEST = 1L << 46; // half of what user space has of addresses

    private final ProtectionDomain domain;
    private final Access[] rights;
    private final Arena javaAccess = Arena.ofShared();
    private final long slabBytes; // a power of two
    private final int slabShift;
    private final int slabs;
    private final long base; // the first of the reserved addresses, at a multiple of slabBytes

    // By slab; an allocation that is larger than one has several, of one region. Written under the
    // lock; the array is stored anew after each change, so that readers see the elements.
    private volatile @Nullable MemoryRegion[] regions = new MemoryRegion[1];

    // Guarded by the lock.
    private int nextSlab;
    private long free; // the address of the first free byte of the current slab
    private long end; // of the current slab
    private boolean stillRegistered;

    // Written under the lock, read without it.
    private volatile long allocations;
    private volatile long allocatedBytes;
    private volatile int registrations;
    private volatile long registeredBytes;

    RegisteredArena(ProtectionDomain domain, long slabBytes, long maxBytes, Access... rights) {
        super(domain);
        this.domain = domain;
        this.rights = rights.clone();
        try {
            check(slabBytes, maxBytes);
            this.slabBytes = slabBytes;
            this.slabShift = Long.numberOfTrailingZeros(slabBytes);
            this.slabs = Math.toIntExact(maxBytes - 1 + slabBytes >> slabShift);
            this.base =
                    Errno.check(
                            Pages.reserve((long) slabs << slabShift, slabBytes),
                            "mmap(%,d bytes of addresses)".formatted(maxBytes),
                            "The limit of addresses of this process may be too low (ulimit -v): give the arena a lower maximum.");
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    private static void check(long slabBytes, long maxBytes) {
        if (Long.bitCount(slabBytes) != 1 || slabBytes < Pages.SIZE || slabBytes > 1L << 40) {
            throw new IllegalArgumentException(
                    "The size of a slab is a power of two from %,d to 2^40, not %,d"
                            .formatted(Pages.SIZE, slabBytes));
        }
        if (maxBytes < 1 || maxBytes > LARGEST || maxBytes / slabBytes > 1 << 28) {
            throw new IllegalArgumentException(
                    "The maximum is from 1 to 2^46 bytes, and at most 2^28 slabs, not %,d bytes"
                            .formatted(maxBytes));
        }
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
            address =
                    bytes > slabBytes || alignment > slabBytes
                            ? whole(bytes, alignment)
                            : part(bytes, alignment);
            countAllocation(bytes);
        }
        return Pages.segment(address, bytes, javaAccess);
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // under the lock only
    private void countAllocation(long bytes) {
        allocatedBytes += bytes;
        allocations++;
    }

    @SuppressWarnings("NonAtomicVolatileUpdate")
    private void countRegistration(long bytes) {
        registeredBytes += bytes;
        registrations++;
    }

    /** A part of the current slab, or of a new one. */
    private long part(long bytes, long alignment) {
        long address = align(free, alignment);
        long takes = Math.max(bytes, 1); // so that no two segments have one address
        if (free == 0 || takes > end - address) {
            address = register(nextSlab, slabBytes);
            end = address + slabBytes;
        }
        free = address + takes;
        return address;
    }

    /** Slabs for one allocation. */
    private long whole(long bytes, long alignment) {
        long first = align(base + ((long) nextSlab << slabShift), alignment);
        long slab = first - base >> slabShift;
        if (slab >= slabs) {
            throw full(bytes);
        }
        return register((int) slab, Math.max(bytes, 1));
    }

    private static long align(long address, long alignment) {
        return address + alignment - 1 & -alignment;
    }

    /** Makes the next slabs into a region. */
    private long register(int slab, long bytes) {
        if (bytes > (long) (slabs - slab) << slabShift) {
            throw full(bytes);
        }
        int count = (int) (bytes + slabBytes - 1 >> slabShift);
        long address = base + ((long) slab << slabShift);
        long mapped = align(bytes, Pages.SIZE);
        Errno.check(
                Pages.commit(address, mapped),
                "mmap(%,d bytes)".formatted(mapped),
                "The system cannot provide that much memory to this process: see vm.overcommit_memory, and the memory limit of its control group.");
        int _ = Pages.preferHuge(address, mapped); // registering pins all of it anyway
        @Nullable MemoryRegion[] all = regions;
        MemoryRegion region;
        try {
            if (slab + count > all.length) { // before there is a region that would be lost
                int length = Math.min(slabs, Math.max(slab + count, 2 * all.length));
                all = Arrays.copyOf(all, length);
            }
            region = new MemoryRegion(this, Pages.segment(address, bytes, javaAccess), rights);
        } catch (Throwable t) {
            int _ = Pages.decommit(address, mapped); // else it holds pages until the next try
            throw t;
        }
        Arrays.fill(all, slab, slab + count, region);
        regions = all;
        nextSlab = slab + count;
        countRegistration(bytes);
        return address;
    }

    private VerbenaException full(long bytes) {
        return new VerbenaException(
                Status.INSUFFICIENT_RESOURCES,
                "%s cannot allocate %,d bytes: %,d of its %,d slabs of %,d bytes are used. Create it with a higher maximum, or close it and create a new one"
                        .formatted(this, bytes, nextSlab, slabs, slabBytes));
    }

    /**
     * What it has allocated and registered so far. From any thread, also after the close; takes no
     * lock, so an allocation at this moment may be in some counts and not in others.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public Counters counters() {
        return new Counters(allocations, allocatedBytes, registrations, registeredBytes);
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
            long allocations, long allocatedBytes, int registrations, long registeredBytes) {}

    /**
     * The region that a segment of this arena lies in, in constant time.
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
        long distance = segment.address() - base;
        @Nullable MemoryRegion[] all = regions;
        long slab = distance >> slabShift;
        if (segment.isNative() && slab >= 0 && slab < all.length) {
            MemoryRegion region = all[(int) slab];
            if (region != null
                    && segment.byteSize()
                            <= region.bytes() - (segment.address() - region.start())) {
                return region;
            }
        }
        throw notHere(segment);
    }

    private IllegalArgumentException notHere(MemorySegment segment) {
        return new IllegalArgumentException(
                "%s did not allocate these %,d bytes at 0x%x"
                        .formatted(this, segment.byteSize(), segment.address()));
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
     * The domain it was created from.
     *
     * @return the domain, which may be closed by now
     */
    public ProtectionDomain domain() {
        return domain;
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
    synchronized void shut() {
        Teardown end = new Teardown(this);
        MemoryRegion before = null;
        for (MemoryRegion region : regions) {
            if (region != null && region != before) {
                before = region;
                end.run(region::closeWithDivider);
            }
        }
        end.finish();
    }

    /** A slab could not be deregistered, so the memory must stay. */
    synchronized void keepMemory() {
        stillRegistered = true;
    }

    @Override
    synchronized void destroy() {
        if (!stillRegistered) {
            int _ = Pages.unmap(base, (long) slabs << slabShift); // fails only for a wrong address
        }
    }

    @Override
    String describe() {
        return "RegisteredArena of " + domain.adapter().name();
    }
}
