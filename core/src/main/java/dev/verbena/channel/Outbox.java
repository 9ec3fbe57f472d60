package dev.verbena.channel;

import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * What a {@link Channel} sends: its messages and control frames, those that are outstanding, and
 * those that wait for room. Guarded by the lock of the channel, which is open whenever something is
 * posted.
 *
 * <p>Messages complete in the order in which they were posted, so the buffers are a ring.
 */
final class Outbox {
    /** In the context of a control frame's request. */
    static final long CONTROL = 2L << 32;

    private static final int MOST_FUTURES = 1024;

    /**
     * A message that waits for room.
     *
     * @param future to be completed
     * @param whenPosted whether that is when it was posted, not when it has ended
     */
    record Pending(MemorySegment data, CompletableFuture<Void> future, boolean whenPosted) {}

    /** A message that was posted and has not ended. */
    record Outstanding(@Nullable SendCallback callback, @Nullable Object attachment) {}

    private final Channel channel;
    private final Poller poller;
    private final QueuePair pair;
    private final Credits credits;
    private final MemoryRegion region;
    private final MemorySegment memory;
    private final long start; // of the buffers, in the region
    private final int stride;
    private final int inline; // frames of up to so many bytes are sent inline
    private final int timeoutTicks;
    private final BufferList frame = new BufferList(1);
    private final @Nullable SendCallback[] callbacks;
    private final @Nullable Object[] attachments;
    private final int[] expires; // the tick
    private final Deque<Pending> pending = new ArrayDeque<>();

    private int next; // the slot of the next message
    private int outstanding;
    private int nextControl;
    private int controlsOutstanding;
    private int controlExpires;
    private int lastSent; // the tick
    private boolean established;
    private int lastHeard; // the tick
    private boolean answerDue; // to a keep-alive
    private boolean asked; // whether the peer is there, and it has not answered
    private int askedAt; // the tick
    private int futuresPending;

    Outbox(
            Channel channel,
            Poller poller,
            QueuePair pair,
            Credits credits,
            MemoryRegion region,
            long start,
            int stride,
            int inline,
            int slots,
            int timeoutTicks) {
        this.channel = channel;
        this.poller = poller;
        this.pair = pair;
        this.credits = credits;
        this.region = region;
        this.memory = region.memory();
        this.start = start;
        this.stride = stride;
        this.inline = inline;
        this.timeoutTicks = timeoutTicks;
        this.callbacks = new SendCallback[slots];
        this.attachments = new Object[slots];
        this.expires = new int[slots];
        this.lastSent = poller.tick();
        this.lastHeard = lastSent;
    }

    /** How much memory it needs. */
    static long bytes(int slots, int stride) {
        return (long) slots * stride + (long) Credits.RESERVE * Frame.HEADER_BYTES;
    }

    // ---- messages

    private boolean hasRoom() {
        return established && credits.maySendMessage() && outstanding < callbacks.length;
    }

    /** Posts a message, unless there is no room or others wait for it already. */
    Status send(
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        if (pending.isEmpty() && hasRoom()) {
            return post(data, offset, length, callback, attachment);
        }
        channel.counts.foundNoRoom();
        return Status.NO_MORE_ENTRIES;
    }

    /** Has a message wait for room; false when too many futures do already. */
    boolean enqueue(Pending waiting) {
        if (!waiting.whenPosted()) {
            if (futuresPending == MOST_FUTURES) {
                return false;
            }
            futuresPending++;
        }
        channel.counts.waiting();
        pending.add(waiting);
        roomChanged();
        return true;
    }

    /** Takes a waiting message back; false when it was posted meanwhile. */
    boolean withdraw(Pending waiting) {
        return pending.remove(waiting);
    }

    /** There may be room: for those that wait. */
    void roomChanged() {
        while (!pending.isEmpty() && hasRoom() && channel.isOpen()) {
            Pending first = pending.element();
            MemorySegment data = first.data();
            Status status =
                    first.whenPosted()
                            ? post(data, 0, data.byteSize(), null, null)
                            : post(
                                    data,
                                    0,
                                    data.byteSize(),
                                    RoomWait.COMPLETE_FUTURE,
                                    first.future());
            if (!status.isSuccess()) {
                return; // the channel ends
            }
            pending.remove();
            if (first.whenPosted()) {
                first.future().complete(null); // nothing depends on it but a waiting thread
            } else {
                futuresPending--;
            }
        }
    }

