package dev.verbena.netty;

import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessagingOptions;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.channel.EventLoop;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.RejectedExecutionException;

/**
 * Delivers what has come to a channel: lends the pipeline the memory that a message is in, or
 * copies the message if enough is lent. What the pipeline does not read waits here. By the event
 * loop, except {@link #freed}.
 */
final class Incoming {
    private final RdmaChannel channel;
    private final RdmaChannelConfig config;
    // Those that were not read. From the first one on it has room for as many as the peer may send
    // before they are released: an ArrayDeque that has no memory to grow loses what is in it.
    private Queue<Message> waiting = new ArrayDeque<>(0);
    private boolean hasRoom;
    private int firstRead; // bytes of the first one that were read
    private boolean readPending;
    private boolean inRound; // of reads
    private boolean wantsWaiting; // and the event loop knows
    private int lent; // messages that the pipeline has
    private long lentLarge; // bytes of memory that those above the eager limit are in
    private long copied;
    private int mostWaiting;
    private int mostLent;
    private long mostLentLarge;
    private int eager;

    Incoming(RdmaChannel channel, RdmaChannelConfig config) {
        this.channel = channel;
        this.config = config;
    }

    /** Before the first message. */
    void limits(MessagingOptions messaging) {
        mostWaiting = messaging.receives();
        mostLent = messaging.receives() / 2;
        long all = messaging.largeMemory();
        long longest = messaging.withLargeMemory(0).largeMemory();
        mostLentLarge = Math.min(all / 2, all - longest); // the longest message always has room
        eager = messaging.eagerLimit();
    }

    /** How many bytes were copied. */
    long copied() {
        return copied;
    }

    ByteBufAllocator alloc() {
        return channel.alloc();
    }

    /** By any thread: memory for a received buffer that grows. */
    SegmentByteBuf larger(int bytes) {
        return channel.handler().allocator().takeAny(bytes);
    }

    /** Whether something waits, or the pipeline is in a round of reads. */
    boolean isReading() {
        return inRound || waits();
    }

    /** Whether something has come that was not read. */
    boolean waits() {
        return !waiting.isEmpty();
    }

    /** A read that has not begun does not take place. */
    void readsNoMore() {
        readPending = false;
    }

    /** A message has come, which is not empty. */
    void received(Message message) {
        if (channel.isActive()
                && waiting.isEmpty()
                && !config.choosesReceiveBuffers()
                && mayRead()) {
            deliver(message, false);
        } else {
            keep(message);
        }
    }

    /** Nobody reads it: the peer stalls when its credit is used up. */
    private void keep(Message message) {
        RdmaIoHandler handler = channel.handler();
        long large = large(message);
        if (large > 0 ? handler.lendsNoMoreLarge(large) : handler.lendsNoMore()) {
            var _ = message.detach(); // others need the memory
        } else {
            var _ = message.retain();
        }
        boolean added = false;
        try {
            if (!hasRoom) {
                waiting = new ArrayDeque<>(mostWaiting);
                hasRoom = true;
            }
            waiting.add(message);
            added = true;
        } finally {
            if (!added) { // out of memory
                message.release();
            }
        }
        handler.lends(receives(message), large(message));
        wantWaiting();
    }

    /** How many receives a message is in. */
    private int receives(Message message) {
        return message.length() <= eager && message.buffer().isNative() ? 1 : 0;
    }

    /** The first message that waits does so no longer, and is the caller's. */
    private Message nextWaiting() {
        Message message = waiting.remove();
        channel.handler().lends(-receives(message), -large(message));
        return message;
    }

    /** How much memory for large messages a message is in. */
    private long large(Message message) {
        return message.length() > eager && message.buffer().isNative()
                ? message.buffer().byteSize()
                : 0;
    }

    /** Whether the pipeline takes another buffer, in this round or a new one. */
    private boolean mayRead() {
        if (inRound) {
            return channel.unsafe().recvBufAllocHandle().continueReading();
        }
        if (!readPending) {
            return false;
        }
        inRound = true;
        channel.unsafe().recvBufAllocHandle().reset(config);
        channel.handler().reads(this);
        return true;
    }

