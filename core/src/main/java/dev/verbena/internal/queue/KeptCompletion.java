package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

/**
 * Memory for a completion that this library has polled and the consumer has not. The queue of the
 * request owns it: it has one for each of its outstanding requests, so polling needs no memory.
 */
abstract class KeptCompletion {
    /** The next one in a list: of what is kept, or of what its queue does not need now. */
    @Nullable KeptCompletion next;

    /** The request's. */
    long context;

    private long kind;
    private int tokenOrImmediate;

    /** Keeps a completion, the last one of a list. */
    void put(Endpoint endpoint, long context, long kind, int tokenOrImmediate) {
        this.context = context;
        this.kind = kind;
        this.tokenOrImmediate = tokenOrImmediate;
        next = null;
    }

    final void moveTo(CompletionRecords to) {
        to.add(endpoint(), context, kind, tokenOrImmediate);
        drop();
    }

    /** The queue pair that the completion is of. */
    abstract Endpoint endpoint();

    /** It leaves its list. */
    void drop() {
        next = null;
        delivered();
    }

    /** It was delivered or dropped: its queue has the slot and this memory back. */
    abstract void delivered();
}
