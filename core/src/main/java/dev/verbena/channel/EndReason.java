package dev.verbena.channel;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/**
 * Why a connection on a poller has ended: whatever came first, but for what only follows from a
 * failed request. Written with the lock of its channel held, read from any thread.
 *
 * <p>What had come before the connection ended is still delivered: the peer may have closed it in
 * good order, and its end, an event of the connection manager, overtakes completions.
 */
final class EndReason {
    static final String CLOSED_HERE = "this side closed it";

    /** What may still come when a channel has ended. */
    enum ToCome {
        /** Nothing: no more is delivered. */
        NOTHING,
        /** What had come before the end, which is delivered. */
        COMPLETIONS,
        /** The same, and the completion of a failed request, which then is the reason. */
        CAUSE;

        /**
         * A failed request ends the connection, the peer closes it when a request of this side has
         * broken its queue pair, and a queue pair without a connection refuses what is posted.
         */
        static ToCome after(Status status) {
            return status == Status.CONNECTION_ABORTED || status == Status.CONNECTION_INVALID
                    ? CAUSE
                    : COMPLETIONS;
        }
    }

    private boolean draining; // it has ended, but what had come before is still delivered
    private boolean awaitsCause; // the reason may only follow from a request that has failed
    private volatile boolean closing; // by close()
    private volatile @Nullable ChannelException reason; // null while it is open

    /**
     * Notes the end, if there was none before.
     *
     * @param of what has ended
     * @param toCome what is still delivered; a handler that throws gets no more
     * @return whether this is the reason
     */
    boolean set(String of, ToCome toCome, Status status, String why, @Nullable Throwable cause) {
        boolean drains = toCome != ToCome.NOTHING;
        if (reason != null) {
            draining &= drains;
            return false;
        }
        draining = drains;
        awaitsCause = toCome == ToCome.CAUSE;
        reason = exception(of, status, why, cause); // last: it is read without the lock
        return true;
    }

    /**
     * A request has failed: if the end that was noted may follow from that, this is why. A request
     * that was cancelled is the cause of nothing.
     */
    void causedBy(String of, Status completed, String why) {
        if (awaitsCause && completed != Status.CANCELLED) {
            reason = exception(of, completed, why, null);
            awaitsCause = false;
        }
    }

    private static ChannelException exception(
            String of, Status status, String why, @Nullable Throwable cause) {
        return new ChannelException(status, "%s is closed: %s".formatted(of, why), cause);
    }

    /** From now on, what is cancelled was cancelled by this side's close. */
    void closing() {
        closing = true;
    }

    boolean isClosing() {
        return closing;
    }

    /** Nothing is delivered any more, and the reason is what it is. */
    void drained() {
        draining = false;
        awaitsCause = false;
    }

    /** Why it has ended; null while it is open. */
    @Nullable ChannelException get() {
        return reason;
    }

    boolean isOpen() {
        return reason == null;
    }

    /** Whether it has ended, and its queues are to be polled for what had come before. */
    boolean isDraining() {
        return draining || awaitsCause;
    }

    /** Whether it has ended, and the reason stays what it is. */
    boolean isFinal() {
        return reason != null && !isDraining();
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
