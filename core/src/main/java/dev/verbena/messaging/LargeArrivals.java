package dev.verbena.messaging;

import dev.verbena.VerbenaException;
import dev.verbena.internal.util.SafeQueue;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.Queue;

/**
 * The large messages that the peer of a {@link MessageChannel} has announced: each is offered
 * memory, in the order of the announcements and as far as the limits allow, and written there. Made
 * for the first of them. Guarded by the lock of the channel.
 */
final class LargeArrivals {
    private final MessageChannel channel;
    private final Outbox outbox;
    private final Queue<Message> coming = new SafeQueue<>(); // those that are not written
    private final Queue<Message> announced = new SafeQueue<>(); // of those: without an offer
    private final ArrayList<Message> spare = new ArrayList<>(0); // objects for others
    private int held; // that were announced, and not released
    private long bytes; // of their memory, and of copies on the heap
    private long copies; // of these, on the heap

    LargeArrivals(MessageChannel channel, Outbox outbox) {
        this.channel = channel;
        this.outbox = outbox;
    }

    /** How many were announced, and not released. */
    int held() {
        return held;
    }

    /** The peer has announced one. */
    void announced(int length) {
        if (spare.isEmpty()) {
            spare.ensureCapacity(held + 1); // a release needs no memory
            spare.add(new Message());
        }
        Message message = spare.removeLast();
        message.announced(length);
        held++;
        coming.add(message);
        announced.add(message);
    }

    /** The message that is to be written first; null if there is none. */
    @Nullable Message next() {
        return coming.peek();
    }

    /** The first message was written, and has come to where it waits for the program. */
    void written() {
        coming.remove();
    }

    /** Offers memory to those that wait for it, as far as the limits allow. */
    void offerMemory() {
        Message next = announced.peek();
        while (next != null && channel.sendsFrames() && takesMemory(next) && offers(next)) {
            announced.remove();
            next = announced.peek();
        }
    }

    private boolean takesMemory(Message message) {
        int length = message.length();
        if (message.block == null
                && bytes + LargeMemory.blockBytes(length) <= channel.options.largeMemory()) {
            try {
                message.block =
                        channel.poller.memory().large().take(length, channel, bytes, copies);
                bytes += message.block == null ? 0 : message.block.bytes();
            } catch (VerbenaException e) {
                channel.fail(
                        e.status(),
                        "there is no registered memory for a message of %,d bytes of the peer's"
                                .formatted(length),
                        e);
            }
        }
        return message.block != null;
    }

    private boolean offers(Message message) {
        return message.block != null
                && outbox.offer(message, message.block.region, message.length());
    }

    /** A message is released: another one may use its object. */
    void released(Message message, Message next) {
        free(message);
        spare.add(next);
    }

    /** The memory of a message is not needed any more. */
    void free(Message message) {
        detached(message);
        bytes -= message.length();
        copies -= message.length();
        held--;
    }

    /** A message was copied to the heap, and counts there until it is released. */
    void detached(Message message) {
        LargeMemory.Block block = message.block;
        if (block != null) {
            message.block = null;
            bytes += message.length() - block.bytes();
            copies += message.length();
            channel.poller.memory().large().giveBack(block);
        }
    }

    /** Once the queue pair is destroyed: frees the memory of messages that were not written. */
    void freeComing() {
        Message message = coming.poll();
        while (message != null) {
            if (message.block != null) {
                free(message);
            }
            message = coming.poll();
        }
        announced.clear();
    }
}
