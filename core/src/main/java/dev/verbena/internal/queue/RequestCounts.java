package dev.verbena.internal.queue;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What is counted of one queue of a queue pair beside what its {@link RequestLedger} holds anyway:
 * what is seldom, so that an ordinary request costs nothing here. Read from any thread.
 */
public final class RequestCounts {
    // How many were added to the ledger, as of not long ago: its own number wraps around.
    private final AtomicLong added = new AtomicLong();
    private final AtomicInteger internal = new AtomicInteger(); // how many of these
    private final AtomicInteger suppressed = new AtomicInteger(); // and how many of these

    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong full = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong cancelled = new AtomicLong();
    private final AtomicLong internalSignals = new AtomicLong();
    private final AtomicLong sharedReceives = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();

    RequestCounts() {}

    // The writers. Those without a locked instruction hold a queue's lock.

    /**
     * Notes how many requests were added, long before that number has wrapped around: whenever the
     * ledger looks for free slots.
     */
    void added(int wrapping) {
        long before = added.getPlain();
        added.setOpaque(before + (wrapping - (int) before));
    }

    /** Requests of this library's own were added, or taken back. */
    void internal(int more) {
        internal.setOpaque(internal.getPlain() + more);
    }

    /** One was added that the caller believes refused. */
    void suppressed() {
        suppressed.getAndIncrement();
    }

    /**
     * A post was refused.
     *
     * @param code what it returned
     */
    public void refused(int code) {
        refused.getAndIncrement();
        if (code == Refusal.FULL.code()) {
            full.getAndIncrement();
        }
    }

    void failed(int status) {
        (status == CompletionPoller.FLUSHED ? cancelled : failed).getAndIncrement();
    }

    void internalSignal() {
        add(internalSignals, 1);
    }

    void sharedReceive() {
        add(sharedReceives, 1);
    }

    /** Bytes of a receive that {@link RequestLedger#deliverPlain} does not deliver. */
    void received(long count) {
        add(bytes, count);
    }

    private static void add(AtomicLong to, long count) {
        to.setOpaque(to.getPlain() + count);
    }

    // The readers.

    /** How many were added for the caller, where the ledger's number is this one. */
    long posted(int wrapping) {
        long before = added.getOpaque();
        return before + (wrapping - (int) before) - internal.getOpaque() - suppressed.getOpaque();
    }

    int internal() {
        return internal.getOpaque();
    }

    /**
     * Posts that returned a refusal.
     *
     * @return how many
     */
    public long refused() {
        return refused.getOpaque();
    }

    /**
     * Posts that were refused as the queue was full.
     *
     * @return how many of {@link #refused}
     */
    public long full() {
        return full.getOpaque();
    }

    /**
     * Completions with another status than success and flushed.
     *
     * @return how many
     */
    public long failed() {
        return failed.getOpaque();
    }

    /**
     * Completions of requests that were flushed.
     *
     * @return how many
     */
    public long cancelled() {
        return cancelled.getOpaque();
    }

    /**
     * Successes that were signaled for this library's sake, and dropped.
     *
     * @return how many
     */
    public long internalSignals() {
        return internalSignals.getOpaque();
    }

    /**
     * Receives of a shared receive queue that ended here.
     *
     * @return how many
     */
    public long sharedReceives() {
        return sharedReceives.getOpaque();
    }

    /**
     * Bytes of messages that no ledger has counted.
     *
     * @return how many
     */
    public long bytes() {
        return bytes.getOpaque();
    }
}
