package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.RequestCounts;
import dev.verbena.internal.queue.RequestLedger;
import dev.verbena.internal.queue.SharedReceives;

import org.jspecify.annotations.Nullable;

/**
 * The counters of one queue since it was created: the send queue or the receives of a queue pair,
 * from {@link QueuePairCounters}, or the receives of a {@link SharedReceiveQueue}. Immutable.
 *
 * <p>{@code posted - outstanding} requests have ended: {@link #failed} and {@link #cancelled} of
 * them with such a completion, all others with success.
 */
@CheckReturnValue
public final class RequestCounters {
    private final long posted;
    private final int outstanding;
    private final long failed;
    private final long cancelled;
    private final long refused;
    private final long refusedAsFull;
    private final long refusedByProvider;
    private final long internalSignals;
    private final long bytes;

    private RequestCounters(RequestCounts counts, @Nullable RequestLedger ledger) {
        // What ends a request first, and what posts it last: so none seems to end before its post.
        this.failed = counts.failed();
        this.cancelled = counts.cancelled();
        this.internalSignals = counts.internalSignals();
        this.refusedAsFull = counts.full();
        this.refusedByProvider = counts.refusedByProvider();
        this.refused = counts.refused();
        if (ledger == null) {
            this.bytes = counts.bytes();
            this.outstanding = 0;
            this.posted = counts.sharedReceives();
        } else {
            this.bytes = counts.bytes() + ledger.bytes();
            this.outstanding = ledger.outstandingPosted();
            this.posted = ledger.posted();
        }
    }

    private RequestCounters(SharedReceives receives) {
        RequestCounts counts = receives.counts();
        this.failed = 0;
        this.cancelled = 0;
        this.internalSignals = 0;
        this.refusedAsFull = counts.full();
        this.refusedByProvider = counts.refusedByProvider();
        this.refused = counts.refused();
        this.bytes = 0;
        this.outstanding = receives.outstanding();
        this.posted = receives.posted();
    }

    /** A snapshot of a shared receive queue. */
    static RequestCounters ofShared(SharedReceives receives) {
        return new RequestCounters(receives);
    }

    /** A snapshot of a queue, or of what a queue pair took from a shared receive queue. */
    static RequestCounters of(RequestCounts counts, @Nullable RequestLedger ledger) {
        return new RequestCounters(counts, ledger);
    }

    /**
     * How many requests were accepted: their posts returned SUCCESS. {@linkplain OpFlags#DEFER
     * Deferred} ones are among them. A request that is being posted right now may be counted
     * already; if the provider refuses it, the count goes back.
     *
     * @return requests; of a queue pair with a {@link SharedReceiveQueue}, receives of that queue
     *     that ended here
     */
    public long posted() {
        return posted;
    }

    /**
     * How many accepted requests are not known to have ended, as {@link
     * QueuePair#outstandingRequests}. A request counts as ended when its completion was polled, by
     * the program or by this library; a {@linkplain OpFlags#SILENT_SUCCESS silent} one when a later
     * completion was polled.
     *
     * @return 0 to the depth, and some more while silent requests are outstanding; 0 for the
     *     receives of a queue pair with a {@link SharedReceiveQueue}
     */
    public int outstanding() {
        return outstanding;
    }

    /**
     * How many requests are known to have ended, however they did.
     *
     * @return {@link #posted} less {@link #outstanding}
     */
    public long ended() {
        return posted - outstanding;
    }

    /**
     * How many requests ended with a failure: any status but SUCCESS and CANCELLED. More than one
     * is rare, as a failure ends the connection.
     *
     * @return completions
     */
    public long failed() {
        return failed;
    }

    /**
     * How many requests ended with CANCELLED: outstanding at a failure, a flush, the close, or
     * posted later.
     *
     * @return completions
     */
    public long cancelled() {
        return cancelled;
    }

    /**
     * How many posts returned another status than SUCCESS.
     *
     * @return posts
     */
    public long refused() {
        return refused;
    }

    /**
     * How many posts returned NO_MORE_ENTRIES as the queue was full: back-pressure.
     *
     * @return posts, among those of {@link #refused}
     */
    public long refusedAsFull() {
        return refusedAsFull;
    }

    /**
     * How many posts the provider refused, with an errno: the queue pair is broken, or the system
     * has no memory for a window.
     *
     * @return posts, among those of {@link #refused}
     */
    public long refusedByProvider() {
        return refusedByProvider;
    }

    /**
     * How many {@linkplain OpFlags#SILENT_SUCCESS silent} requests had a completion that this
     * library asked for to free slots, and dropped.
     *
     * @return completions; 0 for receives
     */
    public long internalSignals() {
        return internalSignals;
    }

    /**
     * How many bytes: of a send queue, those that accepted requests send, write or read; of
     * receives, those of the messages that arrived.
     *
     * @return bytes of data, without any header
     */
    public long bytes() {
        return bytes;
    }

    @Override
    public String toString() {
        return "%,d posted (%,d bytes), %,d outstanding, %,d failed, %,d cancelled, %,d refused (%,d as full), %,d internal signals"
                .formatted(
                        posted,
                        bytes,
                        outstanding,
                        failed,
                        cancelled,
                        refused,
                        refusedAsFull,
                        internalSignals);
    }
}
