package dev.verbena;

import dev.verbena.internal.queue.RequestLedger;
import dev.verbena.internal.runtime.Timers;

/**
 * The watchdog of {@link QueuePair#failIfStalled}. Compares counters of the send queue now and then
 * on the adapter's event thread, so a post costs nothing.
 */
final class StallWatch implements Runnable {
    private static final int CHECKS = 8; // within the timeout

    private final NativeQueuePair pair;
    private final RequestLedger ledger;
    private final Timers timers;
    private final long interval;
    private volatile boolean replaced;

    // Of the event thread.
    private int completed;
    private int checksInVain; // since a request completed, or the first was outstanding
    private boolean failed;

    StallWatch(NativeQueuePair pair, RequestLedger ledger, Timers timers, long nanoseconds) {
        this.pair = pair;
        this.ledger = ledger;
        this.timers = timers;
        this.interval = nanoseconds / CHECKS;
        this.completed = ledger.retired();
        timers.after(interval, this);
    }

    /** Another watchdog takes its place. */
    void replaced() {
        replaced = true;
    }

    @Override
    public void run() {
        if (replaced || pair.owner().isClosed()) {
            return;
        }
        if (failed) {
            pair.finishStalled(); // the device had time to flush
            return;
        }
        timers.after(interval, this); // first: the watchdog survives what fails below
        if (noteProgress() && checksInVain > CHECKS) {
            pair.drainSends(); // the program may not have polled for so long
            if (ledger.retired() == completed) {
                failed = true;
                pair.stalled();
            }
        }
    }

    /** Whether requests are outstanding, and none completed since the last check. */
    private boolean noteProgress() {
        int now = ledger.retired();
        boolean none = now == completed;
        boolean awaits = ledger.awaitsCompletion();
        checksInVain = !awaits ? 0 : none ? checksInVain + 1 : 1;
        completed = now;
        return awaits && none;
    }
}
