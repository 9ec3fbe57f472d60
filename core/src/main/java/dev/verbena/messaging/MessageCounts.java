package dev.verbena.messaging;

import java.util.concurrent.atomic.AtomicLong;

/**
 * The counts of a channel, in addition to those of its queue pair. Messages are counted under the
 * channel's lock, so each costs a load and a store.
 */
final class MessageCounts {
    private final AtomicLong sent = new AtomicLong();
    private final AtomicLong bytesSent = new AtomicLong();
    private final AtomicLong received = new AtomicLong();
    private final AtomicLong bytesReceived = new AtomicLong();
    private final AtomicLong noRoom = new AtomicLong();
    private final AtomicLong waits = new AtomicLong();

    private static void add(AtomicLong count, long amount) {
        count.setOpaque(count.getPlain() + amount);
    }

    /** A message was posted. The caller holds the channel's lock. */
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

    /** The counters, with the number of outstanding requests, which the queue pair counts. */
    MessageCounters snapshot(int outstanding) {
        return new MessageCounters(
                sent.getOpaque(),
                bytesSent.getOpaque(),
                received.getOpaque(),
                bytesReceived.getOpaque(),
                outstanding,
                noRoom.getOpaque(),
                waits.getOpaque());
    }
}
