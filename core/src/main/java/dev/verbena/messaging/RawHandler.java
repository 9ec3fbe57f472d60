package dev.verbena.messaging;

/** What a {@link RawConnection} calls, on the thread of its {@link Poller}. Must not block. */
public interface RawHandler {
    /**
     * A message has come. If this throws, the connection ends with INTERNAL_ERROR.
     *
     * @param connection the connection
     * @param message the message, whose memory is this program's until {@link RawMessage#repost}
     */
    void received(RawConnection connection, RawMessage message);

    /**
     * The connection has ended. Called once, last: all callbacks were called before, and the device
     * uses no memory of this connection's any more.
     *
     * @param connection the connection
     * @param reason why
     */
    void ended(RawConnection connection, MessagingException reason);
}
