package dev.verbena.messaging;

/**
 * The callbacks of a {@link RawConnection}, on the thread of its {@link Poller}. Must not block.
 */
public interface RawHandler {
    /**
     * A message has arrived. If this throws, the connection ends with INTERNAL_ERROR.
     *
     * @param connection the connection
     * @param message the message, whose memory is this program's until {@link RawMessage#repost}
     */
    void received(RawConnection connection, RawMessage message);

    /**
     * The connection has ended. Called once, last: all callbacks were called before, and the device
     * no longer uses any memory of this connection.
     *
     * @param connection the connection
     * @param reason why
     */
    void ended(RawConnection connection, MessagingException reason);
}
