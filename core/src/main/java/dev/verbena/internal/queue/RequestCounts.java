package dev.verbena.internal.queue;

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

    // One array: every queue pair has two of these, and most are never counted up.
    private final AtomicLongArray counts = new AtomicLongArray(BYTES + 1);

    RequestCounts() {}

    // The writers. Those without a locked instruction hold a queue's lock.

    /** Notes how many requests were added, long before that number has wrapped around. */
    void added(int wrapping) {
        long before = counts.getPlain(ADDED);
        counts.setOpaque(ADDED, before + (wrapping - (int) before));
    }

    /** Requests of this library's own were added, or taken back. */
    void internal(int more) {
        add(INTERNAL, more);
    }

    /** One was added that the caller believes refused. */
    void suppressed() {
        counts.getAndIncrement(SUPPRESSED);
    }

    /**
     * A post was refused.
     *
     * @param code what it returned
     */
    public void refused(int code) {
        counts.getAndIncrement(REFUSED);
        if (code == Refusal.FULL.code()) {
            counts.getAndIncrement(FULL);
        }
    }

    void failed(int status) {
        counts.getAndIncrement(status == SynthesizedStatus.FLUSHED ? CANCELLED : FAILED);
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
        counts.setOpaque(which, counts.getPlain(which) + count);
    }

    // The readers.

    /** How many were added for the caller, where the ledger's number is this one. */
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
     * Posts that returned a refusal.
     *
     * @return how many
     */
    public long refused() {
        return counts.getOpaque(REFUSED);
    }

    /**
     * Posts that were refused as the queue was full.
     *
     * @return how many of {@link #refused}
     */
    public long full() {
        return counts.getOpaque(FULL);
    }

    /**
     * Completions with another status than success and flushed.
     *
     * @return how many
     */
    public long failed() {
        return counts.getOpaque(FAILED);
    }

    /**
     * Completions of requests that were flushed.
     *
     * @return how many
     */
    public long cancelled() {
        return counts.getOpaque(CANCELLED);
    }

    /**
     * Successes that were signaled for this library's sake, and dropped.
     *
     * @return how many
     */
    public long internalSignals() {
        return counts.getOpaque(INTERNAL_SIGNALS);
    }

    /**
     * Receives of a shared receive queue that ended here.
     *
     * @return how many
     */
    public long sharedReceives() {
        return counts.getOpaque(SHARED_RECEIVES);
    }

    /**
     * Bytes of messages that no ledger has counted.
     *
     * @return how many
     */
    public long bytes() {
        return counts.getOpaque(BYTES);
    }
}
