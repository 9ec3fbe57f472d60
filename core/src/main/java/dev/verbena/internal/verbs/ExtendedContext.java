package dev.verbena.internal.verbs;

import dev.verbena.bindings.ibv_context;
import dev.verbena.bindings.verbs_context;

import java.lang.foreign.MemorySegment;

/**
 * The {@code verbs_context} of an opened device: the functions that are not exported, but inline in
 * verbs.h. The struct ends with the {@code ibv_context}, and grows in front.
 */
final class ExtendedContext {
    private static final long EXTENDED = -1; // __VERBS_ABI_IS_EXTENDED

    private final MemorySegment context;

    /** For an {@code ibv_context}. */
    ExtendedContext(MemorySegment context) {
        this.context = context;
    }

    /**
     * Finds a function as {@code verbs_get_ctx_op} does.
     *
     * @param offset of its field in the {@code verbs_context}
     * @return NULL where the library or the provider does not have it
     */
    MemorySegment function(long offset) {
        if (ibv_context.abi_compat(context).address() != EXTENDED) {
            return MemorySegment.NULL;
        }
        long start = context.address() - verbs_context.context$offset();
        long size = Native.getLong(start, verbs_context.sz$offset());
        return MemorySegment.ofAddress(
                size >= verbs_context.sizeof() - offset ? Native.getLong(start, offset) : 0);
    }
}
