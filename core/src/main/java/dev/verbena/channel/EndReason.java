package dev.verbena.channel;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.util.function.Supplier;

/**
 * Why a connection on a poller has ended: whatever came first, but for what only follows from a
 * failed request. Written with the lock of its channel held, read from any thread.
 *
 * <p>What had come before the connection ended is still delivered: the peer may have closed it in
 * good order, and its end, an event of the connection manager, overtakes completions.
 */
final class EndReason {
    private static final String CLOSED_HERE = "this side closed it";

    /** What may still come when a channel has ended. */
    private enum ToCome {
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

    private final Supplier<String> channel; // its name, for messages
    private boolean draining; // it has ended, but what had come before is still delivered
    private boolean awaitsCause; // the reason may only follow from a request that has failed
    private volatile boolean closing; // by close()
    private volatile @Nullable ChannelException reason; // null while it is open

    EndReason(Supplier<String> channel) {
        this.channel = channel;
    }

    // ---- what ends a channel: each notes it, and returns whether there was no end before

    /** Something that is no matter of the connection's: no more is delivered. */
    boolean failed(Status status, String why, @Nullable Throwable cause) {
        return set(ToCome.NOTHING, status, why, cause);
    }

    /** A request has failed, which is also the reason where the end only follows from that. */
    boolean requestFailed(String request, Status completed) {
        boolean cancelled = completed == Status.CANCELLED; // flushed, by a close or a failure
        String why =
                cancelled && closing
                        ? CLOSED_HERE
                        : "%s ended with %s".formatted(request, completed);
        if (awaitsCause && !cancelled) { // what is cancelled is the cause of nothing
            reason = exception(completed, why, null);
            awaitsCause = false;
        }
        Status status = cancelled && !closing ? Status.CONNECTION_ABORTED : completed;
        return set(ToCome.NOTHING, status, why, null);
    }

    /** The queue pair has refused a request, other than one that came behind a close. */
    boolean refused(String request, Status status) {
        return !(status == Status.CONNECTION_INVALID && closing)
                && set(
                        ToCome.after(status),
                        status,
                        "%s was refused with %s".formatted(request, status),
                        null);
    }

    /** The connection has ended, with this status. */
    boolean disconnected(Status reported) {
        return switch (reported) {
            case SUCCESS -> closedHere();
            case CONNECTION_INVALID ->
                    ended(reported, "the peer closed it, or its process has ended");
            default -> ended(reported, "the connection was lost");
        };
    }

    /** This side has closed it. What was acknowledged before is reported as sent. */
    boolean closedHere() {
        return set(ToCome.CAUSE, Status.CANCELLED, CLOSED_HERE, null);
    }

    private boolean ended(Status status, String why) {
        return set(ToCome.after(status), status, why, null);
    }

    private boolean set(ToCome toCome, Status status, String why, @Nullable Throwable cause) {
        boolean drains = toCome != ToCome.NOTHING;
        if (reason != null) {
            draining &= drains;
            return false;
        }
        draining = drains;
        awaitsCause = toCome == ToCome.CAUSE;
        reason = exception(status, why, cause); // last: it is read without the lock
        return true;
    }

    private ChannelException exception(Status status, String why, @Nullable Throwable cause) {
        return new ChannelException(
                status, "%s is closed: %s".formatted(channel.get(), why), cause);
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
}
