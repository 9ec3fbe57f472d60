package dev.verbena.internal.queue;

import dev.verbena.PostResult;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * What is counted of one queue of a queue pair beside what its {@link RequestLedger} holds anyway:
 * what is seldom, so that an ordinary request costs nothing here. Read from any thread.
 */
public final class RequestCounts {
    // How many were added to the ledger, as of not long ago: its own number wraps around.
    private static final int ADDED = 0;
    private static final int INTERNAL = 1; // how many of these
    private static final int SUPPRESSED = 2; // and how many of these
    private static final int REFUSED = 3;
    private static final int FULL = 4;
    private static final int FAILED = 5;
    private static final int CANCELLED = 6;
    private static final int INTERNAL_SIGNALS = 7;
    private static final int SHARED_RECEIVES = 8;
    private static final int BYTES = 9;
    private static final int BY_PROVIDER = 10;

    private static final AtomicLongArray ZEROS =
            new AtomicLongArray(BY_PROVIDER + 1); // never written

    // Null at first: every queue pair has two of these, and many connections may be idle.
    private volatile @Nullable AtomicLongArray counts;

    RequestCounts() {}

    /** Allocates, if that was not done; before the first request, so that a poll never does. */
    public void prepare() {
        var _ = own();
    }

    /** For writers. */
    private AtomicLongArray own() {
        AtomicLongArray own = counts;
        return own == null ? allocate() : own;
    }

    private synchronized AtomicLongArray allocate() {
        AtomicLongArray own = counts;
        if (own == null) {
            own = new AtomicLongArray(BY_PROVIDER + 1);
            counts = own;
        }
        return own;
    }

    /** For readers. */
    private AtomicLongArray now() {
        AtomicLongArray now = counts;
        return now == null ? ZEROS : now;
    }

    // The writers. Those without a locked instruction hold a queue's lock.

    /** Notes how many requests were added, long before that number has wrapped around. */
    void added(int wrapping) {
        AtomicLongArray own = own();
        long before = own.getPlain(ADDED);
        own.setOpaque(ADDED, before + (wrapping - (int) before));
    }

    /** Requests of this library's own were added, or taken back. */
    void internal(int more) {
        add(INTERNAL, more);
    }

    /** One was added that the caller believes refused. */
    void suppressed() {
        own().getAndIncrement(SUPPRESSED);
    }

    /** A post was refused. */
    public void refused(PostResult result) {
        AtomicLongArray own = own();
        own.getAndIncrement(REFUSED);
        if (result == PostResult.FULL) {
            own.getAndIncrement(FULL);
        } else if (result.errno() != 0) {
            own.getAndIncrement(BY_PROVIDER);
        }
    }

    void failed(int status) {
        own().getAndIncrement(status == SynthesizedStatus.FLUSHED ? CANCELLED : FAILED);
    }

    void internalSignal() {
        add(INTERNAL_SIGNALS, 1);
    }

    void sharedReceive() {
        add(SHARED_RECEIVES, 1);
    }

    /** Bytes of a receive that {@link RequestLedger#deliverPlain} does not deliver. */
    void received(long count) {
        add(BYTES, count);
    }

    private void add(int which, long count) {
        AtomicLongArray own = own();
        own.setOpaque(which, own.getPlain(which) + count);
    }

    // The readers.

    /** How many were added for the caller, where the ledger's number is this one. */
    long posted(int wrapping) {
        AtomicLongArray now = now();
        long before = now.getOpaque(ADDED);
        return before
                + (wrapping - (int) before)
                - now.getOpaque(INTERNAL)
                - now.getOpaque(SUPPRESSED);
    }

    int internal() {
        return (int) now().getOpaque(INTERNAL);
    }

    /** Posts that the provider refused, with an errno. */
    public long refusedByProvider() {
        return now().getOpaque(BY_PROVIDER);
    }

    /** Posts that returned a refusal. */
    public long refused() {
        return now().getOpaque(REFUSED);
    }

    /**
     * Posts that were refused as the queue was full.
     *
     * @return how many of {@link #refused}
     */
    public long full() {
        return now().getOpaque(FULL);
    }

    /** Completions with another status than success and flushed. */
    public long failed() {
        return now().getOpaque(FAILED);
    }

    /** Completions of requests that were flushed. */
    public long cancelled() {
        return now().getOpaque(CANCELLED);
    }

    /** Successes that were signaled for this library's sake, and dropped. */
    public long internalSignals() {
        return now().getOpaque(INTERNAL_SIGNALS);
    }

    /** Receives of a shared receive queue that ended here. */
    public long sharedReceives() {
        return now().getOpaque(SHARED_RECEIVES);
    }

    /** Bytes of messages that no ledger has counted. */
    public long bytes() {
        return now().getOpaque(BYTES);
    }
}
