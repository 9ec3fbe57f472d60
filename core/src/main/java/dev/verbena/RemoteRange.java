package dev.verbena;

import dev.verbena.internal.queue.Operation;
import dev.verbena.internal.util.Arguments;

/** Checks that the bytes of a request are within the peer's memory that it names. */
final class RemoteRange {
    private RemoteRange() {}

    /**
     * Whether all bytes of the buffers are within the memory, counted from the offset.
     *
     * @throws NullPointerException after what was deferred before was posted
     */
    static boolean isWithin(
            SendRequests requests, BufferList buffers, RemoteMemory memory, long offset) {
        if (memory == null || buffers == null) {
            if (requests instanceof QueuePair queuePair) {
                queuePair.sends().postDeferred();
            }
            Arguments.notNull(memory, "memory");
            Arguments.notNull(buffers, "buffers");
        }
        return memory.holds(offset, buffers.bytes());
    }

    /** Refuses a request whose bytes are not. */
    static PostResult refuse(SendRequests requests, Operation operation) {
        return requests instanceof QueuePair queuePair
                ? queuePair.refuseOutside(operation)
                : ((RequestBatch) requests).refuseOutside(operation);
    }
}
