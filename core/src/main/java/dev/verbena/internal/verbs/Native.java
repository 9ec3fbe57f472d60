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
    // is the business of the few classes that do so. Unaligned, which on every CPU that rdma-core
    // runs on is the same access, because the aligned layouts look at the address each time.

    static void putLong(long address, long value) {
        EVERYWHERE.set(ValueLayout.JAVA_LONG_UNALIGNED, address, value);
    }

    static void putInt(long address, int value) {
        EVERYWHERE.set(ValueLayout.JAVA_INT_UNALIGNED, address, value);
    }

    static long getLong(long address) {
        return EVERYWHERE.get(ValueLayout.JAVA_LONG_UNALIGNED, address);
    }

    static int getInt(long address) {
        return EVERYWHERE.get(ValueLayout.JAVA_INT_UNALIGNED, address);
    }

    /** The struct at an address that came from the library, with its bounds. */
    @SuppressWarnings("restricted") // address and size are the library's word
    static MemorySegment at(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }

    /** All of memory, for copies between addresses that were checked where they came from. */
    @SuppressWarnings("restricted") // as above
    static final MemorySegment EVERYWHERE = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
}
