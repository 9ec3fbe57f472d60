package dev.verbena.messaging;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The counts of a channel, in addition to those of its queue pair. Messages are counted under the
 * channel's lock, so each costs a load and a store.
 */
final class MessageCounts {
    private static final int SENT = 0;
    private static final int BYTES_SENT = 1;
    private static final int RECEIVED = 2;
    private static final int BYTES_RECEIVED = 3;
    private static final int NO_ROOM = 4;
    private static final int WAITS = 5;
    private static final int COUNTS = 6;

    private final AtomicLongArray counts = new AtomicLongArray(COUNTS);

    private void add(int count, long amount) {
        counts.setOpaque(count, counts.getPlain(count) + amount);
    }

    /** A message was posted. The caller holds the channel's lock. */
    void messageSent(long bytes) {
        add(SENT, 1);
        add(BYTES_SENT, bytes);
    }

    void messageReceived(long bytes) {
        add(RECEIVED, 1);
        add(BYTES_RECEIVED, bytes);
    }

    void foundNoRoom() {
        counts.getAndIncrement(NO_ROOM);
    }

    void waiting() {
        counts.getAndIncrement(WAITS);
    }

    /** The counters, with the number of outstanding requests, which the queue pair counts. */
    MessageCounters snapshot(int outstanding) {
        return new MessageCounters(
                counts.getOpaque(SENT),
                counts.getOpaque(BYTES_SENT),
                counts.getOpaque(RECEIVED),
                counts.getOpaque(BYTES_RECEIVED),
                outstanding,
                counts.getOpaque(NO_ROOM),
                counts.getOpaque(WAITS));
    }
}
