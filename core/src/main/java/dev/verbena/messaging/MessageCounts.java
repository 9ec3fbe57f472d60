package dev.verbena.messaging;

import dev.verbena.internal.util.Fields;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The counts of a channel, in addition to those of its queue pair. They are written under the
 * channel's lock, so each costs a load and a store, and read from any thread.
 */
final class MessageCounts {
    private static final VarHandle SENT = count("sent");
    private static final VarHandle BYTES_SENT = count("bytesSent");
    private static final VarHandle RECEIVED = count("received");
    private static final VarHandle BYTES_RECEIVED = count("bytesReceived");
    private static final VarHandle NO_ROOM = count("noRoom");
    private static final VarHandle WAITS = count("waits");

    // By the handles.
    private long sent;
    private long bytesSent;
    private long received;
    private long bytesReceived;
    private long noRoom;
    private long waits;

    private static VarHandle count(String name) {
        return Fields.handle(MethodHandles.lookup(), name, long.class);
    }

    void messageSent(long bytes) {
        SENT.setOpaque(this, sent + 1);
        BYTES_SENT.setOpaque(this, bytesSent + bytes);
    }

    void messageReceived(long bytes) {
        RECEIVED.setOpaque(this, received + 1);
        BYTES_RECEIVED.setOpaque(this, bytesReceived + bytes);
    }

    void foundNoRoom() {
        NO_ROOM.setOpaque(this, noRoom + 1);
    }

    void waiting() {
        WAITS.setOpaque(this, waits + 1);
    }

    /** The counters, with the number of outstanding requests, which the queue pair counts. */
    MessageCounters snapshot(int outstanding) {
        return new MessageCounters(
                (long) SENT.getOpaque(this),
                (long) BYTES_SENT.getOpaque(this),
                (long) RECEIVED.getOpaque(this),
                (long) BYTES_RECEIVED.getOpaque(this),
                outstanding,
                (long) NO_ROOM.getOpaque(this),
                (long) WAITS.getOpaque(this));
    }
}
