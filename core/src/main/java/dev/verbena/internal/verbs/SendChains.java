package dev.verbena.internal.verbs;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.SegmentAllocator;

/**
 * The chains of one send queue: one for a request that is posted at once, and one for deferred
 * requests, allocated when the first is deferred. Queue pairs that one thread owns share the first:
 * it is in use during a post only, and a thousand queue pairs that each had their own would find
 * none of them in the processor's cache.
 */
public final class SendChains {
    private final Provider provider;
    private final int maxDeferred;
    private final int maxSge;
    private final int inlineBytes;
    private final SegmentAllocator memory;
    private final SendChain single;

    /**
     * Makes the chains of one queue, of which {@code maxDeferred} requests may wait.
     *
     * @param memory the allocator; the caller frees it after the last post
     * @param shared the chain of the thread that owns the queue, or null
     */
    public SendChains(
            Provider provider,
            int maxDeferred,
            int maxSge,
            int inlineBytes,
            SegmentAllocator memory,
            @Nullable Shared shared) {
        this.provider = provider;
        this.maxDeferred = maxDeferred;
        this.maxSge = maxSge;
        this.inlineBytes = inlineBytes;
        this.memory = memory;
        int copied = maxDeferred <= 1 ? maxSge : 1; // buffers, of a request in the single chain
        this.single =
                shared == null
                        ? new SendChain(provider, 1, copied, inlineBytes, memory)
                        : shared.chain(provider, maxSge, inlineBytes);
    }

    /**
     * The chain of a request that is posted at once. It has room for one, and is empty between two
     * posts.
     */
    public SendChain single() {
        return single;
    }

    /**
     * Allocates the chain of deferred requests; {@link #single} where no request may wait for
     * another.
     */
    public SendChain deferred() {
        return maxDeferred <= 1
                ? single
                : new SendChain(provider, maxDeferred, maxSge, inlineBytes, memory);
    }

    /** The chain that all queue pairs of one thread share; for that thread only. */
    public static final class Shared {
        private final Arena memory = Arena.ofAuto(); // each chain holds its own part
        private @Nullable SendChain largest;
        private int maxSge;
        private int inlineBytes;

        /**
         * A chain that is large enough for a queue pair's requests. Those made before keep theirs.
         */
        private SendChain chain(Provider provider, int maxSge, int inlineBytes) {
            SendChain chain = largest;
            if (chain == null || maxSge > this.maxSge || inlineBytes > this.inlineBytes) {
                this.maxSge = Math.max(maxSge, this.maxSge);
                this.inlineBytes = Math.max(inlineBytes, this.inlineBytes);
                chain = new SendChain(provider, 1, this.maxSge, this.inlineBytes, memory);
                largest = chain;
            }
            return chain;
        }
    }
}
