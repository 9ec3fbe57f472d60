package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_init_attr;

import java.lang.foreign.MemorySegment;

/**
 * The native memory for querying one queue pair's state, allocated once: where a device does not
 * report a failure, the polling thread asks from time to time, and polling allocates nothing. Two
 * threads that ask at once for the same queue pair get the same answer.
 */
public final class StateQuery {
    final MemorySegment queuePair;
    final MemorySegment attributes;
    final MemorySegment initial;

    /**
     * Allocates it.
     *
     * @param queuePair the {@code ibv_qp}
     * @param memory where its memory is allocated: freed after the last question
     */
    public StateQuery(long queuePair, NativeMemory memory) {
        this.queuePair = MemorySegment.ofAddress(queuePair);
        this.attributes = ibv_qp_attr.allocate(memory);
        this.initial = ibv_qp_init_attr.allocate(memory);
    }
}
