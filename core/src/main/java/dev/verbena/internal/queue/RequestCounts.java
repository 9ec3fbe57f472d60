package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.RequestCounters;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The counts of one queue of a queue pair, in addition to those of its {@link RequestLedger}: rare
 * events, so that an ordinary request costs nothing here. Any thread may read them.
 */
public final class RequestCounts {
    // How many were added to the ledger, as of not long ago: its own number wraps around. Without a
    // ledger, how many receives of a shared receive queue completed here.
    private static final int ADDED = 0;
    private static final int INTERNAL = 1; // how many of these
    private static final int SUPPRESSED = 2; // and how many of these
    private static final int REFUSED = 3;
    private static final int FULL = 4;
    private static final int FAILED = 5;
    private static final int CANCELLED = 6;
    private static final int INTERNAL_SIGNALS = 7;
    private static final int BYTES = 8;
    private static final int BY_PROVIDER = 9;

    private final AtomicLongArray counts = new AtomicLongArray(BY_PROVIDER + 1);

    // The writers. Those without a locked instruction hold a queue's lock.

    /** Notes how many requests were added, long before that number has wrapped around. */
    void added(int wrapping) {
        long before = counts.getPlain(ADDED);
        counts.setOpaque(ADDED, before + (wrapping - (int) before));
    }

    /** Internal requests were added, or taken back. */
    void internal(int more) {
        add(INTERNAL, more);
    }

    /** A request was added that the caller believes refused. */
    void suppressed() {
        counts.getAndIncrement(SUPPRESSED);
    }

    public void refused(PostResult result) {
        counts.getAndIncrement(REFUSED);
        if (result == PostResult.FULL) {
            counts.getAndIncrement(FULL);
        } else if (result.errno() != 0) {
            counts.getAndIncrement(BY_PROVIDER);
        }
    }

    void failed(int status) {
        counts.getAndIncrement(status == WorkCompletions.FLUSHED ? CANCELLED : FAILED);
    }

    void internalSignal() {
        add(INTERNAL_SIGNALS, 1);
    }

    void sharedReceive() {
        add(ADDED, 1);
    }

    /** Bytes of a receive that {@link RequestLedger#deliverPlain} does not deliver. */
    void received(long count) {
        add(BYTES, count);
    }

    private void add(int which, long count) {
        counts.setOpaque(which, counts.getPlain(which) + count);
    }

    // The readers.

    /** How many were added for the caller, if the ledger's number is this one. */
    long posted(int wrapping) {
        long before = counts.getOpaque(ADDED);
        return before
                + (wrapping - (int) before)
                - counts.getOpaque(INTERNAL)
                - counts.getOpaque(SUPPRESSED);
    }

    int internal() {
        return (int) counts.getOpaque(INTERNAL);
    }

    /**
     * A snapshot of all. It reads the counts of completions first and those of posts last, so that
     * no request seems to complete before it was posted.
     *
     * @param ledger null for the receives that a queue pair took from a shared receive queue
     */
    public RequestCounters counters(@Nullable RequestLedger ledger) {
        long failed = counts.getOpaque(FAILED);
        long cancelled = counts.getOpaque(CANCELLED);
        long signals = counts.getOpaque(INTERNAL_SIGNALS);
        long full = counts.getOpaque(FULL);
        long byProvider = counts.getOpaque(BY_PROVIDER);
        long refused = counts.getOpaque(REFUSED);
        long bytes = counts.getOpaque(BYTES) + (ledger == null ? 0 : ledger.bytes());
        int outstanding = ledger == null ? 0 : ledger.outstandingPosted();
        long posted = ledger == null ? counts.getOpaque(ADDED) : ledger.posted();
        return new RequestCounters(
                posted, outstanding, failed, cancelled, refused, full, byProvider, signals, bytes);
    }
}
