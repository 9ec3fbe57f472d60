package dev.verbena.internal.verbs;

import dev.verbena.AdapterEvent;
import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_qp_attr;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * Queue pairs and shared receive queues of a {@link FakeDevice}: their states, and how they end.
 * The caller holds the device's monitor.
 */
final class FakeQueuePairs {
    private static final int FLUSHED = 5;

    // What steps of a reliable connection need: qp_state_table of the kernel.
    private static final int TO_INIT =
            Verbs.IBV_QP_PKEY_INDEX | Verbs.IBV_QP_PORT | Verbs.IBV_QP_ACCESS_FLAGS;
    private static final int TO_RECEIVE =
            Verbs.IBV_QP_AV
                    | Verbs.IBV_QP_PATH_MTU
                    | Verbs.IBV_QP_DEST_QPN
                    | Verbs.IBV_QP_RQ_PSN
                    | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                    | Verbs.IBV_QP_MIN_RNR_TIMER;
    private static final int TO_SEND =
            Verbs.IBV_QP_TIMEOUT
                    | Verbs.IBV_QP_RETRY_CNT
                    | Verbs.IBV_QP_RNR_RETRY
                    | Verbs.IBV_QP_SQ_PSN
                    | Verbs.IBV_QP_MAX_QP_RD_ATOMIC;

    enum State {
        RESET,
        INIT,
        RTR,
        RTS,
        ERR
    }

    /** A send or receive queue: its sizes, and what is in it. */
    static final class WorkQueue {
        private int depth;
        private final int buffers;
        private final int inlineBytes;
        final Deque<PostedRequest> posted = new ArrayDeque<>(); // not carried out yet
        private final Deque<Long> slots = new ArrayDeque<>(); // ids; none was polled

        WorkQueue(int depth, int buffers, int inlineBytes) {
            this.depth = depth;
            this.buffers = buffers;
            this.inlineBytes = inlineBytes;
        }

        /** What a provider answers to a request: as rxe's does. */
        int refusal(PostedRequest request) {
            if (request.bufferCount() > buffers || request.inline().length > inlineBytes) {
                return Errno.EINVAL;
            }
            return slots.size() < depth ? 0 : Errno.ENOMEM;
        }

        void add(long id, PostedRequest request) {
            posted.add(request);
            slots.add(id);
        }

        /** A completion was polled, which frees the slots of requests before it, too. */
        private void freeUpTo(long id) {
            if (slots.contains(id)) {
                while (slots.remove() != id) {
                    continue;
                }
            }
        }
    }

    /** One queue pair. */
    static final class QueuePair {
        final long address;
        final int number;
        final FakeCompletionQueues.Queue sendCq;
        final FakeCompletionQueues.Queue receiveCq;
        final long srq;
        State state = State.RESET;
        int peer;
        int rights; // that it gives its peer
        int pollsToFlush; // until what is outstanding in the error state is flushed
        final WorkQueue sends;
        final WorkQueue receives;
        final Deque<Long> unacknowledged = new ArrayDeque<>(); // ids, carried out
        final Deque<PostedRequest> taken = new ArrayDeque<>(); // shared receives, not ended yet

        QueuePair(
                long address,
                int number,
                QueuePairShape shape,
                FakeCompletionQueues.Queue sendCq,
                FakeCompletionQueues.Queue receiveCq,
                long srq) {
            this.address = address;
            this.number = number;
            this.sends = new WorkQueue(shape.sendDepth(), shape.sendSge(), shape.inlineBytes());
            this.receives = new WorkQueue(shape.receiveDepth(), shape.receiveSge(), 0);
            this.sendCq = sendCq;
            this.receiveCq = receiveCq;
            this.srq = srq;
        }

        boolean uses(FakeCompletionQueues.Queue queue) {
            return sendCq == queue || receiveCq == queue;
        }
    }

    private static final int FIRST_NUMBER = 100;
    private static final int MOST_NUMBER = (1 << 24) - 1; // as of a device

    private final FakeSettings settings;
    private final FakeObjects objects;
    private final FakeCompletionQueues completions;
    private final FakeMemory memory;
    private final FakeAsyncEvents events;
    private final Map<Long, QueuePair> pairs = new HashMap<>();
    private final Map<Integer, QueuePair> byNumber = new HashMap<>();
    private final Map<Long, WorkQueue> shared = new HashMap<>();
    private int lastNumber = FIRST_NUMBER - 1;

    FakeQueuePairs(
            FakeSettings settings,
            FakeObjects objects,
            FakeCompletionQueues completions,
            FakeMemory memory,
            FakeAsyncEvents events) {
        this.settings = settings;
        this.objects = objects;
        this.completions = completions;
        this.memory = memory;
        this.events = events;
    }

    int count() {
        return pairs.size() + shared.size();
    }

    Collection<QueuePair> all() {
        return pairs.values();
    }

    QueuePair find(long qp) {
        return pairs.get(qp);
    }

    QueuePair byNumber(int number) {
        return byNumber.get(number);
    }

