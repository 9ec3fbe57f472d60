package dev.verbena.netty;

import dev.verbena.messaging.Message;

import io.netty.buffer.ByteBufAllocator;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * A message that has arrived, where the device has put it, until the last reference is released.
 */
final class ReceivedByteBuf extends SegmentByteBuf {
    private @Nullable Incoming incoming; // that has delivered it
    private boolean lives; // until the event loop has taken it back
    private @Nullable Message message; // to be released; null while the handler does that

    ReceivedByteBuf(MemorySegment memory) {
        super(memory);
    }

    /** Whether it is over this memory, and free. The address may be that of other memory since. */
    boolean isFreeOver(MemorySegment received) {
        return !lives && memory().byteSize() == received.byteSize() && memory().scope().isAlive();
    }

    void begin(Incoming by, Message received) {
        incoming = by;
        lives = true;
        message = null;
        begin(memory(), received.length(), received.length());
        var _ = writerIndex(received.length());
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
        return kept;
    }

    @Override
    public ByteBufAllocator alloc() {
        return Objects.requireNonNull(incoming).alloc();
    }

    @Override
    void freed() {
        Objects.requireNonNull(incoming).freed(this);
    }
}
