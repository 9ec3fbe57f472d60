package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.RequestCounters;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.ReceiveRequest;

import org.jspecify.annotations.Nullable;

import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntSupplier;

/**
 * The receives in one shared receive queue. They complete in any order, on the completion queues of
 * any queue pairs, so each occupies a slot until it completes. Its sequence number has the slot in
 * its lower bits; the rest counts how often the slot was used. So a receive that the provider
 * refused, but may have kept, does not complete in the name of a later one.
 */
public final class SharedReceives {
    private static final int SLOTS = 1 << 16; // more than any queue has, so a slot stays the same

    /** Of one receive, until its completion is delivered. */
    final class Slot extends KeptCompletion implements Credit {
        private final int index;
        private @Nullable Endpoint endpoint; // that used the receive, while its completion is kept

        private Slot(int index) {
            this.index = index;
        }

        @Override
        public KeptCompletion keep() {
            return this;
        }

        @Override
        void put(Endpoint endpoint, long context, long kind, int tokenOrImmediate) {
            this.endpoint = endpoint;
            super.put(endpoint, context, kind, tokenOrImmediate);
        }

        @Override
        Endpoint endpoint() {
            return Objects.requireNonNull(endpoint);
        }

        @Override
        void drop() {
            endpoint = null; // keeps no object of a queue pair that may be closed
            super.drop();
        }

        @Override
        public void delivered() {
            SharedReceives.this.delivered(index);
        }
    }

    private final long queue;
    private final long address;
    private final ReceiveRequest request;
    private final Domain domain;
    private final int maxBuffers;
    private final QueueLock lock = new QueueLock(null);

    // Guarded by the lock.
    private Slot[] slots = {}; // as many as the greatest depth so far
    private int[] sequences = {}; // of the receive in each slot, or of the next one there
    private int[] free = {};
    private int freeCount;
    private int waiting; // for a message, as far as is known
    private int threshold; // 0 for none
    private Runnable ranLow = () -> {};

    // Written with the lock, read without.
    private volatile int depth;
    private final AtomicLong posted = new AtomicLong();
    private final RequestCounts counts = new RequestCounts();

    /**
     * Makes an empty one.
     *
     * @param depth how many receives may be posted
     * @param domain the queue's protection domain
     * @param maxBuffers how many buffers a receive may name
     */
    public SharedReceives(
            long queue,
            long address,
            int depth,
            ReceiveRequest request,
            Domain domain,
            int maxBuffers) {
        this.domain = domain;
        this.maxBuffers = maxBuffers;
        this.queue = queue;
        this.address = address;
        this.request = request;
        addSlots(depth);
        this.depth = depth;
    }

    private void addSlots(int count) {
        int before = slots.length;
        Slot[] longer = Arrays.copyOf(slots, before + count);
        for (int slot = before; slot < longer.length; slot++) {
            longer[slot] = new Slot(slot);
        }
        int[] longerSequences = Arrays.copyOf(sequences, before + count);
        free = Arrays.copyOf(free, before + count);
        slots = longer;
        sequences = longerSequences;
        for (int slot = before + count - 1; slot >= before; slot--) {
            sequences[slot] = slot;
            free[freeCount++] = slot;
        }
    }

    private int undelivered() {
        return slots.length - freeCount;
    }

    public int depth() {
        return depth;
    }

    /**
     * Changes how many receives may be posted. Posts wait meanwhile: in kernels from before
     * November 2025, a Soft-RoCE queue that has more posted than the new depth crashes the kernel.
     *
     * @param modify resizes the native queue; returns 0 or a negative errno
     * @return what {@code modify} returned; or, without calling it, how many receives are posted if
     *     they are more than the new depth
     */
    public int resize(int newDepth, IntSupplier modify) {
        if (!lock.acquire()) {
            throw new VerbenaException(
                    Status.CONNECTION_INVALID,
                    "A shared receive queue that refuses receives cannot be resized: create another one");
        }
        try {
            if (undelivered() > newDepth) {
                return undelivered();
            }
            addSlots(Math.max(0, newDepth - slots.length));
            int answer = modify.getAsInt();
            if (answer == 0) {
                depth = newDepth;
            }
            return answer;
        } finally {
            lock.release();
        }
    }

    /** The address of the {@code ibv_srq}. */
    public long address() {
        return address;
    }

    public PostResult post(long context, Buffers buffers) {
        QueueLock.checkStack();
        if (!lock.acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        try {
            int count = buffers.size(); // once: see Buffers
            PostResult refusal = ReceiveQueue.check(buffers, count, maxBuffers, domain);
            if (refusal != PostResult.ACCEPTED) {
                return refusal;
            }
            if (undelivered() >= depth) {
                return PostResult.FULL;
            }
            int slot = free[freeCount - 1];
            int sequence = sequences[slot];
            sequences[slot] = sequence + SLOTS; // until it is posted for certain
            slots[slot].context = context;
            int answer =
                    request.postShared(
                            address, WorkId.of(queue, sequence), buffers.address(), count);
            if (answer != 0) {
                return PostResult.ofErrno(answer);
            }
            sequences[slot] = sequence;
            freeCount--;
            waiting++;
            posted.setOpaque(posted.getPlain() + 1);
            return PostResult.ACCEPTED;
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
        int outstanding = waiting;
        lock.release();
        return outstanding;
    }

    public RequestCounters counters() {
        RequestCounters refusals = counts.counters(null); // it counts nothing else
        int outstanding = outstanding();
        return new RequestCounters(
                posted.getOpaque(),
                outstanding,
                0,
                0,
                refusals.refused(),
                refusals.refusedAsFull(),
                refusals.refusedByProvider(),
                0,
                0);
    }

    public void refused(PostResult result) {
        counts.refused(result);
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

    public void close() {
        lock.close();
    }

    /**
     * A receive has completed.
     *
     * @return its slot; null for one that was refused, and that the provider kept all the same: its
     *     completion is dropped
     */
    @Nullable Slot take(int sequence) {
        boolean open = lock.acquire(); // once closed, completions are delivered all the same
        int slot = sequence & SLOTS - 1;
        Slot taken = slot < slots.length && sequences[slot] == sequence ? slots[slot] : null;
        if (taken != null) {
            sequences[slot] = sequence + SLOTS;
            waiting--;
        }
        if (open) {
            lock.release();
        }
        return taken;
    }

    @SuppressWarnings("ReferenceEquality") // the callback that was asked for, or a later one
    private void callBack(int asked, Runnable callback) {
        try {
            callback.run();
        } catch (VirtualMachineError e) { // a completion is not lost for that: the next one tries
            if (lock.acquire()) {
                if (threshold == 0 && ranLow == callback) {
                    threshold = asked;
                }
                lock.release();
            }
        }
    }

    long queue() {
        return queue;
    }

    private void delivered(int slot) {
        if (!lock.acquire()) {
            return;
        }
        free[freeCount++] = slot;
        int asked = threshold;
        boolean low = waiting < asked;
        Runnable callback = ranLow; // with the lock: a later request replaces it
        if (low) {
            threshold = 0;
        }
        lock.release();
        if (low) {
            callBack(asked, callback);
        }
    }
}