    /** Whether a queue pair answers its peer. One that this device never had is elsewhere. */
    boolean answers(int number) {
        QueuePair pair = byNumber.get(number);
        return pair == null
                ? number < FIRST_NUMBER || number > lastNumber
                : pair.state == State.RTR || pair.state == State.RTS;
    }

    int lastNumber() {
        return lastNumber;
    }

    private int nextNumber() {
        do {
            lastNumber = lastNumber < MOST_NUMBER ? lastNumber + 1 : FIRST_NUMBER;
        } while (byNumber.containsKey(lastNumber));
        return lastNumber;
    }

    long lastShared() {
        return shared.keySet().stream().mapToLong(Long::longValue).max().orElse(0);
    }

    WorkQueue shared(long srq) {
        return shared.get(srq);
    }

    /** Where a queue pair takes its receives from. */
    WorkQueue receivesOf(QueuePair pair) {
        return pair.srq != 0 ? shared.get(pair.srq) : pair.receives;
    }

    /** A completion was polled. */
    void free(long id) {
        for (QueuePair pair : all()) {
            pair.sends.freeUpTo(id);
            pair.receives.freeUpTo(id);
        }
        freeShared(id);
    }

    /** Shared receives complete in any order. */
    private void freeShared(long id) {
        shared.values().forEach(queue -> queue.slots.remove(id));
    }

    // ---- shared receive queues

    long createShared(long pd, int depth, int buffers) {
        long address = settings.sharedQueues ? objects.madeIn(pd) : -Errno.ENOSYS;
        if (address > 0) {
            shared.put(address, new WorkQueue(depth, buffers, 0));
        }
        return address;
    }

    int resizeShared(long srq, int depth) {
        WorkQueue queue = shared.get(srq);
        if (queue.posted.size() > depth) {
            settings.panics.add("a shared receive queue was resized below what is posted");
        }
        if (!settings.srqLimits.isEmpty() && settings.srqLimits.getLast() > depth) {
            return -Errno.EINVAL;
        }
        if (settings.sharedResizeError == 0) {
            queue.depth = depth;
        }
        return -settings.sharedResizeError;
    }

    int destroyShared(long srq) {
        return !settings.gone && all().stream().anyMatch(q -> q.srq == srq)
                ? -Errno.EBUSY
                : objects.destroy("ibv_destroy_srq", shared, srq);
    }

    // ---- queue pairs

    long create(long pd, long sendCq, long receiveCq, long srq, QueuePairShape shape) {
        boolean fits =
                shape.sendDepth() <= settings.maxDepth
                        && shape.receiveDepth() <= settings.maxDepth
                        && shape.sendSge() <= settings.maxSge
                        && shape.receiveSge() <= settings.maxSge
                        && shape.inlineBytes() <= settings.maxInline
                        && (long) shape.sendDepth() * shape.sendSge() <= settings.maxProduct;
        long address = fits ? objects.madeIn(pd) : -Errno.EINVAL;
        if (address > 0) {
            QueuePair pair =
                    new QueuePair(
                            address,
                            nextNumber(),
                            shape,
                            completions.find(sendCq),
                            completions.find(receiveCq),
                            srq);
            pairs.put(address, pair);
            byNumber.put(pair.number, pair);
        }
        return address;
    }

    int toInit(long qp, int rights) {
        QueuePair pair = pairs.get(qp);
        if (settings.initError != 0 || pair.state != State.RESET) {
            return settings.initError != 0 ? -settings.initError : -Errno.EINVAL;
        }
        pair.state = State.INIT;
        pair.rights = rights;
        return 0;
    }

    int change(long qp, StateChange change) {
        settings.changes.add(FakeDevice.copyOf(change));
        if (settings.reachError != 0 && change.state() == StateChange.READY_TO_RECEIVE) {
            return -settings.reachError;
        }
        if (settings.changeError != 0
                && (settings.changeErrorAt == 0 || settings.changeErrorAt == change.state())) {
            int error = settings.changeError;
            settings.changeError = 0;
            return -error;
        }
        QueuePair pair = pairs.get(qp);
        State to =
                switch (change.state()) {
                    case StateChange.INITIALIZED -> State.INIT;
                    case StateChange.READY_TO_RECEIVE -> State.RTR;
                    default -> State.RTS;
                };
        if (!takes(pair.state, to, change.mask())) {
            return -Errno.EINVAL;
        }
        pair.state = to;
        if (to == State.RTR) {
            pair.peer = ibv_qp_attr.dest_qp_num(FakeDevice.structOf(change));
        }
        if ((change.mask() & Verbs.IBV_QP_ACCESS_FLAGS) != 0) {
            pair.rights = change.get(StateChange.Attribute.ACCESS);
        }
        settings.lastRnrUnlimited = change.get(StateChange.Attribute.RNR_RETRIES) == 7;
        return 0;
    }

