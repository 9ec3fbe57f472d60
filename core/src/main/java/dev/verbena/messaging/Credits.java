package dev.verbena.messaging;

/**
 * How many frames each side may send before the other has room again. Each frame uses up a receive
 * of the peer's, which is posted again when the message was released, or at once for control
 * frames. The peer counts both kinds, and reports the counts in each frame that it sends.
 *
 * <p>A side has receives for {@code window} messages and {@link #CONTROLS} control frames, and one
 * for a close frame, which therefore needs no credit. A report is due when half of either was not
 * reported. It needs a control frame unless a message goes that way anyway; the last of these four
 * is kept for reports of control frames. So two sides cannot wait for each other: a side that may
 * send no more has sent so many control frames that the peer's report of them is due, and the peer
 * has kept a frame for it, or has just sent it.
 *
 * <p>Guarded by the lock of the channel. Counts wrap around.
 */
final class Credits {
    /** How many control frames may be sent and not reported. */
    static final int CONTROLS = 4;

    /** Receives in addition to those for messages: for control frames, and for a close frame. */
    static final int RESERVE = CONTROLS + 1;

    private static final int CONTROL_REPORT_AT = CONTROLS / 2;

    private final int receives;
    private final int messageReportAt;
    private int window; // of the peer

    // Of each kind of frame: in one object, as the processor's cache has not all of many channels.
    private int messagesSent;
    private int messagesGranted; // of those: as the peer reported last
    private int messagesReceived;
    private int messagesReturned; // receives of this side that were posted again
    private int messagesReported; // of those: to the peer
    private int controlsSent;
    private int controlsGranted;
    private int controlsReceived;
    private int controlsReturned;
    private int controlsReported;

    /**
     * Nothing may be sent before {@link #open}.
     *
     * @param receives how many messages this side has receives for
     */
    Credits(int receives) {
        this.receives = receives;
        this.messageReportAt = Math.max(1, receives / 2);
    }

    /** The peer has receives for so many messages. */
    void open(int peerReceives) {
        window = peerReceives;
    }

    /** Whether the peer has a receive for a message. */
    boolean maySendMessage() {
        return available() > 0;
    }

    /** Whether the peer has a receive for a control frame, and it is not kept for a report. */
    boolean maySendControl() {
        int kept = unreportedControls() >= CONTROL_REPORT_AT ? 0 : 1;
        return window > 0 && controlsSent - controlsGranted < CONTROLS - kept;
    }

    /** A frame was sent, which uses a receive and carried both counts. */
    void sent(boolean control) {
        if (control) {
            controlsSent++;
        } else {
            messagesSent++;
        }
        carried();
    }

    /** A frame has carried both counts. */
    void carried() {
        messagesReported = messagesReturned;
        controlsReported = controlsReturned;
    }

    /** How many messages of the peer were released: to be put into the next frame. */
    int returnedMessages() {
        return messagesReturned;
    }

    /** How many control frames of the peer were taken: to be put into the next frame. */
    int returnedControls() {
        return controlsReturned;
    }

    /**
     * The peer's report came.
     *
     * @return false when it reports more than was sent
     */
    boolean grant(int messageCount, int controlCount) {
        if (messageCount - messagesSent > 0 || controlCount - controlsSent > 0) {
            return false;
        }
        messagesGranted = later(messagesGranted, messageCount);
        controlsGranted = later(controlsGranted, controlCount);
        return true;
    }

    private static int later(int one, int other) {
        return other - one > 0 ? other : one;
    }

    private int unreportedControls() {
        return controlsReturned - controlsReported;
    }

    /**
     * A message of the peer's came. What was returned and not reported is no credit yet.
     *
     * @return false when the peer had no credit for it
     */
    boolean messageReceived() {
        messagesReceived++;
        return messagesReceived - messagesReported <= receives;
    }

    /** Whether the peer has sent a message; asked before there are many. */
    boolean anyMessageReceived() {
        return messagesReceived != 0;
    }

    /**
     * A control frame of the peer's came.
     *
     * @param close whether it is a close frame, which has a receive of its own
     * @return false when the peer had no credit for it
     */
    boolean controlReceived(boolean close) {
        controlsReceived++;
        return controlsReceived - controlsReported <= (close ? RESERVE : CONTROLS);
    }

    /** A receive of this side was posted again. */
    void returnOne(boolean control) {
        if (control) {
            controlsReturned++;
        } else {
            messagesReturned++;
        }
    }

    /** Whether the peer may need to know of the receives that were posted again. */
    boolean reportDue() {
        return messagesReturned - messagesReported >= messageReportAt
                || unreportedControls() >= CONTROL_REPORT_AT;
    }

    /** How many messages may be sent now. */
    int available() {
        return window - (messagesSent - messagesGranted);
    }
}
