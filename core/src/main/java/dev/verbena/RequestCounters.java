package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

/**
 * The counters of one queue since it was created: the send queue or the receives of a queue pair,
 * from {@link QueuePairCounters}, or the receives of a {@link SharedReceiveQueue}.
 *
 * <p>Of the requests that completed, {@code failed} and {@code cancelled} did so with such a
 * status, and all others with success.
 *
 * @param posted how many requests were accepted, which means that their posts returned ACCEPTED;
 *     this includes {@linkplain OpFlags#DEFER deferred} requests. A request that is being posted
 *     right now may be counted already; if the provider refuses it, the count goes back. For a
 *     queue pair with a {@link SharedReceiveQueue}: how many receives of that queue completed here
 * @param outstanding how many accepted requests are not known to have completed, as {@link
 *     QueuePair#outstandingRequests}. A request counts as completed when the program or this
 *     library polled its completion, a {@linkplain OpFlags#SILENT_SUCCESS silent} request when a
 *     later completion was polled; so the number may exceed the depth while silent requests are
 *     outstanding. For the receives of a queue pair with a {@link SharedReceiveQueue}: 0
 * @param failed how many requests completed with any status but SUCCESS and CANCELLED. More than
 *     one is rare, because a failure ends the connection
 * @param cancelled how many requests completed with CANCELLED, because they were outstanding at a
 *     failure, a flush or the close, or were posted later
 * @param refused how many posts returned another status than SUCCESS
 * @param refusedAsFull how many of the refused posts returned NO_MORE_ENTRIES because the queue was
 *     full (back-pressure)
 * @param refusedByProvider how many of the refused posts the provider refused with an errno: the
 *     queue pair is broken, or the system has no memory for a window
 * @param internalSignals how many {@linkplain OpFlags#SILENT_SUCCESS silent} requests had a
 *     completion that this library requested to free slots, and discarded; 0 for receives
 * @param bytes for a send queue, how many bytes the accepted requests send, write or read; for
 *     receives, how many bytes of messages arrived. Without headers
 */
@CheckReturnValue
public record RequestCounters(
        long posted,
        int outstanding,
        long failed,
        long cancelled,
        long refused,
        long refusedAsFull,
        long refusedByProvider,
        long internalSignals,
        long bytes) {
    /**
     * How many requests are known to have completed, with any status.
     *
     * @return {@link #posted} minus {@link #outstanding}
     */
    public long ended() {
        return posted - outstanding;
    }
}
