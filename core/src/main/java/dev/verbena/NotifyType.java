package dev.verbena;

/** Which completions notify the consumer of an armed completion queue: NDK_CQ_NOTIFY_*. */
public enum NotifyType {
    /** No completion, only a failure of the queue itself: it overran, or the device failed. */
    ERRORS(0),
    /** The next completion. */
    ANY(1),
    /**
     * The next receive of a message that was sent with {@link OpFlags#SEND_AND_SOLICIT_EVENT}, or
     * the next completion of a failed request.
     */
    SOLICITED(2);

    private final int value;

    NotifyType(int value) {
        this.value = value;
    }

    /**
     * NDK's value.
     *
     * @return the value of NDK_CQ_NOTIFY_*
     */
    public int value() {
        return value;
    }
}
