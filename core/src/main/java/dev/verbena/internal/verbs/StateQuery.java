package dev.verbena.internal.verbs;

/**
 * The native memory for querying the state of one queue pair ({@code ibv_query_qp}). Allocated
 * once, because polling must not allocate: if a device does not report a failure, the polling
 * thread queries the state from time to time. Two threads may use it at the same time: both calls
 * write the same state.
 */
public final class StateQuery {
    /** The addresses of an {@code ibv_qp_attr} and an {@code ibv_qp_init_attr}. */
    final long attributes;

    final long initial;

    /**
     * Allocates the memory.
     *
     * @param memory the allocator; the caller frees it after the last query
     */
    public StateQuery(NativeMemory memory) {
        long both = Structs.IbvQpAttr.SIZE + Structs.IbvQpInitAttr.SIZE;
        this.attributes = memory.allocate(both, Long.BYTES).address();
        this.initial = attributes + Structs.IbvQpAttr.SIZE;
    }
}
