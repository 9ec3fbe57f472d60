package dev.verbena.channel;

import java.util.concurrent.atomic.AtomicLong;

/**
 * What a channel counts, beside what its queue pair does. Messages are counted by one thread at a
 * time, so that costs a load and a store for each count.
 */
final class ChannelCounts {
    private final AtomicLong sent = new AtomicLong();
    private final AtomicLong bytesSent = new AtomicLong();
    private final AtomicLong received = new AtomicLong();
    private final AtomicLong bytesReceived = new AtomicLong();
    private final AtomicLong noRoom = new AtomicLong();
    private final AtomicLong waits = new AtomicLong();

    private static void add(AtomicLong count, long amount) {
        count.setOpaque(count.getPlain() + amount);
    }

    /** A message was posted. The caller holds the channel's lock, here and below. */
    void messageSent(long bytes) {
        add(sent, 1);
        add(bytesSent, bytes);
    }

    void messageReceived(long bytes) {
        add(received, 1);
        add(bytesReceived, bytes);
    }

    void foundNoRoom() {
        noRoom.getAndIncrement();
    }

    void waiting() {
        waits.getAndIncrement();
    }

    long sent() {
        return sent.getOpaque();
    }

    long bytesSent() {
        return bytesSent.getOpaque();
    }

    long received() {
        return received.getOpaque();
    }

    long bytesReceived() {
        return bytesReceived.getOpaque();
    }

    long noRoom() {
        return noRoom.getOpaque();
    }

    long waits() {
        return waits.getOpaque();
    }
}
