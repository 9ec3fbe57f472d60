package dev.verbena.internal.queue;

import dev.verbena.QueuePairState;

/**
 * The progress of a queue pair from creation to close, and the reason why its connection ended. Any
 * thread may set a fact. The facts that two threads may want to change are guarded by the monitor.
 */
public final class QueuePairProgress {
    private volatile boolean connecting; // or connected, or flushed; set under the monitor
    private volatile boolean reachable; // was moved to ready-to-receive
    private volatile boolean established; // set when posts have been accepted, not before
    private volatile boolean requestFailed; // for whatever reason
    private volatile boolean failed; // by a failed request, before any flush
    private volatile boolean flushed; // for good, whatever a connector says
    private volatile boolean stalled; // its watchdog has failed it
    private volatile long errorSince; // moved by this side, at this nanoTime; 0 before
    private volatile boolean ownRequestFailed; // with a status of its own, not flushed
    private volatile boolean failedByItself; // flushed for another reason than these two
    private volatile boolean broken; // IBV_EVENT_QP_FATAL

    /** Reserves it for one connection; false when it is or was connected, or flushed. */
    public synchronized boolean beginConnecting() {
        boolean free = !connecting;
        connecting = true;
        return free;
    }

    /** Gives it back after an attempt that did not change it. */
    public synchronized void giveUpConnecting() {
        connecting = flushed;
    }

    /** It is about to be moved to ready-to-receive. */
    void becomesReachable() {
        reachable = true;
    }

    boolean reachable() {
        return reachable;
    }

    /** Posts are accepted. */
    void established() {
        established = true;
    }

    /** Everything that is posted is about to be cancelled, or it is being closed. */
    synchronized void flush() {
        flushed = true;
        connecting = true; // or connect() would find the send queue ended
    }

    public boolean flushed() {
        return flushed;
    }

    /** A request has failed, or the device has moved it to the error state. */
    void fail() {
        if (!flushed) {
            failed = true;
        }
        requestFailed = true;
    }

    /** Whether it has failed before the program flushed it. */
    public boolean failed() {
        return failed;
    }

    /** Whether a request has failed, or was cancelled by a flush. */
    boolean requestFailed() {
        return requestFailed;
    }

    /** Notes that the watchdog is about to fail the queue pair. */
    void stall() {
        if (!flushed && !failed) {
            stalled = true;
        }
    }

    /** Whether its watchdog has failed it, so that what was flushed had not completed in time. */
    public boolean stalled() {
        return stalled;
    }

    /** Notes that this side is about to move the queue pair to the error state. */
    void movesToError() {
        if (errorSince == 0) {
            errorSince = System.nanoTime() | 1;
        }
    }

    /** When this side first moved it to the error state, by {@link System#nanoTime}. */
    long errorSince() {
        return errorSince;
    }

    /** A request of this side has failed with a status of its own. */
    void ownRequestFailed() {
        ownRequestFailed = true;
    }

    /** The device has reported that it is broken. */
    void breaks() {
        broken = true;
    }

    /** It is in the error state, or about to be: by itself, unless there is another reason. */
    void failsByItself() {
        if (established && errorSince == 0 && !ownRequestFailed) {
            failedByItself = true;
        }
    }

    /** Whether it has failed for a reason that this side does not know. */
    boolean failedByItself() {
        return failedByItself && !ownRequestFailed && !broken;
    }

    /** How far it has come, unless it is closed. */
    QueuePairState state(SendQueue sends) {
        if (failed) {
            return QueuePairState.FAILED;
        }
        if (flushed) {
            return QueuePairState.FLUSHED;
        }
        boolean wasConnected = established; // first: it is set after posts are accepted
        if (sends.connected()) {
            return QueuePairState.CONNECTED;
        }
        if (wasConnected) {
            return QueuePairState.DISCONNECTED;
        }
        return connecting ? QueuePairState.CONNECTING : QueuePairState.INITIALIZED;
    }
}
