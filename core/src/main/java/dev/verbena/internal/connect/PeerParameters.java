package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionEvent;

/**
 * What the peer's request, reply or rejection said.
 *
 * @param exact whether they have the length that was sent; otherwise zeros follow them
 * @param invalidatable whether sends may invalidate the peer's tokens
 * @param outboundReads how many reads the peer wants to have outstanding
 */
public record PeerParameters(
        byte[] data, boolean exact, boolean invalidatable, int inboundReads, int outboundReads) {
    /** Of a peer that has not said anything. */
    static final PeerParameters NONE = new PeerParameters(new byte[0], false, false, 0, 0);

    /** Those of a request or a reply; the event names reads as this side sees them. */
    static PeerParameters of(ConnectionEvent event) {
        return read(event.data(), event.outboundReads(), event.inboundReads());
    }

    /** These with the private data of a rejection, which names no reads. */
    PeerParameters rejected(ConnectionEvent event) {
        return read(event.data(), inboundReads, outboundReads);
    }

    private static PeerParameters read(byte[] received, int inboundReads, int outboundReads) {
        Announcement announced = Announcement.read(received);
        return announced == null
                ? new PeerParameters(received, false, false, inboundReads, outboundReads)
                : new PeerParameters(
                        announced.data(),
                        true,
                        announced.invalidatable(),
                        inboundReads,
                        outboundReads);
    }

    /** A copy for a caller. */
    PeerParameters copy(boolean peerInvalidatable) {
        return new PeerParameters(
                data.clone(), exact, peerInvalidatable, inboundReads, outboundReads);
    }
}
