package dev.verbena;

import dev.verbena.internal.runtime.LookSchedule;
import dev.verbena.internal.runtime.Uncaught;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Finds the failures that Soft-RoCE (rxe) raises no event for. A timer of the adapter's event
 * thread checks all completion queues every 20 ms, so threads that wait or poll need not.
 *
 * <ul>
 *   <li>A receive that is posted to a queue pair in the error state never completes, because the
 *       provider only writes it into a ring and does not notify the kernel. So queue pairs with
 *       outstanding receives are asked for their state. Each query is a system call, so {@link
 *       LookSchedule} makes them rare.
 *   <li>A queue that is armed for solicited completions raises no event for a failed send ({@code
 *       rxe_comp.c} posts it with {@code solicited = 0}), nor for flushed receives from Linux 6.4
 *       on. So such a queue is polled.
 * </ul>
 */
final class SoftRoceQuirks extends Quirks implements Runnable {
    private static final long INTERVAL =
            TimeUnit.MILLISECONDS.toNanos(LookSchedule.SHORTEST_MILLISECONDS);

    private final Adapter adapter;
    private final Map<CompletionQueue, Watch> watches = new ConcurrentHashMap<>();
    private boolean scheduled; // guarded by this

    SoftRoceQuirks(Adapter adapter) {
        this.adapter = adapter;
    }

    @Override
    synchronized void add(CompletionQueue queue) {
        watches.put(queue, new Watch(queue));
        if (!scheduled) {
            schedule();
        }
    }

    @Override
    void remove(CompletionQueue queue) {
        watches.remove(queue);
    }

    private synchronized void schedule() {
        scheduled = !watches.isEmpty();
        if (scheduled) {
            adapter.events().timers().after(INTERVAL, this);
        }
    }

    /** Called by the event thread. */
    @Override
    public void run() {
        schedule(); // first: it goes on, whatever fails below
        watches.values().forEach(watch -> Uncaught.run(watch::look));
    }

    /** What was seen of one completion queue. For the event thread. */
    private final class Watch {
        private final CompletionQueue queue;
        private final LookSchedule schedule = new LookSchedule(System::nanoTime);
        private final Runnable lookAtQueuePairs = this::lookAtQueuePairs;
        private long delivered;
        private volatile boolean polling; // perhaps the owner of a confined queue, later
        private long failures; // of the thread that polls

        Watch(CompletionQueue queue) {
            this.queue = queue;
        }

        void look() {
            long now = queue.poller().counts().delivered();
            if (now == delivered) {
                schedule.look(lookAtQueuePairs);
            } else {
                delivered = now;
                schedule.trafficSeen(lookAtQueuePairs);
            }
            if (!polling && queue.events().armed() == NotifyType.SOLICITED) {
                polling = true;
                queue.poller().ownerTasks().runByOwner(this::poll);
            }
        }

        private void lookAtQueuePairs() {
            for (QueuePair pair : queue.queuePairs()) {
                if (pair.awaitsReceives() && pair.tryAcquire()) {
                    try {
                        if (adapter.control().inError(pair.nativeAddress())) {
                            pair.failedByItself();
                        }
                    } finally {
                        pair.release();
                    }
                }
            }
        }

        private void poll() {
            polling = false;
            queue.poller().drain();
            long now = queue.poller().counts().failuresEver();
            if (now != failures) {
                failures = now;
                queue.events().synthesized();
            }
        }
    }
}
