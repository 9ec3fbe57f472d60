package dev.verbena.internal.verbs;

/**
 * The {@code verbs_context} of an opened device: the functions that are not exported, but inline in
 * verbs.h. The struct ends with the {@code ibv_context}, and grows in front.
 */
final class ExtendedContext {
    private static final long EXTENDED = -1; // __VERBS_ABI_IS_EXTENDED

    private final long context;

    /** For an {@code ibv_context}. */
    ExtendedContext(long context) {
        this.context = context;
    }

    /**
     * Finds a function as {@code verbs_get_ctx_op} does.
     *
     * @return one that {@linkplain NativeFunction#isNull is null} where the library or the provider
     *     does not have it
     */
    NativeFunction function(long offset) {
        if (Native.getLong(context, Structs.IbvContext.ABI_COMPAT) != EXTENDED) {
            return NativeFunction.at(0);
        }
        long start = context - Structs.VerbsContext.CONTEXT;
        long size = Native.getLong(start, Structs.VerbsContext.SZ);
        return NativeFunction.at(
                size >= Structs.VerbsContext.SIZE - offset ? Native.getLong(start, offset) : 0);
    }
}
