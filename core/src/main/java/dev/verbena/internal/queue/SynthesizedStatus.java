package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.WorkCompletions;

/** The statuses of completions that this library synthesizes. */
public final class SynthesizedStatus {
    /** {@code IBV_WC_GENERAL_ERR}: the request never reached the provider. */
    public static final int NOT_POSTED = WorkCompletions.GENERAL_ERROR;

    /** {@code IBV_WC_WR_FLUSH_ERR}: the request stood behind one that failed. */
    public static final int FLUSHED = WorkCompletions.FLUSHED;

    /**
     * The device has lost the request's completion: none of {@code enum ibv_wc_status}, which has
     * no such value.
     */
    public static final int LOST = 0xFF;

    private SynthesizedStatus() {}
}
