package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_init_attr;

import java.lang.foreign.MemorySegment;

/**
 * The native memory for querying the state of one queue pair ({@code ibv_query_qp}). Allocated
 * once, because polling must not allocate: if a device does not report a failure, the polling
 * thread queries the state from time to time. Two threads may use it at the same time: both calls
 * write the same state.
 */
public final class StateQuery {
    final MemorySegment queuePair;
    final MemorySegment attributes;
    final MemorySegment initial;

    /**
     * Allocates the memory.
     *
     * @param queuePair the {@code ibv_qp}
     * @param memory the allocator; the caller frees it after the last query
     */
    public StateQuery(long queuePair, NativeMemory memory) {
        this.queuePair = MemorySegment.ofAddress(queuePair);
        this.attributes = ibv_qp_attr.allocate(memory);
        this.initial = ibv_qp_init_attr.allocate(memory);
    }
}
