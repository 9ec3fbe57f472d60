package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.RequestCounters;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The counts of one queue of a queue pair, in addition to those of its {@link RequestLedger}: rare
 * events, so that an ordinary request costs nothing here; and each receive of a shared receive
 * queue. Any thread may read them.
 */
public final class RequestCounts {
    private static final VarHandle ADDED = counter("added", long.class);
    private static final VarHandle BYTES = counter("bytes", long.class);
    private static final VarHandle INTERNAL = counter("internal", int.class);
    private static final VarHandle SUPPRESSED = counter("suppressed", int.class);
    private static final VarHandle INTERNAL_SIGNALS = counter("internalSignals", long.class);
    private static final VarHandle REFUSED = counter("refused", long.class);
    private static final VarHandle FULL = counter("full", long.class);
    private static final VarHandle BY_PROVIDER = counter("byProvider", long.class);
    private static final VarHandle FAILED = counter("failed", long.class);
    private static final VarHandle CANCELLED = counter("cancelled", long.class);

    // How many were added to the ledger, as of not long ago: its own number wraps around. Without a
    // ledger, how many receives of a shared receive queue completed here.
    private long added;
    private long bytes;
    private int internal; // how many of those that were added
    private int suppressed; // and how many of these: the queue takes no more after the first
    private long internalSignals;

    // From any thread.
    private volatile long refused;
    private volatile long full;
    private volatile long byProvider;
    private volatile long failed;
    private volatile long cancelled;

    private static VarHandle counter(String name, Class<?> type) {
        return Fields.handle(MethodHandles.lookup(), name, type);
    }

    // The writers. Those without a locked instruction hold a queue's lock.

    /** Notes how many requests were added, long before that number has wrapped around. */
    void added(int wrapping) {
        ADDED.setOpaque(this, added + (wrapping - (int) added));
    }

    /** Internal requests were added, or taken back. */
    void internal(int more) {
        INTERNAL.setOpaque(this, internal + more);
    }

    /** A request was added that the caller believes refused. */
    void suppressed() {
        SUPPRESSED.setOpaque(this, suppressed + 1);
    }

    public void refused(PostResult result) {
        increment(REFUSED);
        if (result == PostResult.FULL) {
            increment(FULL);
        } else if (result.errno() != 0) {
            increment(BY_PROVIDER);
        }
    }

    void failed(int status) {
        increment(status == WorkCompletions.FLUSHED ? CANCELLED : FAILED);
    }

    void internalSignal() {
        INTERNAL_SIGNALS.setOpaque(this, internalSignals + 1);
    }

    void sharedReceive() {
        ADDED.setOpaque(this, added + 1);
    }

    /** Bytes of a receive that {@link RequestLedger#deliverPlain} does not deliver. */
    void received(long count) {
        BYTES.setOpaque(this, bytes + count);
    }

    private void increment(VarHandle counter) {
        var _ = (long) counter.getAndAdd(this, 1L);
    }

    // The readers.

    /** How many were added for the caller, if the ledger's number is this one. */
    long posted(int wrapping) {
        long before = (long) ADDED.getOpaque(this);
        return before + (wrapping - (int) before) - internal() - (int) SUPPRESSED.getOpaque(this);
    }

    int internal() {
        return (int) INTERNAL.getOpaque(this);
    }

    /**
     * A snapshot of all. It reads the counts of completions first and those of posts last, so that
     * no request seems to complete before it was posted.
     *
     * @param ledger null for the receives that a queue pair took from a shared receive queue
     */
    public RequestCounters counters(@Nullable RequestLedger ledger) {
        long failedNow = failed;
        long cancelledNow = cancelled;
        long signals = (long) INTERNAL_SIGNALS.getOpaque(this);
        long fullNow = full;
        long byProviderNow = byProvider;
        long refusedNow = refused;
        long bytesNow = (long) BYTES.getOpaque(this) + (ledger == null ? 0 : ledger.bytes());
        int outstanding = ledger == null ? 0 : ledger.outstandingPosted();
        long posted = ledger == null ? (long) ADDED.getOpaque(this) : ledger.posted();
        return new RequestCounters(
                posted,
                outstanding,
                failedNow,
                cancelledNow,
                refusedNow,
                fullNow,
                byProviderNow,
                signals,
                bytesNow);
    }
}
