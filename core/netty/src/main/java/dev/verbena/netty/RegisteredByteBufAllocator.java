package dev.verbena.netty;

import com.google.errorprone.annotations.concurrent.GuardedBy;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;

import io.netty.buffer.AbstractByteBufAllocator;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.ByteBufAllocatorMetric;
import io.netty.buffer.ByteBufAllocatorMetricProvider;
import io.netty.buffer.UnpooledByteBufAllocator;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An allocator whose direct buffers are in registered memory: an RDMA channel sends them without a
 * copy. Heap buffers come from Netty's default allocator; a channel copies them once.
 *
 * <p>Blocks have sizes of 256 bytes to 4 MiB, powers of two and one and a half times these, and are
 * parts of slabs that are registered when a size needs more. A slab stays registered until the
 * allocator is closed. A direct buffer that is larger than the largest block, or for which the
 * limit leaves no room, is in ordinary memory, and works everywhere but is copied when it is sent;
 * {@link #unregisteredBuffers} counts these.
 *
 * <p>May be used from any thread. Each size has a lock of its own, which is not held during a
 * registration. In steady state, neither allocation nor release creates an object.
 */
public final class RegisteredByteBufAllocator extends AbstractByteBufAllocator
        implements ByteBufAllocatorMetricProvider, ByteBufAllocatorMetric, AutoCloseable {
    private static final System.Logger LOGGER = System.getLogger("dev.verbena.netty");
    private static final int SMALLEST_LOG = 8;
    private static final int SMALLEST_SLAB = 64 << 10;

    /** Longer buffers are not registered. */
    static final int LARGEST = 4 << 20;

    private final ProtectionDomain domain;
    private final SizeClass[] classes = new SizeClass[sizeClass(LARGEST) + 1];
    private final AtomicLong registeredBytes = new AtomicLong();
    private final AtomicLong unregisteredBytes = new AtomicLong();
    private final AtomicLong unregisteredBuffers = new AtomicLong();
    private volatile long limit;
    private volatile boolean closed;
    private volatile Known known = new Known(new long[0], new MemoryRegion[0]);

    /**
     * Creates an allocator. It registers nothing yet.
     *
     * @param domain the domain that memory is registered in
     * @param maxBytes the most that it registers
     * @throws IllegalArgumentException for a negative limit
     */
    public RegisteredByteBufAllocator(ProtectionDomain domain, long maxBytes) {
        super(true);
        if (maxBytes < 0) {
            throw new IllegalArgumentException(
                    "An allocator may register 0 bytes or more, not " + maxBytes);
        }
        this.domain = domain;
        this.limit = maxBytes;
        for (int i = 0; i < classes.length; i++) {
            classes[i] = new SizeClass(((i & 1) == 0 ? 2 : 3) << (SMALLEST_LOG - 1 + i / 2));
        }
    }

    /** The smallest class whose blocks have that many bytes. Class 2n has 256 << n bytes. */
    private static int sizeClass(int bytes) {
        int last = Math.max(bytes, 1) - 1;
        int log = Math.max(SMALLEST_LOG, Integer.SIZE - Integer.numberOfLeadingZeros(last));
        int whole = 2 * (log - SMALLEST_LOG);
        return whole > 0 && bytes <= 3 << (log - 2) ? whole - 1 : whole;
    }

    /**
     * The domain that its memory is registered in, for regions that {@link #know} makes known.
     *
     * @return always the same object, which must not be closed
     */
    public ProtectionDomain domain() {
        return domain;
    }

    /**
     * Makes a region known, so that buffers in its memory are sent without a copy: for example
     * those that wrap a file's mapping. Remove it by {@link #forget} before you close it.
     *
     * @param region of this allocator's domain
     * @throws IllegalArgumentException for a region of another domain
     * @throws UnsupportedOperationException for a dma-buf
     */
    public void know(MemoryRegion region) {
        if (region.domain() != domain) {
            throw new IllegalArgumentException(
                    "%s is of another domain than this allocator (%s)".formatted(region, domain));
        }
        change(region, true);
    }

    /**
     * Removes a region from those that {@link #know} made known. Writes that were begun are not
     * affected: close the region when they are complete.
     *
     * @param region any region
     */
    public void forget(MemoryRegion region) {
        change(region, false);
    }

    private synchronized void change(MemoryRegion region, boolean add) {
        known = known.with(region, add);
    }

    /**
     * Adds bytes of a buffer to a list if they are in registered memory. The buffer must not be
     * released before the device is done.
     *
     * @return false if the memory is not registered, or the buffer is not contiguous; then the list
     *     is unchanged
     */
    boolean add(BufferList list, ByteBuf buffer, int index, int length) {
        Objects.checkFromIndexSize(index, length, buffer.capacity());
        Known now = known;
        int found = find(now, buffer, index, length);
        if (found < 0) {
            return false;
        }
        try {
            list.add(
                    now.regions[found], buffer.memoryAddress() + index - now.starts[found], length);
            return true;
        } catch (IllegalStateException _) { // closed
            forget(now.regions[found]);
            return false;
        }
    }

    /** Whether bytes of a buffer are in registered memory. */
    boolean isRegistered(ByteBuf buffer, int index, int length) {
        return find(known, buffer, index, length) >= 0;
    }

    private static int find(Known now, ByteBuf buffer, int index, int length) {
        if (!buffer.hasMemoryAddress()) {
            return -1;
        }
        long address = buffer.memoryAddress() + index;
        int found = now.find(address);
        return found >= 0 && address - now.starts[found] > now.regions[found].bytes() - length
                ? -1
                : found;
    }

    @Override
    protected ByteBuf newHeapBuffer(int initialCapacity, int maxCapacity) {
        return ByteBufAllocator.DEFAULT.heapBuffer(initialCapacity, maxCapacity);
    }

    @Override
    protected ByteBuf newDirectBuffer(int initialCapacity, int maxCapacity) {
        Block block = take(initialCapacity);
        block.begin(block.memory(), initialCapacity, maxCapacity);
        return toLeakAwareBuffer(block);
    }

    /** A buffer for a channel's own use; null if there is no registered memory for it. */
    @Nullable SegmentByteBuf takeRegistered(int bytes) {
        Block block = takeBlock(bytes);
        if (block != null) {
            block.begin(block.memory(), bytes, bytes);
        }
        return block;
    }

    /** The same in ordinary memory. */
    SegmentByteBuf takeUnregistered(int bytes) {
        Block block = unregistered(bytes);
        block.begin(block.memory(), bytes, bytes);
        return block;
    }

    /** The same in registered memory if there is any for it. */
    SegmentByteBuf takeAny(int bytes) {
        SegmentByteBuf registered = takeRegistered(bytes);
        return registered != null ? registered : takeUnregistered(bytes);
    }

    /** Wraps a buffer if the detector of leaks wants to watch it. */
    static ByteBuf watched(ByteBuf buffer) {
        return toLeakAwareBuffer(buffer);
    }

    private @Nullable Block takeBlock(int bytes) {
        if (bytes > LARGEST) {
            return null;
        }
        SizeClass size = classes[sizeClass(bytes)];
        Block block = size.pop();
        return block != null ? block : size.refill();
    }

    private Block take(int bytes) {
        Block block = takeBlock(bytes);
        return block != null ? block : unregistered(bytes);
    }

    private Block unregistered(int bytes) {
        ByteBuf plain = UnpooledByteBufAllocator.DEFAULT.directBuffer(bytes, bytes);
        unregisteredBuffers.incrementAndGet();
        unregisteredBytes.addAndGet(bytes);
        return new Block(MemorySegment.ofBuffer(plain.nioBuffer(0, bytes)), null, plain);
    }

    private void give(Block block) {
        Slab slab = block.slab;
        if (slab != null) {
            slab.size.push(block, slab);
        } else if (block.plain != null) {
            unregisteredBytes.addAndGet(-block.plain.capacity());
            block.plain.release();
        }
    }

    private @Nullable Slab register(SizeClass size) {
        long bytes = reserve(size);
        if (bytes == 0) {
            return null;
        }
        MemoryRegion region = null;
        boolean registered = false;
        try {
            region = domain.allocate(bytes, Access.LOCAL_WRITE);
            Slab slab = new Slab(size, region);
            know(region);
            registered = true;
            return slab;
        } catch (VerbenaException | IllegalStateException e) {
            limit = registeredBytes.get() - bytes;
            LOGGER.log(
                    System.Logger.Level.WARNING,
                    "No more than %,d bytes can be registered for buffers, further buffers are copied when they are sent: %s"
                            .formatted(limit, e.getMessage()));
            return null;
        } finally {
            if (!registered) { // also when the heap has no memory
                registeredBytes.addAndGet(-bytes);
                if (region != null) {
                    region.close();
                }
            }
        }
    }

    /** As much as the class has, so that the number of slabs stays small; whole blocks. */
    private long reserve(SizeClass size) {
        long wanted = Math.clamp(size.total, SMALLEST_SLAB, LARGEST);
        while (!closed) {
            long now = registeredBytes.get();
            long bytes = Math.max(Math.min(wanted, limit - now), 0);
            bytes = Math.max(bytes / size.bytes, 1) * size.bytes;
            if (bytes > limit - now) {
                return 0;
            }
            if (registeredBytes.compareAndSet(now, now + bytes)) {
                return bytes;
            }
        }
        return 0;
    }

    private void deregister(Slab slab) {
        forget(slab.region);
        registeredBytes.addAndGet(-slab.region.bytes());
        slab.region.close();
    }

    /**
     * Deregisters all memory that no buffer uses, and the rest when its buffers are released. New
     * direct buffers are in ordinary memory. Has no effect if it is closed already.
     */
    @Override
    public void close() {
        closed = true;
        for (SizeClass size : classes) {
            size.close();
        }
    }

    @Override
    public boolean isDirectBufferPooled() {
        return true;
    }

    @Override
    public ByteBufAllocatorMetric metric() {
        return this;
    }

    /**
     * The heap memory that it uses.
     *
     * @return 0, because heap buffers are those of Netty's default allocator
     */
    @Override
    public long usedHeapMemory() {
        return 0;
    }

    /**
     * The memory of its direct buffers, and what it holds for further ones.
     *
     * @return bytes, registered or not
     */
    @Override
    public long usedDirectMemory() {
        return registeredBytes.get() + unregisteredBytes.get();
    }

    /**
     * The registered memory that it holds.
     *
     * @return bytes
     */
    public long registeredBytes() {
        return registeredBytes.get();
    }

    /**
     * The number of direct buffers that were not in registered memory, because they were too large,
     * or the limit left no room, or the allocator was closed.
     *
     * @return a count that never becomes smaller
     */
    public long unregisteredBuffers() {
        return unregisteredBuffers.get();
    }

    /** Regions by address. */
    private record Known(long[] starts, MemoryRegion[] regions) {
        /** The index of the last region that starts at or before an address; -1 for none. */
        int find(long address) {
            int found = Arrays.binarySearch(starts, address);
            return found >= 0 ? found : -found - 2;
        }

        Known with(MemoryRegion region, boolean add) {
            List<MemoryRegion> all = new ArrayList<>(Arrays.asList(regions));
            all.remove(region);
            if (add) {
                all.add(region);
                all.sort(Comparator.comparingLong(Known::start));
            }
            return new Known(
                    all.stream().mapToLong(Known::start).toArray(),
                    all.toArray(new MemoryRegion[0]));
        }

        static long start(MemoryRegion region) {
            return region.memory().address();
        }
    }

    /** A region that is divided into blocks of one size. */
    private static final class Slab {
        final SizeClass size;
        final MemoryRegion region;

        /** How many blocks are not in the free list; guarded by the size class. */
        int used;

        Slab(SizeClass size, MemoryRegion region) {
            this.size = size;
            this.region = region;
        }
    }

    /** The free blocks of one size. The block that was released last is used first. */
    private final class SizeClass {
        final int bytes;
        private final Object refilling = new Object();
        volatile long total;

        @GuardedBy("this")
        private @Nullable Block free;

        @GuardedBy("this")
        private final List<Slab> slabs = new ArrayList<>();

        @GuardedBy("this")
        private boolean ended;

        SizeClass(int bytes) {
            this.bytes = bytes;
        }

        synchronized @Nullable Block pop() {
            Block block = free;
            if (block != null) {
                free = block.next;
                block.next = null;
                if (block.slab != null) {
                    block.slab.used++;
                }
            }
            return block;
        }

        void push(Block block, Slab slab) {
            synchronized (this) {
                slab.used--;
                if (!ended) {
                    block.next = free;
                    free = block;
                    return;
                }
                if (slab.used > 0) {
                    return;
                }
            }
            deregister(slab);
        }

        /** Registers a slab, unless another thread has just done so. */
        @Nullable Block refill() {
            synchronized (refilling) {
                Block block = pop();
                if (block != null) {
                    return block;
                }
                Slab slab = register(this);
                if (slab == null) {
                    return null;
                }
                boolean appended = false;
                try {
                    appended = append(slab);
                } finally {
                    if (!appended) {
                        deregister(slab);
                    }
                }
                return pop();
            }
        }

        private boolean append(Slab slab) {
            Block first = null;
            Block last = null;
            for (long at = slab.region.bytes() - bytes; at >= 0; at -= bytes) {
                Block block = new Block(slab.region.memory().asSlice(at, bytes), slab, null);
                block.next = first;
                first = block;
                last = last == null ? block : last;
            }
            synchronized (this) {
                if (ended || last == null) {
                    return false;
                }
                slabs.add(slab);
                total += slab.region.bytes();
                last.next = free; // what was released meanwhile
                free = first;
                return true;
            }
        }

        void close() {
            List<Slab> unused = new ArrayList<>();
            synchronized (this) {
                if (ended) {
                    return;
                }
                ended = true;
                free = null;
                for (Slab slab : slabs) {
                    if (slab.used == 0) {
                        unused.add(slab);
                    }
                }
                slabs.clear();
            }
            unused.forEach(RegisteredByteBufAllocator.this::deregister);
        }
    }

    /** A buffer with the memory that it has at present. */
    private final class Block extends SegmentByteBuf {
        private @Nullable Slab slab;
        private @Nullable ByteBuf plain; // the owner of unregistered memory
        private @Nullable Block next;
        private @Nullable Block outgrown; // the memory that this one had before

        Block(MemorySegment memory, @Nullable Slab slab, @Nullable ByteBuf plain) {
            super(memory);
            this.slab = slab;
            this.plain = plain;
        }

        @Override
        public ByteBufAllocator alloc() {
            return RegisteredByteBufAllocator.this;
        }

        @Override
        void freed() {
            Block old = outgrown;
            outgrown = null;
            give(this);
            while (old != null) {
                Block one = old;
                old = one.outgrown;
                one.outgrown = null;
                give(one);
            }
        }

        @Override
        void move(int newCapacity) {
            Block other = take(newCapacity);
            exchange(other);
            Slab otherSlab = other.slab;
            ByteBuf otherPlain = other.plain;
            other.slab = slab;
            other.plain = plain;
            slab = otherSlab;
            plain = otherPlain;
            if (refCnt() == 1) {
                give(other);
            } else { // the device may be sending from it still, for a slice
                other.outgrown = outgrown;
                outgrown = other;
            }
        }
    }
}
