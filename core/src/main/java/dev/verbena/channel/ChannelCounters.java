package dev.verbena.channel;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.QueuePairCounters;

/**
 * What a channel has counted since it was made: a snapshot from {@link Channel#counters}.
 * Immutable.
 */
@CheckReturnValue
public final class ChannelCounters {
    private final long sent;
    private final long bytesSent;
    private final long received;
    private final long bytesReceived;
    private final int outstanding;
    private final long noRoom;
    private final long waits;

    ChannelCounters(QueuePairCounters pair, ChannelCounts counts) {
        this.sent = counts.sent();
        this.bytesSent = counts.bytesSent();
        this.received = counts.received();
        this.bytesReceived = counts.bytesReceived();
        this.outstanding = pair.requests().outstanding();
        this.noRoom = counts.noRoom();
        this.waits = counts.waits();
    }

    /**
     * How many messages were sent: accepted, and handed to the device.
     *
     * @return messages; without those that still wait for room
     */
    public long sent() {
        return sent;
    }

    /**
     * How many bytes these messages have.
     *
     * @return bytes, without this layer's headers
     */
    public long bytesSent() {
        return bytesSent;
    }

    /**
     * How many messages have come.
     *
     * @return messages
     */
    public long received() {
        return received;
    }

    /**
     * How many bytes these messages have.
     *
     * @return bytes, without this layer's headers
     */
    public long bytesReceived() {
        return bytesReceived;
    }

    /**
     * How many requests were posted and have not ended: messages that are not known to have reached
     * the peer's device, writes and reads; frames and binds of this layer's own are among them.
     *
     * @return 0 or more
     */
    public int outstanding() {
        return outstanding;
    }

    /**
     * How often a message found no room: the peer has to release messages first, or as many are
     * outstanding as the channel was made for. Each try counts.
     *
     * @return back-pressure, whether the message was refused or has waited
     */
    public long noRoom() {
        return noRoom;
    }

    /**
     * How many messages have waited for room: threads in {@link Channel#send} (not in one that
     * polls itself), and futures of {@link Channel#sendAsync}.
     *
     * @return messages
     */
    public long waits() {
        return waits;
    }

    @Override
    public String toString() {
        return "%,d sent (%,d bytes), %,d received (%,d bytes), %,d outstanding, %,d times no room, %,d waits"
                .formatted(sent, bytesSent, received, bytesReceived, outstanding, noRoom, waits);
    }
}
