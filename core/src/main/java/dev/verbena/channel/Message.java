package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * A message that has arrived, where the device has put it: nothing is copied. Its memory is used
 * for another message once it is released, and the peer may send that one only then: messages that
 * are kept hold up the peer.
 */
public final class Message implements AutoCloseable {
    private final Channel channel;
    private final int slot;
    private final MemorySegment frame; // with its header
    private MemorySegment payload; // of any message in this slot
    private int length;
    private boolean held; // by the channel's user
    private boolean retained;

    Message(Channel channel, int slot, MemorySegment frame) {
        this.channel = channel;
        this.slot = slot;
        this.frame = frame;
        this.payload = frame.asSlice(Frame.HEADER_BYTES);
    }

    int slot() {
        return slot;
    }

    MemorySegment frame() {
        return frame;
    }

    /**
     * What the next message in this slot is. Somebody may still have one that was kept, and release
     * it once more: so its object is not used again.
     */
    Message successor() {
        return retained ? new Message(channel, slot, frame) : this;
    }

    /** By the poller: it has come, and the handler or the inbox gets it. */
    void arrived(int bytes) {
        length = bytes;
        retained = false;
        held = true;
    }

    /** By the channel, with its lock: whether it was held, and is not any more. */
    boolean drop() {
        boolean before = held;
        held = false;
        return before;
    }

    /**
     * By the channel, with its lock: copies it out of the channel's memory, which goes.
     *
     * @return false when that was done before
     */
    boolean detach() {
        if (held) {
            payload = MemorySegment.ofArray(data().toArray(ValueLayout.JAVA_BYTE));
            held = false;
            return true;
        }
        return false;
    }

    boolean retained() {
        return retained;
    }

    /**
     * The channel that it came by.
     *
     * @return the channel
     */
    @CheckReturnValue
    public Channel channel() {
        return channel;
    }

    /**
     * How long it is.
     *
     * @return 0 or more bytes
     */
    @CheckReturnValue
    public int length() {
        return length;
    }

    /**
     * The memory that it begins at. Longer than the message: see {@link #length}. Allocates
     * nothing, as {@link #data} does.
     *
     * @return the memory
     */
    @CheckReturnValue
    public MemorySegment buffer() {
        return payload;
    }

    /**
     * The bytes of the message.
     *
     * @return memory of just its length
     */
    @CheckReturnValue
    public MemorySegment data() {
        return payload.asSlice(0, length);
    }

    /**
     * Keeps the message when its handler returns. It has to be released later, by any thread that
     * may use the channel.
     *
     * @return this message
     */
    public Message retain() {
        retained = true;
        return this;
    }

    /**
     * Gives the memory back to the channel, which the peer then may send to again: it is not to be
     * read any more. A second call does nothing. A message that its handler has not kept is
     * released when the handler returns.
     *
     * @throws WrongThreadException when the channel's poller is another thread's ({@link
     *     Poller#onThisThread}): then it is not released
     */
    public void release() {
        channel.dispatch.release(this);
    }

    /** Releases it. */
    @Override
    public void close() {
        release();
    }

    @Override
    public String toString() {
        return "Message(%d bytes of %s)".formatted(length, channel);
    }
}
