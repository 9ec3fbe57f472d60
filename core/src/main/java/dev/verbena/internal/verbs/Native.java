package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** Memory that C owns and says where it is. */
final class Native {
    /** How the two halves of a GID lie in memory, wherever it is. */
    static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    /** How immediate data lies in memory, wherever it is. */
    static final ValueLayout.OfInt BIG_ENDIAN_INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private Native() {}

    // The data path writes requests and reads completions by address. A segment of an arena costs a
    // look at its life and its bounds for each field; where the bytes are, and that they are there,
    // is the business of the few classes that do so. The layouts are unaligned ones, as the aligned
    // ones look at the address each time; on the processors that rdma-core runs on it is the same
    // access. And the JIT, told that an address has 56 bits (user space has fewer everywhere),
    // knows that it is within EVERYWHERE and leaves the bounds out: three instructions of four.
    private static final long ADDRESS_BITS = (1L << 56) - 1;

    static void putLong(long struct, long offset, long value) {
        EVERYWHERE.set(ValueLayout.JAVA_LONG_UNALIGNED, (struct & ADDRESS_BITS) + offset, value);
    }

    static void putInt(long struct, long offset, int value) {
        EVERYWHERE.set(ValueLayout.JAVA_INT_UNALIGNED, (struct & ADDRESS_BITS) + offset, value);
    }

    static long getLong(long struct, long offset) {
        return EVERYWHERE.get(ValueLayout.JAVA_LONG_UNALIGNED, (struct & ADDRESS_BITS) + offset);
    }

    static int getInt(long struct, long offset) {
        return EVERYWHERE.get(ValueLayout.JAVA_INT_UNALIGNED, (struct & ADDRESS_BITS) + offset);
    }

    /**
     * The struct at an address that came from the library, with its bounds. A slice: to reinterpret
     * a segment of that address is the same, but asks each time who the caller is, for which code
     * that C2 has not compiled walks the stack.
     */
    static MemorySegment at(long address, long size) {
        return EVERYWHERE.asSlice(address, size);
    }

    /** All of memory, for copies between addresses that were checked where they came from. */
    @SuppressWarnings("restricted") // as above
    static final MemorySegment EVERYWHERE = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
}
