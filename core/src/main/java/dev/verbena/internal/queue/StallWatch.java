package dev.verbena.internal.queue;

import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.util.Uncaught;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The watchdog of a queue pair: fails it when it has requests outstanding and completes none for
 * some time. Compares counters of the send queue now and then on the adapter's event thread, so a
 * post costs nothing.
 */
public final class StallWatch {
    private static final Duration SHORTEST_TIMEOUT = Duration.ofMillis(10);
    private static final int CHECKS = 8; // within the timeout

    private final NativeQueuePair pair;
    private final Timers timers;
    private volatile @Nullable Check current; // null until it is turned on

    StallWatch(NativeQueuePair pair, Timers timers) {
        this.pair = pair;
        this.timers = timers;
    }

    /** Fails the queue pair when no request completes for so long, from now on. */
    @SuppressWarnings("ReferenceEquality") // this one or another
    public void start(Duration timeout) {
        if (timeout.compareTo(SHORTEST_TIMEOUT) < 0) {
            throw new IllegalArgumentException(
                    "The timeout of a queue pair's watchdog is 10 ms or longer, not "
                            + Text.time(timeout));
        }
        Check made = new Check(TimeUnit.NANOSECONDS.convert(timeout) / CHECKS);
        Check before = current;
        current = made;
        boolean begun = false;
        try {
            timers.after(made.interval, made);
            begun = true;
        } finally {
            if (!begun && current == made) {
                current = before; // or nobody would watch
            }
        }
    }

    /** The queue pair is destroyed. */
    void end() {
        current = null;
    }

    /** Checks the queue pair periodically until another check replaces it. For the event thread. */
    private final class Check implements Runnable {
        private final long interval;
        private final RequestLedger ledger = pair.sends().ledger();
        private int completed = ledger.retired();
        private int checksInVain; // since a request completed, or the first was outstanding
        private boolean failed;
        private final Runnable check = this::check;

        Check(long interval) {
            this.interval = interval;
        }

        @Override
        @SuppressWarnings("ReferenceEquality") // this one or another
        public void run() {
            if (failed) { // first: what has failed is finished, whatever replaces this check
                finish(); // the device had time to flush
                return;
            }
            if (current != this) {
                return;
            }
            timers.after(interval, this); // first: if there is no memory for it, this runs again
            Uncaught.run(check);
        }

        private void check() {
            if (noteProgress() && checksInVain > CHECKS) {
                var _ = pair.sends().drained(); // the program may not have polled for so long
                if (ledger.retired() == completed) {
                    failed = true;
                    pair.progress().stall();
                    pair.connectionFailed();
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

    /** Ends what a device that has stalled has not flushed either. */
    private void finish() {
        Stream.of(pair.sendCompletions(), pair.receiveCompletions())
                .distinct()
                .forEach(queue -> queue.poller().ownerTasks().runByOwner(() -> finish(queue)));
    }

    private void finish(CompletionArming queue) {
        pair.runUnlessClosed(
                () -> {
                    var _ = queue.poller().drain(); // these requests completed in time
                    pair.finish(queue, 0, WorkCompletions.FLUSHED);
                });
    }
}
