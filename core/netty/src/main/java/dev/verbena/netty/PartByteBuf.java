package dev.verbena.netty;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/** One of the pieces of memory that a buffer consists of. It holds a reference to their owner. */
final class PartByteBuf extends SegmentByteBuf {
    private final ByteBuf whole;

    private PartByteBuf(ByteBuffer memory, ByteBuf whole) {
        this.whole = whole.retain();
        super(MemorySegment.ofBuffer(memory));
        begin(memory(), memory.remaining(), memory.remaining());
    }

    /** A piece of a buffer, with a reference count of 1. */
    static ByteBuf of(ByteBuffer memory, ByteBuf buffer) {
        if (!memory.isDirect()) {
            return Unpooled.wrappedBuffer(memory);
        }
        long address = MemorySegment.ofBuffer(memory).address();
        ByteBuf owner = owner(buffer, address, memory.remaining());
        return owner == null ? Unpooled.copiedBuffer(memory) : new PartByteBuf(memory, owner);
    }

    /**
     * The buffer whose reference count keeps memory alive that another buffer shows. A slice of a
     * composite buffer keeps the composite, which frees a component when it consolidates.
     *
     * @return null if there is none: then the memory has to be copied
     */
    static @Nullable ByteBuf owner(ByteBuf buffer, long address, int length) {
        ByteBuf root = buffer;
        for (ByteBuf next = root; next != null; next = next.unwrap()) {
            root = next;
        }
        if (!(root instanceof CompositeByteBuf composite)) {
            return buffer; // not its root: a detector of leaks wants to hear of each release
        }
        for (int i = 0; i < composite.numComponents(); i++) {
            ByteBuf part = composite.internalComponent(i);
            if (part.hasMemoryAddress()
                    && part.memoryAddress() <= address
                    && address + length <= part.memoryAddress() + part.capacity()) {
                return owner(part, address, length);
            }
        }
        return null;
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
