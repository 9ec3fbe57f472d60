package dev.verbena;

import dev.verbena.internal.queue.Gate;
import dev.verbena.internal.queue.WorkId;
import dev.verbena.internal.verbs.VerbsObjects;

import java.lang.ref.Reference;
import java.util.Arrays;

/**
 * Where the ends of requests are told: NDK's CQ, verbs' {@code ibv_cq}.
 *
 * <p>Polling is to be serialised by the caller, as NDK asks; everything else may be done from any
 * thread.
 */
public final class CompletionQueue extends NativeObject {
    private final Adapter adapter;
    private final long address;
    private final Gate gate = new Gate();

    // Under the gate: which slots are taken, for whom, and how often each was given out.
    private boolean[] taken = new boolean[8];
    private QueuePair[] queuePairs = new QueuePair[8];
    private int[] generations = new int[8];

    CompletionQueue(Adapter adapter, int depth) {
        super(adapter);
        this.adapter = adapter;
        try {
            if (depth < 1 || depth > adapter.attributes().maxCompletions()) {
                throw new VerbenaException(
                        Status.INVALID_PARAMETER,
                        "A completion queue of %s is 1 to %d deep, not %d"
                                .formatted(
                                        adapter.name(),
                                        adapter.attributes().maxCompletions(),
                                        depth));
            }
            this.address =
                    VerbenaException.check(
                            VerbsObjects.createCq(adapter.context(), depth),
                            "ibv_create_cq(depth %d)".formatted(depth),
                            "");
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /**
     * Takes completions out of the queue (NdkGetCqResultsEx). Those of one queue pair's initiator
     * queue come in posting order, and so do those of its receives; between the two, and between
     * queue pairs, there is no order.
     *
     * <p>Returns at once. Allocates nothing.
     *
     * @param completions where they go; what it held before is forgotten
     * @return how many came, 0 when there was none
     * @throws IllegalStateException when this queue is closed
     * @throws VerbenaException when the queue is broken, as after an overrun
     */
    public int poll(Completions completions) {
        completions.clear();
        int count;
        enterGate();
        try {
            count = adapter.context().pollCq(address, completions.raw());
            for (int i = 0; i < count; i++) {
                long id = completions.raw().id(i);
                QueuePair queuePair = queuePairs[WorkId.slot(id)];
                // A closed queue pair's completions may still be in the queue; nobody waits for
                // them.
                if (queuePair != null && queuePair.owns(id)) {
                    completions.add(i, queuePair, WorkId.isReceive(id), queuePair.retire(id));
                }
            }
        } finally {
            gate.leave();
            Reference.reachabilityFence(completions);
        }
        if (count < 0) {
            // A number of the provider's choice (mlx5: -1), not an errno.
            throw new VerbenaException(
                    Status.INTERNAL_ERROR,
                    "ibv_poll_cq answered %d: %s is broken, as after an overrun; it and its queue pairs have to be made anew, the queue deeper"
                            .formatted(count, this));
        }
        return completions.size();
    }

    /**
     * Takes a slot for one queue and returns what its work ids begin with. Until {@link #enter},
     * nothing is delivered to it.
     */
    long reserve(boolean receive) {
        enterGate();
        try {
            int slot = 0;
            while (slot < taken.length && taken[slot]) {
                slot++;
            }
            if (slot == WorkId.SLOTS) {
                throw new VerbenaException(
                        Status.INSUFFICIENT_RESOURCES,
                        "One completion queue serves %d queues at most".formatted(WorkId.SLOTS));
            }
            if (slot == taken.length) {
                taken = Arrays.copyOf(taken, 2 * slot);
                queuePairs = Arrays.copyOf(queuePairs, 2 * slot);
                generations = Arrays.copyOf(generations, 2 * slot);
            }
            taken[slot] = true;
            return WorkId.queue(slot, ++generations[slot], receive);
        } finally {
            gate.leave();
        }
    }

    /** Delivers completions to a queue pair from now on; its fields are all set. */
    void enter(long queue, QueuePair queuePair) {
        enterGate();
        queuePairs[WorkId.slot(queue)] = queuePair;
        gate.leave();
    }

    /** Gives a slot back. */
    void release(long queue) {
        // The gate may be shut: the owner closed this queue before its queue pairs. Then nobody
        // polls.
        if (gate.enter()) {
            queuePairs[WorkId.slot(queue)] = null;
            taken[WorkId.slot(queue)] = false;
            gate.leave();
        }
    }

    private void enterGate() {
        if (!gate.enter()) {
            throw new IllegalStateException(this + " is closed");
        }
    }

    Adapter adapter() {
        return adapter;
    }

    long address() {
        return address;
    }

    @Override
    void shut() {
        gate.shut();
    }

    @Override
    void destroy() {
        VerbenaException.check(VerbsObjects.destroyCq(address), "ibv_destroy_cq", "");
    }

    @Override
    public String toString() {
        return "CompletionQueue of " + adapter.name();
    }
}
