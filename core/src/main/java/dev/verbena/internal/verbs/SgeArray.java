package dev.verbena.internal.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.bindings.ibv_sge;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** An array of {@code ibv_sge} in native memory that lives as long as this object. */
public final class SgeArray {
    private static final long SIZE = ibv_sge.sizeof();
    private static final long ADDR = ibv_sge.addr$offset();
    private static final long LENGTH = ibv_sge.length$offset();
    private static final long LKEY = ibv_sge.lkey$offset();

    private final MemorySegment array;

    /**
     * Makes room.
     *
     * @param capacity how many entries
     */
    public SgeArray(int capacity) {
        array = Arena.ofAuto().allocate(SIZE * capacity, Long.BYTES);
    }

    /**
     * Where the array is. Valid while this object is reachable: callers keep it so across the
     * native call.
     *
     * @return its address
     */
    public long address() {
        return array.address();
    }

    /**
     * Writes an entry.
     *
     * @param index which
     * @param address where the bytes are
     * @param length how many, as an unsigned 32-bit number
     * @param key the local token
     */
    public void set(int index, long address, int length, int key) {
        long at = SIZE * index;
        array.set(JAVA_LONG, at + ADDR, address);
        array.set(JAVA_INT, at + LENGTH, length);
        array.set(JAVA_INT, at + LKEY, key);
    }
}
