package dev.verbena.messaging;

/**
 * How many frames each side may send before the other has room again. Each frame uses up a receive
 * of the peer's, which is posted again when the message was released, or at once for control
 * frames. The peer counts both kinds, and reports the counts in each frame that it sends.
 *
 * <p>A side has receives for {@code window} messages and {@link #RESERVE} control frames. A report
 * is due when half of either was not reported. It needs a control frame unless a message goes that
 * way anyway; the last frame of the reserve is kept for reports of control frames. So two sides
 * cannot wait for each other: a side that may send no more has sent so many control frames that the
 * peer's report of them is due, and the peer has kept a frame for it, or has just sent it.
 *
 * <p>Guarded by the lock of the channel. Counts wrap around.
 */
final class Credits {
    /** Receives beside those for messages. */
    static final int RESERVE = 4;

    private static final int CONTROL_REPORT_AT = RESERVE / 2;

    private final int messageReportAt;
    private final Count messages = new Count();
    private final Count controls = new Count();
    private int window; // of the peer

    /** Of one kind of frame. */
    private static final class Count {
        int sent;
        int granted; // of those: as the peer reported last
        int returned; // receives of this side that were posted again
        int reported; // of those: to the peer

        int outstanding() {
            return sent - granted;
        }

        int unreported() {
            return returned - reported;
        }

        boolean grant(int count) {
            if (count - sent > 0) {
                return false;
            }
            if (count - granted > 0) {
                granted = count;
            }
            return true;
        }
    }

    /**
     * Nothing may be sent before {@link #open}.
     *
     * @param receives how many messages this side has receives for
     */
    Credits(int receives) {
        this.messageReportAt = Math.max(1, receives / 2);
    }

    /** The peer has receives for so many messages. */
    void open(int peerReceives) {
        window = peerReceives;
    }

    /** Whether the peer has a receive for a message. */
    boolean maySendMessage() {
        return messages.outstanding() < window;
    }

    /** Whether the peer has a receive for a control frame, and it is not kept for a report. */
    boolean maySendControl() {
        int kept = controls.unreported() >= CONTROL_REPORT_AT ? 0 : 1;
        return window > 0 && controls.outstanding() < RESERVE - kept;
    }

    /** A frame was sent, which uses a receive and carried both counts. */
    void sent(boolean control) {
        (control ? controls : messages).sent++;
        carried();
    }

    /** A frame has carried both counts. */
    void carried() {
        messages.reported = messages.returned;
        controls.reported = controls.returned;
    }

    /** How many messages of the peer were released: to be put into the next frame. */
    int returnedMessages() {
        return messages.returned;
    }

    /** How many control frames of the peer were taken: to be put into the next frame. */
    int returnedControls() {
        return controls.returned;
    }

    /**
     * The peer's report came.
     *
     * @return false when it reports more than was sent
     */
    boolean grant(int messageCount, int controlCount) {
        return messages.grant(messageCount) && controls.grant(controlCount);
    }

    /** A receive of this side was posted again. */
    void returnOne(boolean control) {
        (control ? controls : messages).returned++;
    }

    /** Whether the peer may need to know of the receives that were posted again. */
    boolean reportDue() {
        return messages.unreported() >= messageReportAt
                || controls.unreported() >= CONTROL_REPORT_AT;
    }

    /** How many messages may be sent now. */
    int available() {
        return window - messages.outstanding();
    }
}
