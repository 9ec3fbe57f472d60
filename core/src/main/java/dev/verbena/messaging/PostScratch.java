package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;

import org.jspecify.annotations.Nullable;

/**
 * What a post needs only until it returns: a list of buffers, and registered memory in which a
 * short frame is composed, because the post copies it. All channels of a poller share the one of
 * its thread, which stays in the processor's cache; another thread borrows one for each post.
 */
final class PostScratch {
    /** What a channel sends inline at most. */
    static final int MOST_INLINE = 128;

    /** The length of the memory: a frame, and after it what an offer says. */
    static final int BYTES = MOST_INLINE + Frame.OFFER_BYTES;

    final BufferList list;
    final MemoryRegion region;
    final long at; // in the region

    /** The next of those that no thread has borrowed. */
    @Nullable PostScratch next;

    PostScratch(FrameBuffers buffers, int most) {
        this.list = new BufferList(most);
        int buffer = buffers.take();
        this.region = buffers.region(buffer);
        this.at = buffers.offset(buffer);
    }
}
