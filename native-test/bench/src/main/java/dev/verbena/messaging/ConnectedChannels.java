package dev.verbena.messaging;

/**
 * Channels without a connection manager, which the stand-in for libibverbs has none of. In the
 * package of channels, as their constructor is no API.
 */
public final class ConnectedChannels {
    private ConnectedChannels() {}

    /**
     * Two channels of one poller, connected to each other.
     *
     * @param poller polls for both
     * @param options of both
     * @param ofFirst gets what the second sends
     * @param ofSecond gets what the first sends
     * @return the two
     */
    public static MessageChannel[] pair(
            Poller poller,
            MessagingOptions options,
            MessageHandler ofFirst,
            MessageHandler ofSecond) {
        MessageChannel first = new MessageChannel(poller, options, ofFirst);
        MessageChannel second = new MessageChannel(poller, options, ofSecond);
        first.agree(second.options.handshake(second.poller.adapter()));
        first.established();
        second.agree(first.options.handshake(first.poller.adapter()));
        second.established();
        first.pair.connect(second.pair.address());
        second.pair.connect(first.pair.address());
        return new MessageChannel[] {first, second};
    }
}
