package dev.verbena.internal.queue;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

/** The shared receive queues of one device, by what their receives' ids begin with. */
public final class SharedQueues {
    private int[] generations = new int[0];
    private volatile @Nullable SharedReceives[] queues = new SharedReceives[0];

    /**
     * Takes a slot.
     *
     * @return what {@link WorkId#sharedQueue} gave, or -1 when all slots are taken
     */
    public synchronized long reserve() {
        int slot = 0;
        while (slot < queues.length && queues[slot] != null) {
            slot++;
        }
        if (slot == WorkId.SLOTS) {
            return -1;
        }
        if (slot == generations.length) {
            generations = Arrays.copyOf(generations, slot + 1);
        }
        return WorkId.sharedQueue(slot, ++generations[slot]);
    }

    /**
     * Makes a queue known.
     *
     * @param queue a new one, with what {@link #reserve} gave just before, under this object's lock
     */
    public synchronized void enter(SharedReceives queue) {
        int slot = WorkId.slot(queue.queue());
        @Nullable SharedReceives[] changed =
                Arrays.copyOf(queues, Math.max(queues.length, slot + 1));
        changed[slot] = queue;
        queues = changed;
    }

    public synchronized void remove(SharedReceives queue) {
        @Nullable SharedReceives[] changed = queues.clone();
        changed[WorkId.slot(queue.queue())] = null;
        queues = changed;
    }

    /** The queue that a receive's id names, or null when it is closed. */
    @Nullable SharedReceives find(long id) {
        @Nullable SharedReceives[] known = queues;
        int slot = WorkId.slot(id);
        SharedReceives queue = slot < known.length ? known[slot] : null;
        return queue != null && WorkId.belongsTo(id, queue.queue()) ? queue : null;
    }
}