    /** As ib_modify_qp_is_ok of the kernel, which also refuses attributes that a step has not. */
    private static boolean takes(State from, State to, int mask) {
        return switch (to) {
            case INIT -> from == State.INIT && has(mask, 0, TO_INIT);
            case RTR ->
                    from == State.INIT
                            && has(
                                    mask,
                                    TO_RECEIVE,
                                    Verbs.IBV_QP_ACCESS_FLAGS | Verbs.IBV_QP_PKEY_INDEX);
            default ->
                    from == State.RTR
                            && has(
                                    mask,
                                    TO_SEND,
                                    Verbs.IBV_QP_ACCESS_FLAGS | Verbs.IBV_QP_MIN_RNR_TIMER);
        };
    }

    private static boolean has(int mask, int required, int optional) {
        return (mask & ~optional) == (required | Verbs.IBV_QP_STATE);
    }

    /** {@code ibv_modify_qp} to the error state. */
    int fail(long qp) {
        settings.errorsAskedFor++;
        int error = settings.gone ? Errno.EIO : settings.errorStepError;
        if (error != 0) {
            return -error;
        }
        if (pairs.get(qp).state == State.RESET) {
            return -Errno.EINVAL;
        }
        fail(pairs.get(qp));
        return 0;
    }

    boolean inError(long qp) {
        return pairs.get(qp).state == State.ERR;
    }

    int destroy(long qp) {
        QueuePair removed = pairs.get(qp);
        int refusal = objects.destroy("ibv_destroy_qp", pairs, qp);
        if (refusal != 0) {
            return refusal;
        }
        memory.release(qp);
        byNumber.remove(removed.number);
        if (settings.vendorId == FakeSettings.MELLANOX) {
            FakeCompletionQueues.clean(removed.sendCq, removed.number, this::freeShared);
            FakeCompletionQueues.clean(removed.receiveCq, removed.number, this::freeShared);
        }
        int error = settings.destroyError;
        settings.destroyError = 0;
        return -error;
    }

    // ---- how requests end without being carried out

    /** Moves a queue pair to the error state, which flushes what is outstanding. */
    void fail(QueuePair pair) {
        if (pair.state != State.ERR) {
            pair.pollsToFlush = settings.pollsToFlush;
        }
        pair.state = State.ERR;
        settings.notifyAll();
        acknowledge(pair);
        if (settings.forgetful) {
            forget(pair);
        }
        if (pair.pollsToFlush == 0) {
            flush(pair);
        } else {
            settings.flusher.execute(() -> flushIfDue(pair));
        }
    }

    private void flushIfDue(QueuePair pair) {
        synchronized (settings) {
            if (pair.pollsToFlush > 0 && byNumber.get(pair.number) == pair) {
                flush(pair);
            }
        }
    }

    /** Flushes what was outstanding when a queue pair came to the error state. */
    void flush(QueuePair pair) {
        pair.pollsToFlush = 0;
        flushSends(pair);
        flushReceives(pair);
        if (pair.srq != 0
                && settings.vendorId == FakeSettings.MELLANOX
                && settings.lastReceive == FakeSettings.LastReceive.AT_ONCE) {
            endTaken(pair);
        }
    }

    /** Completes what was carried out. */
    void acknowledge(QueuePair pair) {
        while (!pair.unacknowledged.isEmpty()) {
            end(pair.sendCq, pair.unacknowledged.remove(), 0, pair);
        }
    }

    /** Loses what is outstanding, without a completion. */
    static void forget(QueuePair pair) {
        pair.sends.posted.clear();
        pair.receives.posted.clear();
    }

    /** The oldest receive of a queue pair fails, and with it the queue pair. */
    void failReceive(QueuePair pair, int status) {
        Deque<PostedRequest> from = pair.taken.isEmpty() ? receivesOf(pair).posted : pair.taken;
        long id = from.remove().receiveId();
        end(pair.receiveCq, id, status, pair);
        fail(pair);
    }

    /** Ends the shared receives that a queue pair took, and says so. */
    void endTaken(QueuePair pair) {
        flushReceives(pair.taken, pair);
        events.raise(AdapterEvent.Type.LAST_RECEIVE_REACHED, pair.address);
    }

    /** A completion queue is polled: some flushes are due. */
    void polled() {
        for (QueuePair pair : all()) {
            if (pair.pollsToFlush > 0 && --pair.pollsToFlush == 0) {
                flush(pair);
            }
        }
    }

    void flushSends(QueuePair pair) {
        while (!pair.sends.posted.isEmpty()) {
            end(pair.sendCq, pair.sends.posted.remove().id(), FLUSHED, pair);
        }
    }

    void flushReceives(QueuePair pair) {
        flushReceives(pair.receives.posted, pair);
    }

    private void flushReceives(Deque<PostedRequest> receives, QueuePair pair) {
        while (!receives.isEmpty()) {
            end(pair.receiveCq, receives.remove().receiveId(), FLUSHED, pair);
        }
    }

    /** Queues a completion that says no more than how a request ended. */
    void end(FakeCompletionQueues.Queue queue, long id, int status, QueuePair pair) {
        completions.add(queue, FakeCompletionQueues.Entry.ended(id, status, pair.number), false);
    }
}
