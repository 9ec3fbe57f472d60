package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_sge;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.Objects;

/** An array of {@code ibv_sge} in native memory that lives as long as this object. */
public final class SgeArray {
    private static final long SIZE = ibv_sge.sizeof();
    private static final long ADDR = ibv_sge.addr$offset();
    private static final long LENGTH = ibv_sge.length$offset();
    private static final long LKEY = ibv_sge.lkey$offset();

    private final MemorySegment array; // keeps the memory
    private final long address;
    private final int capacity;

    /**
     * Makes room.
     *
     * @param capacity how many entries
     */
    public SgeArray(int capacity) {
        this.array = Arena.ofAuto().allocate(SIZE * capacity, Long.BYTES);
        this.address = array.address();
        this.capacity = capacity;
    }

    /**
     * Where the array is. Valid while this object is reachable: callers keep it so across the
     * native call.
     *
     * @return its address
     */
    public long address() {
        return address;
    }

    /**
     * Writes an entry.
     *
     * @param index which, below the capacity
     * @param address where the bytes are
     * @param length how many, as an unsigned 32-bit number
     * @param key the local token
     */
    public void set(int index, long address, int length, int key) {
        long at = this.address + SIZE * Objects.checkIndex(index, capacity);
        Native.putLong(at, ADDR, address);
        Native.putInt(at, LENGTH, length);
        Native.putInt(at, LKEY, key);
        Reference.reachabilityFence(this);
    }
}
