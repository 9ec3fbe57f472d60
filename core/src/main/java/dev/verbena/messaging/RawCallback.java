package dev.verbena.messaging;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/** Called once for each request of a {@link RawConnection} that was posted with it. */
@FunctionalInterface
public interface RawCallback {
    /**
     * A request has ended. Called by the thread of the {@link Poller}, and must not block. If this
     * throws, the connection ends with INTERNAL_ERROR.
     *
     * @param connection the connection
     * @param attachment what the request was posted with
     * @param status SUCCESS; otherwise why the connection ends: what became of the request is not
     *     known, but the device does not use its memory any more
     */
    void ended(RawConnection connection, @Nullable Object attachment, Status status);
}
