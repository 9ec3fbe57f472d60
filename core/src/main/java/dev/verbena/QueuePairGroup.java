package dev.verbena;

import dev.verbena.NativeObject.ClosedException;
import dev.verbena.NativeObject.Teardown;
import dev.verbena.internal.queue.SynthesizedStatus;
import dev.verbena.internal.verbs.WorkCompletions;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The queue pairs that report to one completion queue, and what is done to each of them when the
 * completion queue breaks or is reclaimed.
 */
final class QueuePairGroup {
    /** How long the device has, after an overrun of the queue, for what is outstanding. */
    private static final long BREAK_DOWN = TimeUnit.SECONDS.toNanos(1);

    private volatile QueuePair[] queuePairs = new QueuePair[0]; // each change makes it anew

    /** Again, for one that reports with both its queues, changes nothing. */
    synchronized void add(QueuePair queuePair) {
        if (Arrays.asList(queuePairs).contains(queuePair)) {
            return;
        }
        QueuePair[] changed = Arrays.copyOf(queuePairs, queuePairs.length + 1);
        changed[queuePairs.length] = queuePair;
        queuePairs = changed;
    }

    synchronized void remove(QueuePair queuePair) {
        QueuePair[] before = queuePairs;
        int at = Arrays.asList(before).indexOf(queuePair);
        if (at >= 0) {
            QueuePair[] changed = Arrays.copyOf(before, before.length - 1);
            System.arraycopy(before, at + 1, changed, at, changed.length - at);
            queuePairs = changed;
        }
    }

    /** All of them, as of now. */
    List<QueuePair> all() {
        return List.of(queuePairs);
    }

    /** See {@link CompletionQueue#reclaimIfOrphaned}. */
    void reclaim(Teardown end) {
        for (QueuePair queuePair : queuePairs) {
            queuePair.reclaim(end);
        }
    }

    /**
     * Ends what the queue pairs have outstanding: their completion queue is of no use any more. A
     * consumer that learns of the broken queue finds all completions there.
     *
     * @param of the completion queue
     * @param overrun whether it overran; otherwise the device has failed
     */
    void breakDown(CompletionQueue of, boolean overrun) {
        for (QueuePair queuePair : queuePairs) {
            try {
                queuePair.flush();
            } catch (ClosedException | VerbenaException e) {
                continue; // closed meanwhile, or broken with the device
            }
        }
        int lost = overrun ? SynthesizedStatus.LOST : WorkCompletions.GENERAL_ERROR;
        long timeout = overrun ? BREAK_DOWN : NativeQueuePair.FAILED_DEVICE_TIMEOUT;
        long start = System.nanoTime();
        for (QueuePair queuePair : queuePairs) {
            queuePair.finish(of, timeout - (System.nanoTime() - start), lost);
        }
    }
}
