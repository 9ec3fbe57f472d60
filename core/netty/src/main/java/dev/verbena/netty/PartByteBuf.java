package dev.verbena.netty;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/** One of the pieces of memory that a buffer consists of. It holds a reference to that buffer. */
final class PartByteBuf extends SegmentByteBuf {
    private final ByteBuf whole;

    /**
     * Creates a buffer with a reference count of 1.
     *
     * @param memory direct
     * @param whole the buffer whose memory it is
     */
    PartByteBuf(ByteBuffer memory, ByteBuf whole) {
        this.whole = whole.retain();
        super(MemorySegment.ofBuffer(memory));
        begin(memory(), memory.remaining(), memory.remaining());
    }

    @Override
    public ByteBufAllocator alloc() {
        return whole.alloc();
    }

    @Override
    void freed() {
        whole.release();
    }
}
