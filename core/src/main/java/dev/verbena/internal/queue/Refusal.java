package dev.verbena.internal.queue;

/**
 * Why a post had no effect, as a number: this package knows nothing of the public API's statuses.
 * What a provider refused is its errno, which is positive.
 */
public final class Refusal {
    /** It was accepted. */
    public static final int NONE = 0;

    /** There is no connection, or none any more. */
    public static final int NOT_CONNECTED = -1;

    /** As many requests are under way as the queue is deep. */
    public static final int FULL = -2;

    private Refusal() {}
}
