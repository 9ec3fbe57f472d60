package dev.verbena.messaging;

import dev.verbena.Access;
import dev.verbena.MemoryRegion;
import dev.verbena.ProtectionDomain;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Closing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Registered buffers of one length, which the channels of a {@link Poller} compose their frames in.
 * The buffer that was given back last is taken first, because it is likely to be in the processor's
 * cache. There are as many as were in use at the same time. May be used from any thread.
 */
final class FrameBuffers implements AutoCloseable {
    private static final int QUIET_TICKS = 50; // until those that are not used are freed

    private final ProtectionDomain domain;
    private final int bytes; // of each buffer
    private final int slab; // how many buffers are registered at once
    private List<MemoryRegion> regions = List.of(); // copied on change
    private int[] free; // numbers of buffers, the last one given back at the end
    private int freeCount;
    private int quietTicks;

    FrameBuffers(ProtectionDomain domain, int bytes, int slab) {
        this.domain = domain;
        this.bytes = bytes;
        this.slab = slab;
        this.free = new int[slab];
    }

    int bytes() {
        return bytes;
    }

    /**
     * Takes a buffer.
     *
     * @return its number
     * @throws VerbenaException as {@link ProtectionDomain#allocate} does
     */
    synchronized int take() {
        quietTicks = 0;
        if (freeCount == 0) {
            grow();
        }
        return free[--freeCount];
    }

    private void grow() {
        int first = regions.size() * slab;
        List<MemoryRegion> more = new ArrayList<>(regions.size() + 1); // room for it first
        more.addAll(regions);
        int[] numbers = Arrays.copyOf(free, first + slab);
        more.add(domain.allocate((long) slab * bytes, Access.LOCAL_WRITE));
        regions = more;
        free = numbers;
        for (int i = slab - 1; i >= 0; i--) {
            free[freeCount++] = first + i;
        }
    }

    synchronized void giveBack(int buffer) {
        free[freeCount++] = buffer;
    }

    synchronized MemoryRegion region(int buffer) {
        return regions.get(buffer / slab);
    }

    /** Where a buffer begins in its region. */
    long offset(int buffer) {
        return (long) (buffer % slab) * bytes;
    }

    /** At a tick: when none was in use for some seconds, all but the first few are freed. */
    synchronized void tick() {
        if (regions.size() > 1 && freeCount == free.length && ++quietTicks > QUIET_TICKS) {
            List<MemoryRegion> unused = regions.subList(1, regions.size());
            List<MemoryRegion> first = List.of(regions.getFirst());
            int[] numbers = new int[slab];
            for (int i = 0; i < slab; i++) {
                numbers[i] = slab - 1 - i;
            }
            regions = first; // from here on, nothing needs memory
            free = numbers;
            freeCount = slab;
            unused.forEach(one -> Closing.quietly(domain, one));
        }
    }

    @Override
    public synchronized void close() {
        regions.forEach(one -> Closing.quietly(domain, one));
    }
}
