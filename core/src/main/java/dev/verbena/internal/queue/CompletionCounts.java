package dev.verbena.internal.queue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What one completion queue has counted since it was created. Most counts change under its lock;
 * any thread may read them without it, and may see a slightly older count.
 */
public final class CompletionCounts {
    private static final VarHandle INTERNAL_SIGNALS;
    private static final VarHandle DELIVERED;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            INTERNAL_SIGNALS =
                    lookup.findVarHandle(CompletionCounts.class, "internalSignals", long.class);
            DELIVERED = lookup.findVarHandle(CompletionCounts.class, "delivered", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private volatile long keptEver;
    private volatile long failuresEver;
    private volatile long cancelledEver;
    private volatile long synthesizedEver;
    private volatile long internalSignals; // written without the fence of a volatile write

    // Of the threads that poll and wait: without the lock.
    private long delivered; // by DELIVERED from other threads
    private final AtomicLong waits = new AtomicLong();
    private final AtomicLong timeouts = new AtomicLong();

    CompletionCounts() {}

    /** A poll returned completions to the program. Stores one field. */
    public void delivered(int count) {
        DELIVERED.setOpaque(this, delivered + count);
    }

    /** A wait of the program returned a status. */
    public void waited(boolean timedOut) {
        waits.getAndIncrement();
        if (timedOut) {
            timeouts.getAndIncrement();
        }
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // under the lock only, as the next ones
    void kept() {
        keptEver++;
    }

    @SuppressWarnings("NonAtomicVolatileUpdate")
    void failure(int status) {
        failuresEver++;
        if (status == SynthesizedStatus.FLUSHED) {
            cancelledEver++; // last: a reader never sees more of these than failures
        }
    }

    @SuppressWarnings("NonAtomicVolatileUpdate")
    void synthesized() {
        synthesizedEver++;
    }

    void internalSignal() {
        INTERNAL_SIGNALS.setRelease(this, internalSignals + 1);
    }

    /** How many completions were kept until the consumer polled. */
    public long keptEver() {
        return keptEver;
    }

    /** How many completions reported a failure. */
    public long failuresEver() {
        return failuresEver;
    }

    /** How many of {@link #failuresEver} were flushed requests. */
    public long cancelledEver() {
        return cancelledEver;
    }

    /** How many completions were synthesized. */
    public long synthesizedEver() {
        return synthesizedEver;
    }

    /** How many successes were signaled for this library's sake, and dropped. */
    public long internalSignals() {
        return internalSignals;
    }

    /** How many completions polls returned to the program. */
    public long delivered() {
        return (long) DELIVERED.getOpaque(this);
    }

    /** How many waits of the program returned a status. */
    public long waits() {
        return waits.getOpaque();
    }

    /** How many of {@link #waits} timed out. */
    public long timeouts() {
        return timeouts.getOpaque();
    }
}