    private Status post(
            MemorySegment data,
            long offset,
            long length,
            @Nullable SendCallback callback,
            @Nullable Object attachment) {
        int slot = next;
        long at = start + (long) slot * stride;
        MemorySegment.copy(data, offset, memory, at + Frame.HEADER_BYTES, length);
        Status status = postFrame(slot, at, Frame.MESSAGE, (int) length);
        if (status.isSuccess()) {
            next = slot + 1 == callbacks.length ? 0 : slot + 1;
            outstanding++;
            callbacks[slot] = callback;
            attachments[slot] = attachment;
            expires[slot] = lastSent + timeoutTicks;
        }
        return status;
    }

    private Status postFrame(long context, long at, byte kind, int length) {
        int bytes = Frame.HEADER_BYTES + length;
        Frame.write(memory, at, kind, credits, length);
        Status status =
                pair.send(
                        context,
                        frame.clear().add(region, at, bytes),
                        bytes <= inline ? OpFlags.INLINE : OpFlags.NONE);
        if (status.isSuccess()) {
            credits.sent(kind != Frame.MESSAGE);
            answerDue = false; // any frame is one
            lastSent = poller.tick();
        } else {
            channel.end.sendRefused(status);
        }
        return status;
    }

    /** A message has ended well: its callback is {@link #callback}'s until the slot is free. */
    @Nullable SendCallback callback(int slot) {
        return callbacks[slot];
    }

    @Nullable Object attachment(int slot) {
        return attachments[slot];
    }

    /** Its buffer may be used again. */
    void ended(int slot) {
        callbacks[slot] = null;
        attachments[slot] = null;
        outstanding--;
        roomChanged();
    }

    // ---- control frames

    /** Sends a control frame if there is room for it. */
    void control(byte kind) {
        if (established
                && credits.maySendControl()
                && controlsOutstanding < Credits.RESERVE
                && channel.isOpen()) {
            int index = nextControl;
            long at = start + (long) callbacks.length * stride + (long) index * Frame.HEADER_BYTES;
            if (postFrame(CONTROL | index, at, kind, 0).isSuccess()) {
                channel.counts.controlSent();
                nextControl = (index + 1) % Credits.RESERVE;
                if (controlsOutstanding++ == 0) {
                    controlExpires = lastSent + timeoutTicks;
                }
            }
        }
    }

    void controlEnded() {
        controlsOutstanding--;
        controlExpires = poller.tick() + timeoutTicks;
        reportIfDue();
    }

    /** Sends what the peer waits for, if there is room: a report of credit, or an answer. */
    void reportIfDue() {
        if (answerDue || credits.reportDue()) {
            control(Frame.CREDIT);
        }
    }

    // ---- whether the peer is there

    /** A frame has come. */
    void heard(boolean keepAlive) {
        lastHeard = poller.tick();
        asked = false;
        answerDue |= keepAlive;
    }

    /**
     * The connection stands: what waits is sent, and the peer is asked when it says nothing. A peer
     * that has connected may send earlier than this side knows that it has.
     */
    void established() {
        established = true;
        lastHeard = poller.tick();
        roomChanged();
        reportIfDue();
    }

    boolean isEstablished() {
        return established;
    }

    /** Asks the peer whether it is there, if nothing came for so many ticks. */
    void askIfIdle(int now, int ticks) {
        if (!asked && now - lastHeard >= ticks) {
            asked = true;
            askedAt = now;
            control(Frame.KEEP_ALIVE); // or, without room for it, a report of those before is due
        }
    }

    /** Whether the peer was asked and has not answered in time. */
    boolean isSilent(int now) {
        return asked && now - askedAt > timeoutTicks;
    }

    // ---- deadlines, and the end

    /** Whether the oldest request has not ended in time. */
    boolean isLate(int now) {
        int oldest = Math.floorMod(next - outstanding, callbacks.length);
        return (outstanding > 0 && now - expires[oldest] > 0)
                || (controlsOutstanding > 0 && now - controlExpires > 0);
    }

    /** Takes what is outstanding, oldest first. */
    List<Outstanding> takeOutstanding() {
        List<Outstanding> all = new ArrayList<>();
        for (int i = 0; i < outstanding; i++) {
            int slot = Math.floorMod(next - outstanding + i, callbacks.length);
            all.add(new Outstanding(callbacks[slot], attachments[slot]));
        }
        return all;
    }

    /** Takes what waits for room, oldest first. */
    List<Pending> takePending() {
        List<Pending> all = List.copyOf(pending);
        pending.clear();
        return all;
    }
}
