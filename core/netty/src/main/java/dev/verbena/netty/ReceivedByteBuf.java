package dev.verbena.netty;

import dev.verbena.messaging.Message;

import io.netty.buffer.ByteBufAllocator;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A message that has arrived, where the device has put it, until the last reference is released. It
 * grows behind the message, as far as there is memory; then it moves to memory of the channel's.
 */
final class ReceivedByteBuf extends SegmentByteBuf {
    private final MemorySegment received; // memory
    private final List<SegmentByteBuf> larger = new ArrayList<>(0); // that it has grown into
    private @Nullable Incoming incoming; // that has delivered it
    private boolean lives; // until the event loop has taken it back
    private @Nullable Message message; // to be released; null while the handler does that

    ReceivedByteBuf(MemorySegment memory) {
        super(memory);
        received = memory;
    }

    /** Whether it is over this memory, and free. The address may be that of other memory since. */
    boolean isFreeOver(MemorySegment next) {
        return !lives && received.byteSize() == next.byteSize() && received.scope().isAlive();
    }

    void begin(Incoming by, Message arrived) {
        incoming = by;
        lives = true;
        message = null;
        begin(received, arrived.length(), Integer.MAX_VALUE);
        var _ = writerIndex(arrived.length());
    }

    /**
     * How much can be written where it is. Decoders that ask this join two buffers in a new one if
     * they have to, and copy only what they have not read; a move would copy everything.
     */
    @Override
    public int maxWritableBytes() {
        return maxFastWritableBytes();
    }

    @Override
    void move(int newCapacity) {
        SegmentByteBuf next = Objects.requireNonNull(incoming).larger(newCapacity);
        moveTo(next.memory());
        if (refCnt() == 1) { // otherwise the device may be sending a slice
            releaseLarger();
        }
        larger.add(next);
    }

    private void releaseLarger() {
        larger.forEach(SegmentByteBuf::release);
        larger.clear();
    }

    /** The pipeline has kept it: from now on, its message is not released by the handler. */
    void keeps(Message kept) {
        message = kept;
    }

    /** Ends its life. Returns the message that it kept; null if it was released at once. */
    @Nullable Message takeMessage() {
        lives = false;
        Message kept = message;
        message = null;
        incoming = null; // of a channel that may be closed
        return kept;
    }

    @Override
    public ByteBufAllocator alloc() {
        Incoming by = incoming;
        return by == null ? ByteBufAllocator.DEFAULT : by.alloc();
    }

    @Override
    void freed() {
        releaseLarger();
        Objects.requireNonNull(incoming).freed(this);
    }
}
