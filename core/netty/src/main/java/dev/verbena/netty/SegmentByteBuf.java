package dev.verbena.netty;

import io.netty.buffer.AbstractReferenceCountedByteBuf;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.CompositeByteBuf;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.channels.GatheringByteChannel;
import java.nio.channels.ScatteringByteChannel;
import java.util.Objects;

/**
 * A direct buffer over a memory segment, without {@code sun.misc.Unsafe}. The object is reusable:
 * {@link #begin} starts a life with a reference count of 1, and {@link #freed} is called when the
 * count reaches 0. A life over the same segment as the one before allocates nothing.
 *
 * <p>Two views of the memory are kept. Nothing changes the position and limit of {@code view}, so
 * that threads which share the buffer can read through it. {@code scratch} is the internal buffer
 * of Netty's contract, for one thread at a time.
 */
abstract class SegmentByteBuf extends AbstractReferenceCountedByteBuf {
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);
    private static final ValueLayout.OfShort SHORT_LE =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT_LE =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG_LE =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final int STREAM_BYTES = 8192;

    private MemorySegment memory;
    private ByteBuffer view;
    private @Nullable ByteBuffer scratch;
    private int capacity;

    /** Creates a buffer that has no life yet: its reference count is 0. */
    SegmentByteBuf(MemorySegment memory) {
        super(0);
        this.memory = memory;
        this.view = memory.asByteBuffer();
        setRefCnt(0);
    }

    /**
     * Starts a life: one reference, both indices and marks 0.
     *
     * @param memory native memory; keep the segment and pass the same object again, because another
     *     one costs a new view
     * @param length the capacity, at most the size of the memory
     * @param maxCapacity the maximum capacity; above the size of the memory only where {@link
     *     #move} is implemented
     */
    @SuppressWarnings({"ReferenceEquality", "MemorySegmentReferenceEquality"}) // see memory above
    final void begin(MemorySegment memory, int length, int maxCapacity) {
        if (memory != this.memory) {
            use(memory);
        }
        maxCapacity(maxCapacity);
        capacity = length;
        setIndex(0, 0);
        markReaderIndex();
        markWriterIndex();
        resetRefCnt();
    }

    /** Called when the last reference was released. */
    abstract void freed();

    /**
     * Moves the content to memory of at least that size. Called by {@link #capacity(int)} if the
     * memory is too small and the maximum capacity allows it.
     */
    void move(int newCapacity) {
        throw new UnsupportedOperationException(
                "%s cannot grow to %,d bytes".formatted(this, newCapacity));
    }

    private void use(MemorySegment other) {
        memory = other;
        view = other.asByteBuffer();
        scratch = null;
    }

    /** Copies the content to other memory, which is this buffer's from now on. */
    final void moveTo(MemorySegment larger) {
        MemorySegment.copy(memory, 0, larger, 0, capacity);
        use(larger);
    }

    /** Exchanges the memory of two buffers; this one keeps its content. */
    final void exchange(SegmentByteBuf other) {
        MemorySegment.copy(memory, 0, other.memory, 0, capacity);
        MemorySegment otherMemory = other.memory;
        ByteBuffer otherView = other.view;
        ByteBuffer otherScratch = other.scratch;
        other.memory = memory;
        other.view = view;
        other.scratch = scratch;
        memory = otherMemory;
        view = otherView;
        scratch = otherScratch;
    }

    /** All of the memory, of which this buffer may show a part. */
    final MemorySegment memory() {
        return memory;
    }

    /**
     * Copies bytes of any buffer. Allocates nothing for heap buffers, for buffers of this class and
     * everything that is derived from them, for other direct buffers that are not derived, and for
     * composite buffers of these.
     *
     * @param to any byte buffer, whose position and limit stay as they are
     */
    static void copy(ByteBuf from, int index, ByteBuffer to, int offset, int length) {
        Objects.checkFromIndexSize(index, length, from.capacity());
        if (from.hasArray()) {
            to.put(offset, from.array(), from.arrayOffset() + index, length);
            return;
        }
        if (from instanceof CompositeByteBuf composite) {
            copyParts(composite, index, to, offset, length);
            return;
        }
        ByteBuf root = from;
        // Others may refuse to be unwrapped, as that of a ReplayingDecoder does.
        for (ByteBuf next = from.hasMemoryAddress() ? from : null;
                next != null;
                next = next.unwrap()) {
            root = next;
        }
        if (root instanceof SegmentByteBuf segment) {
            int start = (int) (from.memoryAddress() - segment.memoryAddress());
            to.put(offset, segment.view, start + index, length);
        } else if (from.nioBufferCount() == 1) {
            ByteBuffer source = from.internalNioBuffer(index, length);
            to.put(offset, source, source.position(), length);
        } else if (from.nioBufferCount() > 1) {
            int at = offset;
            for (ByteBuffer source : from.nioBuffers(index, length)) {
                to.put(at, source, source.position(), source.remaining());
                at += source.remaining();
            }
        } else {
            from.getBytes(index, to.slice(offset, length));
        }
    }

    private static void copyParts(
            CompositeByteBuf from, int index, ByteBuffer to, int offset, int length) {
        for (int done = 0; done < length; ) {
            int component = from.toComponentIndex(index + done);
            ByteBuf part = from.internalComponent(component);
            int start = index + done - from.toByteIndex(component);
            int bytes = Math.min(length - done, part.capacity() - start);
            copy(part, start, to, offset + done, bytes);
            done += bytes;
        }
    }

    @Override
    protected final void deallocate() {
        freed();
    }

    @Override
    public final int capacity() {
        return capacity;
    }

    @Override
    public final ByteBuf capacity(int newCapacity) {
        checkNewCapacity(newCapacity);
        if (newCapacity > memory.byteSize()) {
            move(newCapacity);
        } else if (newCapacity < capacity) {
            trimIndicesToCapacity(newCapacity);
        }
        capacity = newCapacity;
        return this;
    }

    @Override
    public final int maxFastWritableBytes() {
        return (int) Math.min(memory.byteSize(), maxCapacity()) - writerIndex();
    }

    @Override
    @Deprecated
    @SuppressWarnings("InlineMeSuggester")
    public final ByteOrder order() {
        return ByteOrder.BIG_ENDIAN;
    }

    @Override
    public final @Nullable ByteBuf unwrap() {
        return null;
    }

    @Override
    public final boolean isDirect() {
        return true;
    }

    @Override
    public final boolean isContiguous() {
        return true;
    }

    @Override
    public final boolean hasArray() {
        return false;
    }

    @Override
    public final byte[] array() {
        throw new UnsupportedOperationException("direct buffer");
    }

    @Override
    public final int arrayOffset() {
        throw new UnsupportedOperationException("direct buffer");
    }

    @Override
    public final boolean hasMemoryAddress() {
        return true;
    }

    @Override
    public final long memoryAddress() {
        ensureAccessible();
        return memory.address();
    }

    @Override
    public final int nioBufferCount() {
        return 1;
    }

    @Override
    public final ByteBuffer nioBuffer(int index, int length) {
        checkIndex(index, length);
        return view.slice(index, length);
    }

    @Override
    public final ByteBuffer[] nioBuffers(int index, int length) {
        return new ByteBuffer[] {nioBuffer(index, length)};
    }

    @Override
    public final ByteBuffer internalNioBuffer(int index, int length) {
        checkIndex(index, length);
        ByteBuffer buffer = scratch;
        if (buffer == null) {
            buffer = view.duplicate();
            scratch = buffer;
        }
        return buffer.limit(index + length).position(index);
    }

    @Override
    public final ByteBuf copy(int index, int length) {
        checkIndex(index, length);
        return alloc().directBuffer(length, maxCapacity()).writeBytes(this, index, length);
    }

    @Override
    protected final byte _getByte(int index) {
        return memory.get(ValueLayout.JAVA_BYTE, index);
    }

    @Override
    protected final short _getShort(int index) {
        return memory.get(SHORT, index);
    }

    @Override
    protected final short _getShortLE(int index) {
        return memory.get(SHORT_LE, index);
    }

    @Override
    protected final int _getUnsignedMedium(int index) {
        return (_getShort(index) & 0xFFFF) << 8 | _getByte(index + 2) & 0xFF;
    }

    @Override
    protected final int _getUnsignedMediumLE(int index) {
        return (_getByte(index + 2) & 0xFF) << 16 | _getShortLE(index) & 0xFFFF;
    }

    @Override
    protected final int _getInt(int index) {
        return memory.get(INT, index);
    }

    @Override
    protected final int _getIntLE(int index) {
        return memory.get(INT_LE, index);
    }

    @Override
    protected final long _getLong(int index) {
        return memory.get(LONG, index);
    }

    @Override
    protected final long _getLongLE(int index) {
        return memory.get(LONG_LE, index);
    }

    @Override
    protected final void _setByte(int index, int value) {
        memory.set(ValueLayout.JAVA_BYTE, index, (byte) value);
    }

    @Override
    protected final void _setShort(int index, int value) {
        memory.set(SHORT, index, (short) value);
    }

    @Override
    protected final void _setShortLE(int index, int value) {
        memory.set(SHORT_LE, index, (short) value);
    }

    @Override
    protected final void _setMedium(int index, int value) {
        _setShort(index, value >>> 8);
        _setByte(index + 2, value);
    }

    @Override
    protected final void _setMediumLE(int index, int value) {
        _setShortLE(index, value);
        _setByte(index + 2, value >>> 16);
    }

    @Override
    protected final void _setInt(int index, int value) {
        memory.set(INT, index, value);
    }

    @Override
    protected final void _setIntLE(int index, int value) {
        memory.set(INT_LE, index, value);
    }

    @Override
    protected final void _setLong(int index, long value) {
        memory.set(LONG, index, value);
    }

    @Override
    protected final void _setLongLE(int index, long value) {
        memory.set(LONG_LE, index, value);
    }

    @Override
    public final ByteBuf getBytes(int index, ByteBuf dst, int dstIndex, int length) {
        checkDstIndex(index, length, dstIndex, dst.capacity());
        if (dst.hasArray()) {
            view.get(index, dst.array(), dst.arrayOffset() + dstIndex, length);
        } else {
            dst.setBytes(dstIndex, this, index, length);
        }
        return this;
    }

    @Override
    public final ByteBuf getBytes(int index, byte[] dst, int dstIndex, int length) {
        checkDstIndex(index, length, dstIndex, dst.length);
        view.get(index, dst, dstIndex, length);
        return this;
    }

    @Override
    public final ByteBuf getBytes(int index, ByteBuffer dst) {
        int length = dst.remaining();
        checkIndex(index, length);
        dst.put(dst.position(), view, index, length);
        dst.position(dst.limit());
        return this;
    }

    @Override
    public final ByteBuf getBytes(int index, OutputStream out, int length) throws IOException {
        checkIndex(index, length);
        byte[] bytes = new byte[Math.min(length, STREAM_BYTES)];
        for (int done = 0; done < length; ) {
            int part = Math.min(length - done, bytes.length);
            view.get(index + done, bytes, 0, part);
            out.write(bytes, 0, part);
            done += part;
        }
        return this;
    }

    @Override
    public final int getBytes(int index, GatheringByteChannel out, int length) throws IOException {
        return out.write(nioBuffer(index, length));
    }

    @Override
    public final int getBytes(int index, FileChannel out, long position, int length)
            throws IOException {
        return out.write(nioBuffer(index, length), position);
    }

    @Override
    public final ByteBuf setBytes(int index, ByteBuf src, int srcIndex, int length) {
        checkSrcIndex(index, length, srcIndex, src.capacity());
        copy(src, srcIndex, view, index, length);
        return this;
    }

    @Override
    public final ByteBuf setBytes(int index, byte[] src, int srcIndex, int length) {
        checkSrcIndex(index, length, srcIndex, src.length);
        view.put(index, src, srcIndex, length);
        return this;
    }

    @Override
    public final ByteBuf setBytes(int index, ByteBuffer src) {
        int length = src.remaining();
        checkIndex(index, length);
        view.put(index, src, src.position(), length);
        src.position(src.limit());
        return this;
    }

    @Override
    public final int setBytes(int index, InputStream in, int length) throws IOException {
        checkIndex(index, length);
        byte[] bytes = new byte[length];
        int read = in.read(bytes);
        if (read > 0) {
            view.put(index, bytes, 0, read);
        }
        return read;
    }

    @Override
    public final int setBytes(int index, ScatteringByteChannel in, int length) throws IOException {
        try {
            return in.read(nioBuffer(index, length));
        } catch (ClosedChannelException _) {
            return -1; // as Netty's other buffers
        }
    }

    @Override
    public final int setBytes(int index, FileChannel in, long position, int length)
            throws IOException {
        try {
            return in.read(nioBuffer(index, length), position);
        } catch (ClosedChannelException _) {
            return -1;
        }
    }
}
