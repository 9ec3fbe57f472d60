package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;

/**
 * What a post needs only until it returns: a list of buffers, and registered memory in which a
 * short frame is composed, because the post copies it. The channels of a poller that is confined to
 * one thread share one; it stays in the processor's cache, and a channel takes no memory for it.
 * Other channels have their own, under their lock.
 */
final class PostScratch {
    /** What a channel sends inline at most. */
    static final int MOST_INLINE = 128;

    /** The length of the memory: a frame, and after it what an offer says. */
    static final int BYTES = MOST_INLINE + Frame.OFFER_BYTES;

    private final FrameBuffers buffers;
    private final int buffer;

    final BufferList list;
    final MemoryRegion region;
    final long at; // in the region

    PostScratch(FrameBuffers buffers, int most) {
        this.buffers = buffers;
        this.list = new BufferList(most);
        this.buffer = buffers.take();
        this.region = buffers.region(buffer);
        this.at = buffers.offset(buffer);
    }

    /** Gives the memory back; once. */
    void free() {
        buffers.giveBack(buffer);
    }
}
