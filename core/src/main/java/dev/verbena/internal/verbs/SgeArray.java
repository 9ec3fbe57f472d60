package dev.verbena.internal.verbs;

import dev.verbena.internal.verbs.Structs.IbvSge;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.Objects;

/** An array of {@code ibv_sge} in native memory that lives as long as this object. */
public final class SgeArray {

    // The key directly follows the length, so one 8-byte access reads or writes both.
    private static final long LENGTH_AND_KEY = IbvSge.LENGTH;
    private static final boolean LENGTH_IS_LOWER =
            ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;

    private final MemorySegment array; // keeps the memory reachable
    private final long address;
    private final int capacity;

    // A copy of the first entry. Reading a field instead of native memory saves hundreds of JIT
    // graph nodes, of which C2 has at most 18,000 for a method with everything inlined into it.
    private long firstAddress;
    private long firstLengthAndKey;

    public SgeArray(int capacity) {
        this.array = Arena.ofAuto().allocate(IbvSge.SIZE * capacity, Long.BYTES);
        this.address = array.address();
        this.capacity = capacity;
    }

    /**
     * The address of the array. Valid while this object is reachable, which the caller must ensure
     * until the native call returns.
     */
    public long address() {
        return address;
    }

    /** Writes an entry. The length is an unsigned number. */
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

    public long addressOf(int index) {
        return index == 0 ? firstAddress : Native.getLong(entry(index), IbvSge.ADDR);
    }

    public long lengthOf(int index) {
        long both = index == 0 ? firstLengthAndKey : Native.getLong(entry(index), LENGTH_AND_KEY);
        return LENGTH_IS_LOWER ? both & 0xFFFF_FFFFL : both >>> Integer.SIZE;
    }

    /** The local key in an entry. */
    public int keyOf(int index) {
        long both = index == 0 ? firstLengthAndKey : Native.getLong(entry(index), LENGTH_AND_KEY);
        return (int) (LENGTH_IS_LOWER ? both >>> Integer.SIZE : both);
    }

    private long entry(int index) {
        return address + IbvSge.SIZE * Objects.checkIndex(index, capacity);
    }

    /** Writes an entry to an address. */
    private static void put(long to, long address, long lengthAndKey) {
        Native.putLong(to, IbvSge.ADDR, address);
        Native.putLong(to, LENGTH_AND_KEY, lengthAndKey);
    }

    /** Copies the first entry to an address. */
    void copyFirst(long to) {
        put(to, firstAddress, firstLengthAndKey);
    }
}
