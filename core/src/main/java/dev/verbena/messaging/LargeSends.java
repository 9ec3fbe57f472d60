package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.Objects;

/**
 * The large messages that a {@link MessageChannel} sends: those that fit no receive of the peer's.
 * Each is announced by a frame. The peer then offers memory, in the order of the announcements; the
 * message is written there, and a frame that invalidates the offer says so. Guarded by the lock of
 * the channel.
 *
 * <p>The messages are a ring. The counts below say how many of all messages so far have come to
 * each step.
 */
final class LargeSends {
    /** One message. The object is used for another one after its end. */
    static final class Large {
        final BufferList from;
        LargeMemory.@Nullable Block copy; // of a message from memory that is not registered
        int length;
        int written; // bytes
        long address; // of the offer
        int token;
        @Nullable SendCallback callback;
        @Nullable Object attachment;

        Large(int buffers) {
            this.from = new BufferList(buffers);
        }
    }

    private static final Large[] NONE = {};

    private final MessageChannel channel;
    private final LargeMemory memory; // for copies
    private final int buffers; // of each message, at most
    private final int most;
    private @Nullable Large[] ring = NONE; // until the first message
    private long copied; // bytes of messages that have a copy
    private long announced;
    private long acknowledged; // the frame that announces it has arrived
    private long offered;
    private long written; // the last write was posted
    private long ended;

    LargeSends(MessageChannel channel, int most, int buffers) {
        this.channel = channel;
        this.memory = channel.poller.memory().large();
        this.buffers = buffers;
        this.most = most;
    }

    /**
     * Prepares the next message; the ring has room for it.
     *
     * @param data the message, which is copied, if there is no list
     * @return the copy, which is the caller's until the message was announced
     */
    LargeMemory.@Nullable Block fill(
            MemorySegment data, long offset, int length, @Nullable BufferList list) {
        Large one = next();
        if (list != null) {
            one.from.clear().add(list, 0, length);
            return null;
        }
        LargeMemory.Block copy = memory.takeForCopy(length, channel);
        boolean filled = false;
        try {
            MemorySegment.copy(data, offset, copy.region.memory(), 0, length);
            one.from.clear().add(copy.region, 0, length);
            filled = true;
            return copy;
        } finally {
            if (!filled) {
                memory.giveBack(copy);
            }
        }
    }

    private Large next() {
        if (ring.length == 0) {
            ring = new Large[most];
        }
        int place = (int) (announced % ring.length);
        Large one = ring[place];
        if (one == null) {
            one = new Large(buffers);
            ring[place] = one;
        }
        return one;
    }

    private Large at(long number) {
        return Objects.requireNonNull(ring[(int) (number % ring.length)]);
    }

    /** The message that {@link #fill} has prepared was announced. */
    void announced(
            int length,
            LargeMemory.@Nullable Block copy,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        Large one = next();
        one.length = length;
        one.written = 0;
        one.copy = copy;
        one.callback = callback;
        one.attachment = attachment;
        announced++;
        copied += copy == null ? 0 : copy.bytes();
    }

    /** How many bytes the copies take. */
    long copied() {
        return copied;
    }

    /** The oldest announcement that had not arrived has. */
    void acknowledged() {
        acknowledged++;
    }

    /**
     * The peer offers memory.
     *
     * @return false when no message waits for it
     */
    boolean offered(long address, int token) {
        if (offered == announced) {
            return false;
        }
        Large one = at(offered++);
        one.address = address;
        one.token = token;
        return true;
    }

    /** The message that is to be written next; null when the peer's offer for it has not come. */
    @Nullable Large toWrite() {
        return written == offered || written == acknowledged ? null : at(written);
    }

    /** The last write of the message of {@link #toWrite} was posted. */
    void written() {
        written++;
    }

    /** How many messages have no request outstanding, or not their last one. */
    int waiting() {
        return (int) (acknowledged - written);
    }

    /** Whether a message was announced, and its last write not posted. */
    boolean isWaiting() {
        return written != announced;
    }

    /** The oldest message has ended. */
    void ended() {
        Large one = at(ended++);
        if (one.copy != null) {
            copied -= one.copy.bytes();
            memory.giveBack(one.copy);
            one.copy = null;
        }
        one.callback = null;
        one.attachment = null;
    }

    /** After the end of the channel: the messages that were not written get the reason. */
    void cancelAll(Status status) {
        Large one = oldestWaiting();
        while (one != null) {
            channel.cancel(one.callback, one.attachment, status); // without the lock
            try (var _ = channel.lock.hold()) {
                written();
                one = oldestWaiting();
            }
        }
    }

    private @Nullable Large oldestWaiting() {
        return isWaiting() ? at(written) : null;
    }

    /** After the end of the channel: gives back all copies. */
    void free() {
        while (ended != announced) {
            ended();
        }
    }
}
