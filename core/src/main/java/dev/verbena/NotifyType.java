package dev.verbena;

/** What wakes the consumer of an armed completion queue: NDK_CQ_NOTIFY_*. */
public enum NotifyType {
    /** Only that the queue broke: it overran, or the device failed. */
    ERRORS(0),
    /** The next completion, whatever it is. */
    ANY(1),
    /**
     * The next receive of a message that was sent with SEND_AND_SOLICIT_EVENT, or the next failure.
     */
    SOLICITED(2);

    private final int value;

    NotifyType(int value) {
        this.value = value;
    }

    /**
     * NDK's value.
     *
     * @return as in NDK_CQ_NOTIFY_*
     */
    public int value() {
        return value;
    }
}
