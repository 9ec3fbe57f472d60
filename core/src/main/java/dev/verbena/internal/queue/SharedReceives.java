package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.ReceiveRequest;

/**
 * The receives in one shared receive queue. They end in any order, on the completion queues of any
 * queue pairs, so each has a place of its own instead of a sequence number.
 */
public final class SharedReceives implements Credit {
    private final long queue;
    private final long address;
    private final int depth;
    private final ReceiveRequest request;
    private final Gate gate = new Gate();

    // All of these under the gate.
    private final long[] contexts;
    private final int[] free;
    private int freeCount;
    private int untold;

    /**
     * Makes an empty one.
     *
     * @param queue what its ids begin with
     * @param address of the {@code ibv_srq}
     * @param depth how many receives may be posted
     * @param request where they are built
     */
    public SharedReceives(long queue, long address, int depth, ReceiveRequest request) {
        this.queue = queue;
        this.address = address;
        this.depth = depth;
        this.request = request;
        this.contexts = new long[depth];
        this.free = new int[depth];
        for (int i = 0; i < depth; i++) {
            free[i] = depth - 1 - i;
        }
        this.freeCount = depth;
    }

    /**
     * Posts a receive.
     *
     * @param context the caller's context
     * @param sges the address of the buffers' list
     * @param count how many buffers
     * @return {@link Refusal#NONE} or why not
     */
    public int post(long context, long sges, int count) {
        if (!gate.enter()) {
            return Refusal.NOT_CONNECTED;
        }
        try {
            if (untold == depth) {
                return Refusal.FULL;
            }
            int place = free[--freeCount];
            contexts[place] = context;
            int answer = request.postShared(address, WorkId.of(queue, place), sges, count);
            if (answer != 0) {
                free[freeCount++] = place;
                return answer;
            }
            untold++;
            return Refusal.NONE;
        } finally {
            gate.leave();
        }
    }

    /**
     * How many receives wait for a message, as far as is known: the completions of some may not
     * have been polled yet.
     *
     * @return 0 to the depth, or 0 when it is shut
     */
    public int outstanding() {
        if (!gate.enter()) {
            return 0;
        }
        int outstanding = depth - freeCount;
        gate.leave();
        return outstanding;
    }

    /** Lets nobody in any more. */
    public void shut() {
        gate.shut();
    }

    /** A receive has ended. */
    long take(int place) {
        if (!gate.enter()) {
            return contexts[place]; // closed; its completion is told all the same
        }
        long context = contexts[place];
        free[freeCount++] = place;
        gate.leave();
        return context;
    }

    long queue() {
        return queue;
    }

    @Override
    public void told() {
        if (gate.enter()) {
            untold--;
            gate.leave();
        }
    }
}
