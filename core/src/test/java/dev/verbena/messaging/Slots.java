package dev.verbena.messaging;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.BufferPool;
import dev.verbena.BufferPoolOptions;
import dev.verbena.MemoryRegion;
import dev.verbena.PooledBuffer;
import dev.verbena.ProtectionDomain;
import dev.verbena.RegisteredArena;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;

/**
 * Registered memory of all kinds for the messages of a {@link MessageLedger}. What is given back is
 * overwritten, so that a device or channel that still reads it sends wrong bytes.
 */
final class Slots implements AutoCloseable {
    private static final int POOLED = 32; // buffers
    private static final int POOLED_BYTES = 8192;
    private static final int ARENA_SEGMENTS = 16;
    private static final int LEAST_SHIFT = 12;
    private static final byte GONE = (byte) 0xDB;

    /** Memory, as a whole and as a list, until it is given back. */
    static final class Slot {
        final MemorySegment memory; // one piece
        final MemoryRegion region;
        final long offset; // in the region
        private final Runnable back;

        Slot(MemorySegment memory, MemoryRegion region, long offset, Runnable back) {
            this.memory = memory;
            this.region = region;
            this.offset = offset;
            this.back = back;
        }

        /** All of it in so many buffers, cut at random. */
        BufferList list(int buffers, Random random) {
            BufferList list = new BufferList(buffers);
            long at = 0;
            long length = memory.byteSize();
            for (int i = 0; i < buffers - 1 && length - at > 1; i++) {
                long bytes = 1 + random.nextLong(length - at - 1);
                list.add(region, offset + at, bytes);
                at += bytes;
            }
            return list.add(region, offset + at, length - at);
        }

        void giveBack() {
            memory.fill(GONE);
            back.run();
        }
    }

    private final ProtectionDomain domain;
    private final long most; // bytes of regions
    private final BufferPool pool;
    private final RegisteredArena arena;
    private final Deque<MemorySegment> segments = new ArrayDeque<>(); // of the arena
    private final List<Deque<MemoryRegion>> free = new ArrayList<>(); // by size
    private final List<MemoryRegion> regions = new ArrayList<>();
    private long bytes; // of regions

    Slots(ProtectionDomain domain, long most) {
        this.domain = domain;
        this.most = most;
        this.pool =
                domain.createBufferPool(
                        BufferPoolOptions.of(POOLED, POOLED_BYTES), Access.LOCAL_WRITE);
        this.arena = domain.createArena(Access.LOCAL_WRITE);
        for (int i = 0; i < ARENA_SEGMENTS; i++) {
            segments.add(arena.allocate(POOLED_BYTES, 1));
        }
        for (int i = LEAST_SHIFT; i < Integer.SIZE; i++) {
            free.add(new ArrayDeque<>());
        }
    }

    /** Memory of a random kind; null when too much is in use. */
    @Nullable Slot take(int length, Random random) {
        Slot slot = null;
        if (length <= POOLED_BYTES) {
            slot =
                    switch (random.nextInt(3)) {
                        case 0 -> pooled(length);
                        case 1 -> ofArena(length);
                        default -> null;
                    };
        }
        return slot == null ? ofRegion(length) : slot;
    }

    private @Nullable Slot pooled(int length) {
        PooledBuffer buffer = pool.tryTake();
        return buffer == null
                ? null
                : new Slot(
                        buffer.memory().asSlice(0, length),
                        buffer.region(),
                        buffer.offset(),
                        buffer::giveBack);
    }

    private @Nullable Slot ofArena(int length) {
        MemorySegment segment;
        synchronized (this) {
            segment = segments.poll();
        }
        if (segment == null) {
            return null;
        }
        return new Slot(
                segment.asSlice(0, length),
                arena.regionOf(segment),
                arena.offsetOf(segment),
                () -> {
                    synchronized (this) {
                        segments.add(segment);
                    }
                });
    }

    private synchronized @Nullable Slot ofRegion(int length) {
        int shift = Math.max(LEAST_SHIFT, Integer.SIZE - Integer.numberOfLeadingZeros(length - 1));
        Deque<MemoryRegion> kept = free.get(shift - LEAST_SHIFT);
        MemoryRegion region = kept.poll();
        if (region == null) {
            if (bytes + (1L << shift) > most) {
                return null;
            }
            region = domain.allocate(1L << shift, Access.LOCAL_WRITE);
            bytes += 1L << shift;
            regions.add(region);
        }
        MemoryRegion taken = region;
        return new Slot(
                region.memory().asSlice(0, length),
                region,
                0,
                () -> {
                    synchronized (this) {
                        kept.push(taken);
                    }
                });
    }

    /** How many were not given back. */
    synchronized int taken() {
        int kept = free.stream().mapToInt(Deque::size).sum();
        int ofPool = POOLED - pool.counters().free();
        return regions.size() - kept + ofPool + ARENA_SEGMENTS - segments.size();
    }

    @Override
    public synchronized void close() {
        pool.close();
        arena.close();
        regions.forEach(MemoryRegion::close);
    }
}
