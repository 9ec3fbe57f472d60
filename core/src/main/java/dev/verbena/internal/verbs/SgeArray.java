package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_sge;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.Objects;

/** An array of {@code ibv_sge} in native memory that lives as long as this object. */
public final class SgeArray {
    private static final long SIZE = ibv_sge.sizeof();
    private static final long ADDR = ibv_sge.addr$offset();

    // The key is right behind the length, so that one access writes both.
    private static final long LENGTH_AND_KEY = ibv_sge.length$offset();
    private static final boolean LENGTH_IS_LOWER =
            ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;

    private final MemorySegment array; // keeps the memory
    private final long address;
    private final int capacity;

    // The first entry once more: to read a field instead of native memory spares the JIT hundreds
    // of nodes, of which it has 18,000 for a method and all that it inlines there.
    private long firstAddress;
    private long firstLengthAndKey;

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
        try {
            long at = entry(index);
            long lengthAndKey =
                    LENGTH_IS_LOWER
                            ? Integer.toUnsignedLong(length) | (long) key << Integer.SIZE
                            : (long) length << Integer.SIZE | Integer.toUnsignedLong(key);
            put(at, address, lengthAndKey);
            if (index == 0) {
                firstAddress = address;
                firstLengthAndKey = lengthAndKey;
            }
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Where the bytes of an entry are.
     *
     * @param index which, below the capacity
     * @return their address
     */
    public long addressOf(int index) {
        return index == 0 ? firstAddress : Native.getLong(entry(index), ADDR);
    }

    /**
     * The length of an entry and, behind it, its local token, by one access: another thread that
     * changes the entry meanwhile does not part the two.
     *
     * @param index which, below the capacity
     * @return both, for {@link #lengthIn} and {@link SendChain#buffer}
     */
    public long lengthAndKeyOf(int index) {
        return index == 0 ? firstLengthAndKey : Native.getLong(entry(index), LENGTH_AND_KEY);
    }

    /**
     * The length in what {@link #lengthAndKeyOf} returned.
     *
     * @param lengthAndKey both
     * @return how many bytes
     */
    public static long lengthIn(long lengthAndKey) {
        return LENGTH_IS_LOWER ? lengthAndKey & 0xFFFF_FFFFL : lengthAndKey >>> Integer.SIZE;
    }

    private long entry(int index) {
        return address + SIZE * Objects.checkIndex(index, capacity);
    }

    /** Writes an entry anywhere. */
    static void put(long to, long address, long lengthAndKey) {
        Native.putLong(to, ADDR, address);
        Native.putLong(to, LENGTH_AND_KEY, lengthAndKey);
    }

    /** Copies the first entry. */
    void copyFirst(long to) {
        put(to, firstAddress, firstLengthAndKey);
    }
}
