package dev.verbena.channel;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/**
 * Why a connection on a poller has ended: whatever came first. Written with the lock of its channel
 * held, read from any thread.
 *
 * <p>What had come before the connection ended is still delivered: the peer may have closed it in
 * good order, and its end, an event of the connection manager, overtakes completions.
 */
final class EndReason {
    static final String CLOSED_HERE = "this side closed it";

    private boolean draining; // it has ended, but what had come before is still delivered
    private volatile boolean closing; // by close()
    private volatile @Nullable ChannelException reason; // null while it is open

    /**
     * Notes the end, if there was none before.
     *
     * @param of what has ended
     * @param drains whether what had come before is delivered; a handler that throws gets no more
     * @return whether this is the reason
     */
    boolean set(String of, boolean drains, Status status, String why, @Nullable Throwable cause) {
        if (reason != null) {
            draining &= drains;
            return false;
        }
        reason = new ChannelException(status, "%s is closed: %s".formatted(of, why), cause);
        draining = drains;
        return true;
    }

    /** From now on, what is cancelled was cancelled by this side's close. */
    void closing() {
        closing = true;
    }

    /** Nothing is delivered any more. */
    void drained() {
        draining = false;
    }

    /** Why it has ended; null while it is open. */
    @Nullable ChannelException get() {
        return reason;
    }

    boolean isOpen() {
        return reason == null;
    }

    boolean isDraining() {
        return draining;
    }

    /** Whether what has come is delivered: until the end, or for a moment longer. */
    boolean takesCompletions() {
        return reason == null || draining;
    }

    // ---- what happens to connections, as a status and a sentence

    static Status statusOfDisconnect(Status reported) {
        return reported.isSuccess() ? Status.CANCELLED : reported;
    }

    static String textOfDisconnect(Status reported) {
        return switch (reported) {
            case SUCCESS -> CLOSED_HERE;
            case CONNECTION_INVALID -> "the peer closed it, or its process has ended";
            default -> "the connection was lost";
        };
    }

    /** What is cancelled was flushed: by a close, or behind a failure, which comes first. */
    Status statusOfFailed(Status completed) {
        return completed == Status.CANCELLED && !closing ? Status.CONNECTION_ABORTED : completed;
    }

    String textOfFailed(String request, Status completed) {
        return completed == Status.CANCELLED && closing
                ? CLOSED_HERE
                : "%s ended with %s".formatted(request, completed);
    }
}
