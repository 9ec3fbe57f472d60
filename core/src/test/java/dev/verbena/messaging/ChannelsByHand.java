package dev.verbena.messaging;

/** Connects channels without a connection manager. Also for programs without JUnit. */
final class ChannelsByHand {
    private ChannelsByHand() {}

    static void connect(MessageChannel a, MessageChannel b) {
        a.agree(b.options.handshake(b.poller.adapter()));
        a.established();
        b.agree(a.options.handshake(a.poller.adapter()));
        b.established();
        a.pair.connect(b.pair.address());
        b.pair.connect(a.pair.address());
    }
}
