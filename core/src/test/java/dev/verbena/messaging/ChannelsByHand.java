package dev.verbena.messaging;

/** Connects channels without a connection manager. Also for programs without JUnit. */
final class ChannelsByHand {
    private ChannelsByHand() {}

    static void connect(MessageChannel a, MessageChannel b) {
        a.agree(b.options.handshake(b.poller.adapter()));
        b.agree(a.options.handshake(a.poller.adapter()));
        a.pair.connect(b.pair.address());
        b.pair.connect(a.pair.address());
        a.established();
        b.established();
    }
}
