package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * A message that has arrived, where the device has put it: nothing is copied, except where {@link
 * MessagingOptions#withReceives} says so. Its memory is used for another message once it is
 * released, and the peer may send that one only then: messages that are kept hold up the peer.
 */
public final class Message implements AutoCloseable {
    private @Nullable MessageChannel channel; // the last one
    private final @Nullable RawMessage frame; // with its header; null for a large message
    private MemorySegment payload; // of any message in this slot
    private @Nullable Arena scope; // of the payload, if messages are tracked
    private int start; // in the payload: behind a header of calls
    private int length; // from the payload's start
    private boolean held; // by the channel's user, in the channel's memory
    private boolean moved; // to the heap, and its credit is not returned
    private boolean released;
    private boolean retained;
    private boolean outlives; // the receives, which were closed
    private @Nullable Message spare; // takes this one's place if this one is kept

    LargeMemory.@Nullable Block block; // where a large message is, or is to be; under the lock

    /** A message in a receive. */
    Message(RawMessage frame) {
        this.frame = frame;
        this.payload = frame.buffer().asSlice(Frame.HEADER_BYTES);
    }

    /** A large message. */
    Message() {
        this.frame = null;
        this.payload = MemorySegment.NULL;
    }

    /** Its receive; null for a large message. */
    @Nullable RawMessage frame() {
        return frame;
    }

    /** Makes the object that takes its place if it is kept: later there may be no memory for it. */
    void reserve() {
        if (spare == null) {
            spare = frame == null ? new Message() : new Message(frame);
        }
    }

    /**
     * What the next message in this place is. Somebody may still have one that was kept, and
     * release it once more: so its object is not used again. Needs no memory.
     */
    Message successor() {
        if (!retained && !moved && scope == null) {
            return this;
        }
        Message next = Objects.requireNonNull(spare);
        spare = null; // or a message that is kept would keep all that follow
        return next;
    }

    /** At the close of its receives: whether the program has it still. */
    boolean outlives() {
        MessageChannel of = channel;
        if (of != null) {
            try (var _ = of.lock.hold()) {
                outlives = held;
            }
        }
        return outlives;
    }

    /** Whether the program had it when its receives were closed. */
    boolean hasOutlived() {
        return outlives;
    }

    void announced(int bytes) {
        length = bytes;
    }

    /** The peer has written it to the memory of its block. */
    void written(MessageChannel by) {
        payload = Objects.requireNonNull(block).region.memory();
        arrived(by, length);
    }

    /** By the poller: it has come, and the handler or the inbox gets it. */
    @SuppressWarnings({"MustBeClosedChecker", "restricted"}) // its release closes the scope
    void arrived(MessageChannel by, int bytes) {
        channel = by;
        if (by.options.tracking) {
            reserve();
            Arena made = Arena.ofShared();
            payload = payload.reinterpret(made, null);
            scope = made;
        }
        start = 0;
        length = bytes;
        retained = false;
        held = true;
        released = false;
    }

    /**
     * By the channel, with its lock: whether it was held, and is not any more.
     *
     * @throws IllegalStateException if it is tracked and a thread is inside a call that reads it
     */
    boolean drop() {
        boolean before = held;
        start = 0;
        closeScope();
        held = false;
        released = true;
        return before;
    }

    private void closeScope() {
        if (scope != null && held) {
            scope.close();
        }
    }

    /**
     * By the channel, with its lock: copies it out of the channel's memory, which goes.
     *
     * @return false when that was done before
     */
    boolean copyOut() {
        return held && copyTo(MemorySegment.ofArray(new byte[length()]));
    }

    private boolean copyTo(MemorySegment copy) {
        copy.copyFrom(data());
        closeScope();
        payload = copy;
        length -= start;
        start = 0;
        held = false;
        return true;
    }

    /** By the channel, with its lock: as {@link #copyOut}, and the program keeps it. */
    boolean moves() {
        ensureNotReleased();
        if (held) {
            reserve();
        }
        boolean copied = copyOut(); // first: if it fails, the handler's end releases the message
        moved |= copied;
        retained = true;
        return copied;
    }

    /**
     * By the poller, before the program has it: to native memory that is aligned as that of the
     * channel is, so that the program sees no difference.
     */
    @SuppressWarnings("MustBeClosedChecker") // the garbage collector frees it
    void movesUnasked() {
        reserve();
        moved = copyTo(Arena.ofAuto().allocate(length(), Long.BYTES));
    }

    /** By the channel, with its lock: whether it was moved and not released. */
    boolean endsMove() {
        boolean before = moved;
        moved = false;
        return before;
    }

    /** By the poller: hides the first bytes. */
    Message skip(int bytes) {
        start = bytes;
        return this;
    }

    /** Nobody reads it any more: a copy of it has no bytes. */
    Message skipAll() {
        start = length;
        return this;
    }

    boolean retained() {
        return retained;
    }

    /**
     * The channel on which it arrived.
     *
     * @return the channel
     */
    @CheckReturnValue
    public MessageChannel channel() {
        return Objects.requireNonNull(channel);
    }

    /**
     * How long it is.
     *
     * @return 0 or more bytes
     */
    @CheckReturnValue
    public int length() {
        return length - start;
    }

    /**
     * The memory that it begins at. Longer than the message: see {@link #length}. Allocates
     * nothing, as {@link #data} does.
     *
     * @return the memory, to be read until the message is released
     * @throws IllegalStateException if it was released
     */
    @CheckReturnValue
    public MemorySegment buffer() {
        ensureNotReleased();
        return start == 0 ? payload : payload.asSlice(start);
    }

    /**
     * The bytes of the message.
     *
     * @return memory of just its length, to be read until the message is released
     * @throws IllegalStateException if it was released
     */
    @CheckReturnValue
    public MemorySegment data() {
        ensureNotReleased();
        return payload.asSlice(start, length - start);
    }

    private void ensureNotReleased() {
        if (released) {
            throw new IllegalStateException(
                    "This message was released, and its memory may hold another one. A message that its handler does not retain() is released when the handler returns");
        }
    }

    /**
     * Keeps the message when its handler returns. It has to be released later, by any thread that
     * may use the channel.
     *
     * @return this message
     * @throws IllegalStateException if it was released
     * @throws OutOfMemoryError if the heap has no room to keep it: it is not kept
     */
    public Message retain() {
        ensureNotReleased();
        if (held) {
            reserve();
        }
        retained = true;
        return this;
    }

    /**
     * Keeps the message as {@link #retain} does, but in a copy on the Java heap. Its memory, which
     * channels share, takes another message at once: do not read a segment any more that {@link
     * #data} or {@link #buffer} returned before this call. The peer may send another message in its
     * place only when it is released. Detach a message that is kept for long, so that the other
     * channels of the poller do not run out of receives, or of memory for large messages. A second
     * call does nothing.
     *
     * @return this message, whose {@link #data} is the copy
     * @throws IllegalStateException if it was released, or is tracked and another thread reads it
     * @throws WrongThreadException as {@link #release} does
     * @throws OutOfMemoryError if there is no room for the copy: the message stays where it is
     */
    public Message detach() {
        channel().inbox.detach(this);
        return this;
    }

    /**
     * Gives the memory back to the channel, so that the peer can send into it again. Do not use the
     * message or its memory afterwards: {@link #data} throws, and with {@link
     * MessagingOptions#withTracking}, so does a segment that was kept. A second call does nothing.
     * A message that its handler does not retain is released when the handler returns.
     *
     * @throws WrongThreadException when the channel's poller is another thread's ({@link
     *     Poller#onThisThread}): then it is not released
     */
    public void release() {
        channel().inbox.release(this);
    }

    /** Releases it. */
    @Override
    public void close() {
        release();
    }

    @Override
    public String toString() {
        return "Message(%d bytes of %s)".formatted(length(), channel);
    }
}
