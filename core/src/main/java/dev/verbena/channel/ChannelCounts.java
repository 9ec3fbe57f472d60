package dev.verbena.channel;

import java.util.concurrent.atomic.AtomicLong;

/**
 * What a channel counts beside what its queue pair does, which counts frames and their bytes: a
 * message costs nothing here.
 */
final class ChannelCounts {
    private final AtomicLong controlsSent = new AtomicLong();
    private final AtomicLong controlsReceived = new AtomicLong();
    private final AtomicLong noRoom = new AtomicLong();
    private final AtomicLong waits = new AtomicLong();

    void controlSent() {
        controlsSent.getAndIncrement();
    }

    void controlReceived() {
        controlsReceived.getAndIncrement();
    }

    void foundNoRoom() {
        noRoom.getAndIncrement();
    }

    void waiting() {
        waits.getAndIncrement();
    }

    long controlsSent() {
        return controlsSent.getOpaque();
    }

    long controlsReceived() {
        return controlsReceived.getOpaque();
    }

    long noRoom() {
        return noRoom.getOpaque();
    }

    long waits() {
        return waits.getOpaque();
    }
}
