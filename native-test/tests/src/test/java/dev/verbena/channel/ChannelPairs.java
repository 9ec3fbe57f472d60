package dev.verbena.channel;

import dev.verbena.QueuePair;

/** Past a channel: what its own checks would refuse. */
public final class ChannelPairs {
    private ChannelPairs() {}

    /** The queue pair of a channel. */
    public static QueuePair of(Channel channel) {
        return channel.pair();
    }
}
