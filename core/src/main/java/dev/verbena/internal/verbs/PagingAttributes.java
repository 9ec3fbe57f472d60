package dev.verbena.internal.verbs;

/**
 * What a device can do with memory that is not pinned: {@code ibv_odp_caps} of {@code
 * ibv_query_device_ex}.
 *
 * @param connected {@code rc_odp_caps}: {@code IBV_ODP_SUPPORT_SEND} and the like, for reliable
 *     connected queue pairs
 */
public record PagingAttributes(long general, int connected) {
    /** Of a device, driver or library without on-demand paging. */
    public static final PagingAttributes NONE = new PagingAttributes(0, 0);
}
