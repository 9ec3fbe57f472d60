package dev.verbena.messaging;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/** Called once for each exposure, when it has ended. */
@FunctionalInterface
public interface ExposureCallback {
    /**
     * An exposure has ended: the peer cannot use the memory any more, and it may be used anew.
     * Called by the thread of the {@link Poller}, and must not block: it holds up all channels of
     * the poller. A callback that throws closes the channel.
     *
     * @param exposure which one; it is reused when the callback has returned, so forget it then
     * @param status SUCCESS when the peer took it back by a message; CANCELLED when this side
     *     revoked it; IO_TIMEOUT when its time was over; otherwise why the channel is closed
     * @param message the peer's message that took it back, valid until the callback returns, unless
     *     it calls {@link Message#retain}; null when it ended in another way
     */
    void ended(Exposure exposure, Status status, @Nullable Message message);
}
