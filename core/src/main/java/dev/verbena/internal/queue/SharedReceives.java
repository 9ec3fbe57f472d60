package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.ReceiveRequest;

import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The receives in one shared receive queue. They end in any order, on the completion queues of any
 * queue pairs, so each has a place of its own instead of a sequence number.
 */
public final class SharedReceives implements Credit {
    private final long queue;
    private final long address;
    private final int depth;
    private final ReceiveRequest request;
    private final Object domain;
    private final int maxBuffers;
    private final QueueLock lock = new QueueLock(null);

    // Guarded by the lock.
    private final long[] contexts;
    private final int[] free;
    private int freeCount;
    private int undelivered;
    private int threshold; // 0 for none
    private Runnable ranLow = () -> {};

    // Written with the lock, read without.
    private final AtomicLong posted = new AtomicLong();
    private final RequestCounts counts = new RequestCounts();

    /**
     * Makes an empty one.
     *
     * @param queue what its ids begin with
     * @param address of the {@code ibv_srq}
     * @param depth how many receives may be posted
     * @param request where they are built
     * @param domain the queue's protection domain, only compared
     * @param maxBuffers how many buffers a receive may name
     */
    public SharedReceives(
            long queue,
            long address,
            int depth,
            ReceiveRequest request,
            Object domain,
            int maxBuffers) {
        this.domain = domain;
        this.maxBuffers = maxBuffers;
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
        counts.prepare();
    }

    /**
     * Posts a receive.
     *
     * @param context the caller's context
     * @param buffers where the message goes
     * @return {@link Refusal#NONE}, a positive errno, or a {@link Refusal#code}
     */
    public int post(long context, Buffers buffers) {
        if (!lock.acquire()) {
            return Refusal.NOT_CONNECTED.code();
        }
        try {
            int count = buffers.size(); // once: see Buffers
            int refusal = ReceiveQueue.check(buffers, count, maxBuffers, domain);
            if (refusal != Refusal.NONE) {
                return refusal;
            }
            if (undelivered == depth) {
                return Refusal.FULL.code();
            }
            int place = free[--freeCount];
            contexts[place] = context;
            int answer =
                    request.postShared(address, WorkId.of(queue, place), buffers.address(), count);
            if (answer != 0) {
                free[freeCount++] = place;
                return answer;
            }
            undelivered++;
            posted.setOpaque(posted.getPlain() + 1);
            return Refusal.NONE;
        } finally {
            lock.release();
            Reference.reachabilityFence(buffers);
        }
    }

    /**
     * How many receives wait for a message, as far as is known: the completions of some may not
     * have been polled yet.
     *
     * @return 0 to the depth, or 0 when it is shut
     */
    public int outstanding() {
        if (!lock.acquire()) {
            return 0;
        }
        int outstanding = depth - freeCount;
        lock.release();
        return outstanding;
    }

    /**
     * How many receives were accepted since it was made.
     *
     * @return as of a moment ago
     */
    public long posted() {
        return posted.getOpaque();
    }

    /**
     * What is counted of its posts beside that: refusals.
     *
     * @return always the same
     */
    public RequestCounts counts() {
        return counts;
    }

    /**
     * Calls back, once, when a polled completion leaves fewer receives than that. The device's own
     * event comes only with the next message that takes one, of which there may be none.
     *
     * @param receives how many; replaces the number of the call before
     * @param callback must not block, nor call this object
     */
    public void notifyBelow(int receives, Runnable callback) {
        if (lock.acquire()) {
            threshold = receives;
            ranLow = callback;
            lock.release();
        }
    }

    /** Refuses posts from now on. */
    public void close() {
        lock.close();
    }

    /** A receive has ended. */
    long take(int place) {
        if (!lock.acquire()) {
            return contexts[place]; // closed; its completion is delivered all the same
        }
        long context = contexts[place];
        free[freeCount++] = place;
        lock.release();
        return context;
    }

    private void callBack(int asked) {
        try {
            ranLow.run();
        } catch (OutOfMemoryError e) { // a completion is not lost for that: the next one tries
            if (lock.acquire()) {
                threshold = asked;
                lock.release();
            }
        }
    }

    long queue() {
        return queue;
    }

    @Override
    public void delivered() {
        if (!lock.acquire()) {
            return;
        }
        undelivered--;
        int asked = threshold;
        boolean low = depth - freeCount < asked;
        if (low) {
            threshold = 0;
        }
        lock.release();
        if (low) {
            callBack(asked);
        }
    }
}
