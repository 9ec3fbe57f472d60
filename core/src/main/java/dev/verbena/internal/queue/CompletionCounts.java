package dev.verbena.internal.queue;

import dev.verbena.CompletionQueueCounters;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.verbs.WorkCompletions;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * What one completion queue has counted since it was created. Most counts change under its lock;
 * any thread may read them without it, and may see a slightly older count.
 */
public final class CompletionCounts {
    private static final int KEPT = 0;
    private static final int FAILURES = 1;
    private static final int CANCELLED = 2; // so many of these
    private static final int SYNTHESIZED = 3;
    private static final int INTERNAL_SIGNALS = 4;
    private static final int WAITS = 5;
    private static final int TIMEOUTS = 6; // so many of these
    private static final VarHandle DELIVERED =
            Fields.handle(MethodHandles.lookup(), "delivered", long.class);

    private final AtomicLongArray counts = new AtomicLongArray(TIMEOUTS + 1);
    private long delivered; // of the thread that polls, without the lock; by DELIVERED from others

    /** A poll returned completions to the program. Stores one field. */
    public void delivered(int count) {
        DELIVERED.setOpaque(this, delivered + count);
    }

    /** A wait of the program returned a status. */
    public void waited(boolean timedOut) {
        counts.getAndIncrement(WAITS);
        if (timedOut) {
            counts.getAndIncrement(TIMEOUTS);
        }
    }

    void kept() {
        add(KEPT);
    }

    void failure(int status) {
        add(FAILURES);
        if (status == WorkCompletions.FLUSHED) {
            add(CANCELLED); // last: a reader never sees more of these than failures
        }
    }

    void synthesized() {
        add(SYNTHESIZED);
    }

    void internalSignal() {
        add(INTERNAL_SIGNALS);
    }

    private void add(int which) {
        counts.setRelease(which, counts.getPlain(which) + 1);
    }

    /** How many completions were kept until the consumer polled. */
    public long keptEver() {
        return counts.getAcquire(KEPT);
    }

    public long failuresEver() {
        return counts.getAcquire(FAILURES);
    }

    /** How many completions polls returned to the program. */
    public long delivered() {
        return (long) DELIVERED.getOpaque(this);
    }

    public CompletionQueueCounters counters() {
        long cancelled = counts.getAcquire(CANCELLED); // first: each is one of the failures, too
        long timeouts = counts.getAcquire(TIMEOUTS); // before the waits, of which they are some
        return new CompletionQueueCounters(
                delivered(),
                failuresEver() - cancelled,
                cancelled,
                counts.getOpaque(SYNTHESIZED),
                counts.getOpaque(INTERNAL_SIGNALS),
                keptEver(),
                counts.getOpaque(WAITS),
                timeouts);
    }
}
