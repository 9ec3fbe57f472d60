package dev.verbena.internal.queue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * The requests under way on one queue, oldest first: their contexts, and how many more may be
 * posted.
 *
 * <p>One side adds (under the queue's gate), another retires (under the completion queue's gate);
 * each counter has one writer.
 */
public final class RequestFifo {
    private static final VarHandle RETIRED;

    static {
        try {
            RETIRED = MethodHandles.lookup().findVarHandle(RequestFifo.class, "retired", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final int depth;
    private final int mask;
    private final long[] contexts;
    private int added;
    private int retired; // sequence numbers wrap around; only differences are looked at

    /**
     * Makes an empty one.
     *
     * @param depth how many requests may be under way
     */
    public RequestFifo(int depth) {
        this.depth = depth;
        int slots = depth <= 1 ? 1 : Integer.highestOneBit(depth - 1) << 1;
        this.contexts = new long[slots];
        this.mask = slots - 1;
    }

    /**
     * Whether no request may be added.
     *
     * @return true when as many are under way as the queue is deep
     */
    public boolean full() {
        return added - (int) RETIRED.getAcquire(this) >= depth;
    }

    /**
     * Adds a request; not when {@link #full}.
     *
     * @param context the caller's context
     * @return the request's sequence number, for {@link #context} and {@link #retire}
     */
    public int add(long context) {
        contexts[added & mask] = context;
        return added++;
    }

    /** Takes back what was added last: the provider refused it. */
    public void takeBack() {
        added--;
    }

    /**
     * The context of a request that has completed.
     *
     * @param sequence what {@link #add} gave
     * @return the caller's context
     */
    public long context(int sequence) {
        return contexts[sequence & mask];
    }

    /**
     * Retires a request and all before it: on one queue, completions come in posting order.
     *
     * @param sequence what {@link #add} gave
     */
    public void retire(int sequence) {
        RETIRED.setRelease(this, sequence + 1);
    }
}
