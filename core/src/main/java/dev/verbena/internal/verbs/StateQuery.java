package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.bindings.ibv_qp_init_attr;

import java.lang.foreign.MemorySegment;

/**
 * What asking for one queue pair's state takes in native memory, made once: where a device does not
 * tell of a death, whoever polls asks from time to time, and polling allocates nothing. Two threads
 * that ask at once for the same queue pair get the same answer.
 */
public final class StateQuery {
    final MemorySegment queuePair;
    final MemorySegment attributes;
    final MemorySegment initial;

    /**
     * Prepares asking.
     *
     * @param queuePair the {@code ibv_qp}
     * @param room where the memory is: given back after the last question
     */
    public StateQuery(long queuePair, Room room) {
        this.queuePair = MemorySegment.ofAddress(queuePair);
        this.attributes = ibv_qp_attr.allocate(room);
        this.initial = ibv_qp_init_attr.allocate(room);
    }
}
