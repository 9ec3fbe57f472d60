package dev.verbena.internal.queue;

import java.lang.foreign.MemorySegment;

/**
 * What posts need of a registered memory region.
 *
 * @param domain its protection domain
 * @param writable whether the device may write to it
 * @param bindable whether windows may be bound to it
 */
public record RegisteredMemory(
        Domain domain,
        MemorySegment memory,
        long start,
        long bytes,
        long handle,
        int localKey,
        boolean writable,
        boolean bindable) {
    /**
     * A part of this memory, with a segment of its own, whose scope decides how long it may be
     * named.
     */
    public RegisteredMemory part(MemorySegment part) {
        return new RegisteredMemory(
                domain,
                part,
                part.address(),
                part.byteSize(),
                handle,
                localKey,
                writable,
                bindable);
    }

    boolean alive() {
        return memory.scope().isAlive();
    }
}
