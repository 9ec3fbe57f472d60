package dev.verbena.messaging;

import dev.verbena.Completions;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

/**
 * Why a connection on a poller ended: the first cause, except that a failed request takes
 * precedence over its consequences. Recording the reason works without memory, if need be without
 * its sentence. May be used from any thread.
 *
 * <p>What had come before the connection ended is still delivered: the peer may have closed it in
 * good order, and its end, an event of the connection manager, overtakes completions.
 */
abstract class EndReason {
    private static final String CLOSED_HERE = "this side closed it";
    private static final String CLOSED_BY_PEER = "the peer closed it";
    private static final String BY_PEER =
            "the device refused a request of the peer, which broke the connection: most often the peer used or invalidated a token that is wrong or was revoked, invalidated that of a region, or went beyond the range or the rights of a token";

    private static final String NO_CLOSE =
            "the peer disconnected and had not closed it: its process or its poller has ended, the connection failed there, or it gave up a large message, and messages of the peer may be missing";

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

    @SuppressWarnings("StaticAssignmentOfThrowable") // there is no memory to make another
    private static final MessagingException NO_MEMORY =
            new MessagingException(
                    Status.INSUFFICIENT_RESOURCES,
                    "The connection is closed: the JVM had no memory to say why",
                    null);

    // Written under the monitor, the reason last. The polling thread, which writes it, too, reads
    // the reason first and then the others, without the monitor.
    private boolean draining; // it has ended, but what had come before is still delivered
    private boolean awaitsCause; // the reason may only follow from a request that has failed
    private final boolean saysClose; // a peer that closes it
    private boolean peerClosed; // and has said so; of the polling thread
    private volatile boolean closing; // by close()
    private volatile @Nullable MessagingException reason; // null while it is open

    /**
     * Makes one of a connection that is open.
     *
     * @param saysClose whether a peer that closes the connection says so
     */
    EndReason(boolean saysClose) {
        this.saysClose = saysClose;
        this.peerClosed = !saysClose;
    }

    /** What is closed, for the sentence. */
    abstract String describe();

    /** Whether a request of the peer has ended the queue pair. */
    abstract boolean failedByPeer();

    /** It has ended. Called once; by any thread, perhaps with the lock of the connection. */
    abstract void tearDown();

    // ---- what ends a channel, from any thread; nothing happens if it ended before

    /** It fails for a reason that is not the connection's: nothing more is delivered. */
    void failed(Status status, String why, @Nullable Throwable cause) {
        set(ToCome.NOTHING, status, why, cause);
    }

    /**
     * A request has failed, which is also the reason where the end only follows from that. What is
     * cancelled is the cause of nothing, but may show that the peer is.
     */
    void requestFailed(Completions from, int index) {
        Status completed = from.status(index);
        boolean cancelled = completed == Status.CANCELLED; // flushed, by a close or a failure
        boolean cause = !cancelled || (!closing && failedByPeer());
        String known = !cancelled ? null : closing ? CLOSED_HERE : cause ? BY_PEER : null;
        Status status = cancelled && !closing ? Status.CONNECTION_ABORTED : completed;
        boolean first;
        synchronized (this) {
            first = reason == null;
            boolean replaces = first || (awaitsCause && cause);
            if (replaces) {
                awaitsCause = false;
                // Last: it is read without the monitor.
                reason = failure(status, known, from, index);
            }
        }
        if (first) {
            tearDown();
        }
    }

    /** The queue pair has refused a request, other than one that came behind a close. */
    void refused(String request, Status status) {
        if (status == Status.CONNECTION_INVALID && !closing && failedByPeer()) {
            ended(Status.CONNECTION_ABORTED, BY_PEER);
        } else if (status != Status.CONNECTION_INVALID || !closing) {
            set(ToCome.after(status), status, "%s was refused with %s", request, status, null);
        }
    }

    /**
     * The connection has ended, with this status, by this event of the connection manager or "".
     */
    void disconnected(Status reported, String event) {
        if (reported == Status.SUCCESS) {
            closedHere();
        } else if (!closing && failedByPeer()) {
            ended(Status.CONNECTION_ABORTED, BY_PEER);
        } else if (reported == Status.CONNECTION_INVALID) {
            ended(
                    reported,
                    saysClose ? CLOSED_BY_PEER : CLOSED_BY_PEER + ", or its process has ended");
        } else {
            String lost =
                    event.isEmpty() ? "the connection was lost" : "the connection was lost: %s";
            set(ToCome.after(reported), reported, lost, event, null, null);
        }
    }

    /** This side has closed it. What was acknowledged before is reported as sent. */
    void closedHere() {
        set(ToCome.CAUSE, Status.CANCELLED, CLOSED_HERE, null);
    }

    private void ended(Status status, String why) {
        set(ToCome.after(status), status, why, null);
    }

    private void set(ToCome toCome, Status status, String why, @Nullable Throwable cause) {
        set(toCome, status, "%s", why, null, cause);
    }

    /** The sentence is a format and what it takes, because to format it needs memory. */
    private void set(
            ToCome toCome,
            Status status,
            String format,
            @Nullable Object one,
            @Nullable Object two,
            @Nullable Throwable cause) {
        boolean drains = toCome != ToCome.NOTHING;
        synchronized (this) {
            if (reason != null) {
                draining &= drains;
                return;
            }
            draining = drains;
            awaitsCause = toCome == ToCome.CAUSE;
            // Last: it is read without the monitor.
            reason = exception(status, format, one, two, cause);
        }
        tearDown();
    }

    private MessagingException failure(
            Status status, @Nullable String known, Completions from, int index) {
        try {
            String why = known == null ? from.failure(index).getMessage() : known;
            return exception(status, "%s", why, null, null);
        } catch (OutOfMemoryError | StackOverflowError e) {
            return NO_MEMORY;
        }
    }

    private MessagingException exception(
            Status status,
            String format,
            @Nullable Object one,
            @Nullable Object two,
            @Nullable Throwable cause) {
        try {
            String why = format.formatted(one, two);
            return new MessagingException(
                    status, "%s is closed: %s".formatted(describe(), why), cause);
        } catch (OutOfMemoryError | StackOverflowError e) {
            return NO_MEMORY;
        }
    }

    /** The peer says that it closes the connection. */
    void peerClosed() {
        peerClosed = true;
    }

    /** From now on, what is cancelled was cancelled by this side's close. */
    void closing() {
        closing = true;
    }

    boolean isClosing() {
        return closing;
    }

    /** Whether the peer has said that it closes the connection. */
    boolean hasPeerClosed() {
        return peerClosed;
    }

    /**
     * Nothing is delivered any more, and the reason is what it is. A peer that has disconnected had
     * closed the connection only if its last frame said so; then it has, whatever was refused here
     * after that.
     */
    void drained() {
        synchronized (this) {
            MessagingException why = reason;
            if (awaitsCause
                    && why != null
                    && why.status() == Status.CONNECTION_INVALID
                    && saysClose) {
                reason =
                        peerClosed
                                ? exception(why.status(), CLOSED_BY_PEER, null, null, null)
                                : exception(Status.CONNECTION_ABORTED, NO_CLOSE, null, null, null);
            }
            draining = false;
            awaitsCause = false;
        }
    }

    /** Why it has ended; null while it is open. */
    @Nullable MessagingException get() {
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
        if (reason == null) {
            return false;
        }
        synchronized (this) { // the cause may just be taking the reason's place
            return !isDraining();
        }
    }

    /** Whether what has come is delivered: until the end, or for a moment longer. */
    boolean takesCompletions() {
        return reason == null || draining;
    }
}
