package dev.verbena.messaging;

/** What a {@link RawConnection} calls, on the thread of its {@link Poller}. Must not block. */
public interface RawHandler {
    /**
     * A message has come. If this throws, the channel ends with INTERNAL_ERROR.
     *
     * @param channel the channel
     * @param message the message, whose memory is this program's until {@link RawMessage#repost}
     */
    void received(RawConnection channel, RawMessage message);

    /**
     * The channel has ended. Called once, last: all callbacks were called before, and the device
     * uses no memory of this connection's any more.
     *
     * @param channel the channel
     * @param reason why
     */
    void ended(RawConnection channel, MessagingException reason);
}
