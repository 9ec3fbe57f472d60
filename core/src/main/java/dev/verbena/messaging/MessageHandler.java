package dev.verbena.messaging;

/** Receives the messages of a channel. */
@FunctionalInterface
public interface MessageHandler {
    /**
     * A message has arrived. Called by the thread of the {@link Poller}, one call at a time for
     * each channel, and must not block: it holds up all channels of the poller. A handler that
     * throws closes the channel.
     *
     * @param channel the channel
     * @param message valid until the handler returns, unless it calls {@link Message#retain}
     */
    void received(MessageChannel channel, Message message);
}
