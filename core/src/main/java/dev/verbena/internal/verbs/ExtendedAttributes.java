package dev.verbena.internal.verbs;

/**
 * What only {@code ibv_query_device_ex} reports.
 *
 * @param paging what can be done with memory that is not pinned
 * @param moderationCount {@code max_cq_count}: after how many completions a completion queue may
 *     raise an event; 0 without interrupt moderation
 */
public record ExtendedAttributes(
        PagingAttributes paging, int moderationCount, int moderationMicroseconds) {
    /** Of a device, driver or library that has none of these. */
    public static final ExtendedAttributes NONE =
            new ExtendedAttributes(PagingAttributes.NONE, 0, 0);
}
