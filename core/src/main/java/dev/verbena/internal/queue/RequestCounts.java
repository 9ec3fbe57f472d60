package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.RequestCounters;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The counts of one queue of a queue pair, in addition to those of its {@link RequestLedger}: rare
 * events, so that an ordinary request costs nothing here; and each receive of a shared receive
 * queue, whose two counts are therefore in this object itself. Any thread may read them.
 */
public final class RequestCounts {
    private static final int INTERNAL = 0; // how many of those that were added
    private static final int SUPPRESSED = 1; // and how many of these
    private static final int REFUSED = 2;
    private static final int FULL = 3;
    private static final int FAILED = 4;
    private static final int CANCELLED = 5;
    private static final int INTERNAL_SIGNALS = 6;
    private static final int BY_PROVIDER = 7;

    private static final VarHandle ADDED = counter("added");
    private static final VarHandle BYTES = counter("bytes");

    private final AtomicLongArray counts = new AtomicLongArray(BY_PROVIDER + 1);

    // How many were added to the ledger, as of not long ago: its own number wraps around. Without a
    // ledger, how many receives of a shared receive queue completed here.
    private long added; // by ADDED
    private long bytes; // by BYTES

    private static VarHandle counter(String name) {
        return Fields.handle(MethodHandles.lookup(), name, long.class);
    }

    // The writers. Those without a locked instruction hold a queue's lock.

    /** Notes how many requests were added, long before that number has wrapped around. */
    void added(int wrapping) {
        ADDED.setOpaque(this, added + (wrapping - (int) added));
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
        ADDED.setOpaque(this, added + 1);
    }

    /** Bytes of a receive that {@link RequestLedger#deliverPlain} does not deliver. */
    void received(long count) {
        BYTES.setOpaque(this, bytes + count);
    }

    private void add(int which, long count) {
        counts.setOpaque(which, counts.getPlain(which) + count);
    }

    // The readers.

    /** How many were added for the caller, if the ledger's number is this one. */
    long posted(int wrapping) {
        long before = (long) ADDED.getOpaque(this);
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
        long bytes = (long) BYTES.getOpaque(this) + (ledger == null ? 0 : ledger.bytes());
        int outstanding = ledger == null ? 0 : ledger.outstandingPosted();
        long posted = ledger == null ? (long) ADDED.getOpaque(this) : ledger.posted();
        return new RequestCounters(
                posted, outstanding, failed, cancelled, refused, full, byProvider, signals, bytes);
    }
}
