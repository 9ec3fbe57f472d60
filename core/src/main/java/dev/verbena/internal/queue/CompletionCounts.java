package dev.verbena.internal.queue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * What one completion queue counts, since it was made. Changed under its lock; from any thread,
 * without it, a count is as of a moment ago.
 */
public final class CompletionCounts {
    private static final VarHandle INTERNAL_SIGNALS;

    static {
        try {
            INTERNAL_SIGNALS =
                    MethodHandles.lookup()
                            .findVarHandle(CompletionCounts.class, "internalSignals", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private volatile long keptEver;
    private volatile long failuresEver;
    private volatile long cancelledEver;
    private volatile long synthesizedEver;
    private volatile long internalSignals; // written without the fence of a volatile write

    CompletionCounts() {}

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
}
