package dev.verbena.messaging;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/** Called once for each message, write or read that was accepted, when it has ended. */
@FunctionalInterface
public interface SendCallback {
    /**
     * A request is complete. Called by the thread of the {@link Poller}, and must not block: it
     * holds up all channels of the poller. What it throws closes the channel.
     *
     * @param channel the channel
     * @param attachment what the request was given
     * @param status SUCCESS when the message, or what was written, is in the peer's memory, or what
     *     was read in this side's. Whether the peer's program has handled a message, only an answer
     *     can say: a peer that closes the channel drops those that it has not. Otherwise why the
     *     channel is closed: whether the peer has the message is not known
     */
    void ended(MessageChannel channel, @Nullable Object attachment, Status status);
}
