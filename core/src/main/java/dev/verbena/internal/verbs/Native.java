package dev.verbena.internal.verbs;

import java.lang.foreign.MemorySegment;

/** Memory that C owns and says where it is. */
final class Native {
    private Native() {}

    /** The struct at an address that came from the library, with its bounds. */
    @SuppressWarnings("restricted") // address and size are the library's word
    static MemorySegment at(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }
}
