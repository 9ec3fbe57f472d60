package dev.verbena.internal.queue;

import dev.verbena.NotifyType;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.util.Uncaught;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

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

    private final Supplier<AdapterEvents> events;
    private final Map<CompletionArming, Watch> watches = new ConcurrentHashMap<>();
    private final Runnable lookAtAll =
            () -> watches.values().forEach(watch -> Uncaught.run(watch::look));
    private boolean scheduled; // guarded by this

    SoftRoceQuirks(Supplier<AdapterEvents> events) {
        this.events = events;
    }

    @Override
    public synchronized void add(CompletionArming queue) {
        watches.put(queue, new Watch(queue));
        if (!scheduled) {
            schedule();
        }
    }

    @Override
    public void remove(CompletionArming queue) {
        watches.remove(queue);
    }

    private synchronized void schedule() {
        boolean needed = !watches.isEmpty();
        if (needed) {
            events.get().timers().after(INTERVAL, this);
        }
        scheduled = needed;
    }

    /** Called by the event thread. */
    @Override
    public void run() {
        schedule(); // first: if there is no memory for it, this runs again
        Uncaught.run(lookAtAll);
    }

    /** What was seen of one completion queue. For the event thread. */
    private static final class Watch {
        private final CompletionArming queue;
        private final LookSchedule schedule = new LookSchedule(System::nanoTime);
        private final Runnable lookAtQueuePairs = this::lookAtQueuePairs;
        private long delivered;
        private volatile boolean polling; // perhaps the owner of a confined queue, later
        private long failures; // of the thread that polls

        Watch(CompletionArming queue) {
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
            if (!polling && queue.armed() == NotifyType.SOLICITED) {
                polling = true;
                queue.poller().ownerTasks().runByOwner(this::poll);
            }
        }

        private void lookAtQueuePairs() {
            queue.queuePairs().all().forEach(NativeQueuePair::failIfInError);
        }

        private void poll() {
            polling = false;
            queue.poller().drain();
            long now = queue.poller().counts().failuresEver();
            if (now != failures) {
                failures = now;
                queue.synthesized();
            }
        }
    }

    /**
     * When to look at the queue pairs: soon after traffic stops, then less and less often, because
     * each look is a system call for each queue pair. While there is traffic, at the longest
     * interval: traffic shows that one queue pair works, not that all do. For one thread.
     */
    static final class LookSchedule {
        /** The time from the last traffic to the first look. */
        static final int SHORTEST_MILLISECONDS = 20;

        private static final int LONGEST_MILLISECONDS = 1280;

        private final LongSupplier nanoTime;
        private int gap = SHORTEST_MILLISECONDS;
        private long last; // look or traffic
        private long lastLook;

        /** The first look is due after {@link #SHORTEST_MILLISECONDS}. */
        LookSchedule(LongSupplier nanoTime) {
            this.nanoTime = nanoTime;
            this.last = nanoTime.getAsLong();
            this.lastLook = last;
        }

        /** Completions came. No need to look for a while, unless the last look was long ago. */
        void trafficSeen(Runnable look) {
            gap = SHORTEST_MILLISECONDS;
            last = nanoTime.getAsLong();
            if (last - lastLook >= TimeUnit.MILLISECONDS.toNanos(LONGEST_MILLISECONDS)) {
                look.run();
                lastLook = last;
            }
        }

        /** No completion came. Looks, if it is time. */
        void look(Runnable look) {
            if (nanoTime.getAsLong() - last >= TimeUnit.MILLISECONDS.toNanos(gap)) {
                look.run();
                gap = Math.min(2 * gap, LONGEST_MILLISECONDS);
                last = nanoTime.getAsLong();
                lastLook = last;
            }
        }
    }
}
