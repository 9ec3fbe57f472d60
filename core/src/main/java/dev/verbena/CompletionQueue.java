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

    // Under the gate: who a completion's slot stands for, and how often each slot was given out.
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
        } catch (RuntimeException e) {
            abandon();
            throw e;
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
        if (!gate.enter()) {
            throw new IllegalStateException(this + " is closed");
        }
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
            throw VerbenaException.of(
                    "ibv_poll_cq", count, "The queue may have been overrun: make it deeper.");
        }
        return completions.size();
    }

    /**
     * Enters a queue pair in the table and returns its slot and generation, as {@link WorkId#queue}
     * takes them.
     */
    long attach(QueuePair queuePair, boolean receive) {
        if (!gate.enter()) {
            throw new IllegalStateException(this + " is closed");
        }
        try {
            int slot = 0;
            while (slot < queuePairs.length && queuePairs[slot] != null) {
                slot++;
            }
            if (slot == WorkId.SLOTS) {
                throw new VerbenaException(
                        Status.INSUFFICIENT_RESOURCES,
                        "One completion queue serves %d queues at most".formatted(WorkId.SLOTS));
            }
            if (slot == queuePairs.length) {
                queuePairs = Arrays.copyOf(queuePairs, 2 * slot);
                generations = Arrays.copyOf(generations, 2 * slot);
            }
            queuePairs[slot] = queuePair;
            return WorkId.queue(slot, generations[slot]++, receive);
        } finally {
            gate.leave();
        }
    }

    void detach(long queue) {
        // The gate may be shut: the owner closed this queue before its queue pairs. Then nobody
        // polls.
        if (gate.enter()) {
            queuePairs[WorkId.slot(queue)] = null;
            gate.leave();
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
