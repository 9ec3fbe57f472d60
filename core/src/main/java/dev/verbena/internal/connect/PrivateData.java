package dev.verbena.internal.connect;

import dev.verbena.ConnectionData;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.ConnectionEvent;

/**
 * The private data of the program: what a call sends to the peer, and what the peer has sent.
 *
 * @param data the caller's bytes
 * @param announced whether an {@link Announcement} goes in front of them
 */
public record PrivateData(byte[] data, boolean announced) {
    /** What InfiniBand's request carries: 92 bytes, of which 36 are the kernel's. */
    public static final int REQUEST_BYTES = 56;

    public static final int REPLY_BYTES = 196;

    public static final int REJECT_BYTES = 148;

    /** The data of a peer that has sent nothing. */
    static final ConnectionData NONE = new ConnectionData(new byte[0], false, false, 0, 0);

    /**
     * The data of a peer's request, reply or rejection.
     *
     * @param inboundReads how many reads of the peer this side is to serve at a time
     * @param outboundReads how many reads of this side the peer serves at a time
     */
    static ConnectionData read(ConnectionEvent event, int inboundReads, int outboundReads) {
        Announcement announced = Announcement.read(event.data());
        return announced == null
                ? new ConnectionData(event.data(), false, false, inboundReads, outboundReads)
                : new ConnectionData(
                        announced.data(),
                        true,
                        announced.invalidatable(),
                        inboundReads,
                        outboundReads);
    }

    /**
     * These data as a reply to a peer.
     *
     * @param peerAnnounced whether the peer sent an announcement; one that did not would take ours
     *     for the caller's data
     */
    PrivateData replyTo(boolean peerAnnounced) {
        return peerAnnounced ? this : new PrivateData(data, false);
    }

    /** Throws if these data do not fit into the message. */
    void checkLength(int messageBytes, String when) {
        int most = messageBytes - (announced ? Announcement.BYTES : 0);
        if (data.length > most) {
            throw new VerbenaException(
                    Status.INVALID_BUFFER_SIZE,
                    "%d bytes of private data; when %s there is room for %d%s"
                            .formatted(
                                    data.length,
                                    when,
                                    most,
                                    announced
                                            ? " behind this layer's header of " + Announcement.BYTES
                                            : ""));
        }
    }

    /** The bytes of a request or a reply. */
    byte[] bytes(QueuePairHandle.Traits queuePair) {
        return announced
                ? new Announcement(
                                queuePair.invalidatable(),
                                queuePair.sharedReceives(),
                                queuePair.inboundReads(),
                                queuePair.outboundReads(),
                                data)
                        .bytes()
                : data;
    }

    byte[] rejectionBytes() {
        return announced ? new Announcement(false, false, 0, 0, data).bytes() : data;
    }
}
