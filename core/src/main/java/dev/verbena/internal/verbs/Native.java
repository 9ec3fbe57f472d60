package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/** Memory that C owns and says where it is. */
final class Native {
    /** How the two halves of a GID lie in memory, wherever it is. */
    static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private Native() {}

    /** The struct at an address that came from the library, with its bounds. */
    @SuppressWarnings("restricted") // address and size are the library's word
    static MemorySegment at(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }
}
