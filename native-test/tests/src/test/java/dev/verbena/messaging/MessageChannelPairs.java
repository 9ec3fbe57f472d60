package dev.verbena.messaging;

import dev.verbena.QueuePair;

/** Past a channel: what its own checks would refuse. */
public final class MessageChannelPairs {
    private MessageChannelPairs() {}

    /** The queue pair of a channel. */
    public static QueuePair of(MessageChannel channel) {
        return channel.pair;
    }
}