    private void deliver(Message message, boolean retained) {
        int length = message.length();
        channel.unsafe().recvBufAllocHandle().attemptedBytesRead(length); // there may be more
        long large = large(message);
        RdmaIoHandler handler = channel.handler();
        if (lent >= mostLent
                || handler.lendsNoMore()
                || !message.buffer().isNative()
                || (large > 0
                        && (lentLarge + large > mostLentLarge
                                || handler.lendsNoMoreLarge(large)))) {
            deliverWhole(message, retained);
            return;
        }
        ReceivedByteBuf buffer;
        try {
            buffer = handler.bufferOver(message.buffer());
            buffer.begin(this, message);
        } catch (Throwable t) { // out of memory
            if (retained) {
                message.release();
            }
            throw t;
        }
        boolean delivered = false;
        try {
            delivers(RegisteredByteBufAllocator.watched(buffer), length);
            delivered = true;
        } finally {
            if (!delivered) { // the same, or the program's allocator of receive buffers has thrown
                buffer.release();
                if (retained) {
                    message.release();
                }
            }
        }
        if (buffer.refCnt() > 0) {
            if (!retained) {
                var _ = message.retain();
            }
            buffer.keeps(message);
            lent++;
            lentLarge += large;
            handler.lends(receives(message), large);
        } else if (retained) {
            message.release();
        }
    }

    /** By any thread: the last reference to a received buffer was released. */
    void freed(ReceivedByteBuf buffer) {
        EventLoop loop = channel.eventLoop();
        if (loop.inEventLoop()) {
            takeBack(buffer);
            return;
        }
        try {
            loop.execute(() -> takeBack(buffer));
        } catch (RejectedExecutionException e) { // the loop ends, and the connection with it
            Message kept = buffer.takeMessage();
            if (kept != null) {
                channel.handler().executeForMessages(kept::release);
            }
        }
    }

    private void takeBack(ReceivedByteBuf buffer) {
        Message kept = buffer.takeMessage();
        if (kept != null) {
            long large = large(kept);
            lent--;
            lentLarge -= large;
            channel.handler().lends(-receives(kept), -large);
            kept.release();
        }
    }

    /** By the event loop: nothing more has come for now. */
    void roundEnds() {
        inRound = false;
        channel.unsafe().recvBufAllocHandle().readComplete();
        channel.pipeline().fireChannelReadComplete();
        wantWaiting();
        channel.reportEnd();
    }

    /** By the event loop: the pipeline wants to read, and something waits. */
    void readWaiting() {
        wantsWaiting = false;
        while (channel.isOpen() && !waiting.isEmpty() && mayRead()) {
            if (config.choosesReceiveBuffers()) {
                deliverCopy();
            } else {
                deliver(nextWaiting(), true);
            }
        }
    }

    /** The pipeline keeps enough already. */
    private void deliverWhole(Message message, boolean retained) {
        int length = message.length();
        ByteBuf copy;
        try {
            copy = channel.alloc().directBuffer(length, length);
            var _ = copy.writeBytes(message.buffer().asSlice(0, length).asByteBuffer());
            copied += length;
        } finally {
            if (retained) {
                message.release();
            }
        }
        delivers(copy, length);
    }

    /** By the event loop: what it threw concerns this channel only. */
    void failed(Throwable thrown) {
        inRound = false;
        channel.pipeline().fireExceptionCaught(thrown);
        channel.unsafe().close(channel.voidPromise());
    }

    /** The program has chosen what it reads into. */
    private void deliverCopy() {
        Message message = waiting.element();
        var round = channel.unsafe().recvBufAllocHandle();
        ByteBuf copy = round.allocate(channel.alloc());
        int length = Math.min(copy.writableBytes(), message.length() - firstRead);
        var _ = copy.writeBytes(message.buffer().asSlice(firstRead, length).asByteBuffer());
        firstRead += length;
        copied += length;
        if (firstRead == message.length()) {
            firstRead = 0;
            nextWaiting().release();
        }
        round.attemptedBytesRead(copy.capacity());
        delivers(copy, length);
    }

    private void delivers(ByteBuf buffer, int length) {
        var round = channel.unsafe().recvBufAllocHandle();
        round.lastBytesRead(length);
        round.incMessagesRead(1);
        readPending = false;
        channel.pipeline().fireChannelRead(buffer);
    }

    /** The pipeline wants to read. */
    void beginRead() {
        readPending = true;
        wantWaiting();
    }

    /** If the pipeline wants to read, and something waits, the event loop comes back to it. */
    void wantWaiting() {
        if (channel.isActive() && readPending && !inRound && !wantsWaiting && !waiting.isEmpty()) {
            wantsWaiting = true;
            channel.handler().wantsWaiting(this);
        }
    }

    /** Nobody reads what waits. */
    void drop() {
        while (!waiting.isEmpty()) {
            nextWaiting().release();
        }
    }
}
