package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.SendChains;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

/**
 * Polls one completion queue. For each completion that {@code ibv_poll_cq} returns it finds the
 * request ({@link QueueRegistry}, {@link RequestLedger}), retires it with all before it, drops what
 * was signaled for this library's sake only, and delivers the rest after what has to be synthesized
 * before it ({@link Delivery}).
 *
 * <p>This library polls on its own, too: to free slots of silent requests, to see what is there
 * when the queue is armed, and to save what a queue pair leaves behind. What it finds is kept, and
 * delivered first.
 */
public final class CompletionPoller {
    /**
     * A native completion queue is deeper by this factor, for the internal signals of silent
     * requests: there are never more of them than requests.
     */
    public static final int DEPTH_FACTOR = 2;

    /** No slot: {@link #reserve} returns others. */
    static final long NO_SLOT = -1;

    private static final int BATCH = 64;

    /** What the poller reports to the completion queue's events. */
    public interface Listener {
        /** There are completions for which the device raises no event. Called without a lock. */
        void synthesized();

        /** The owner of a confined queue has something to do, and may be waiting. */
        void wakeOwner();
    }

    private final VerbsContext context;
    private final Provider provider;
    private final SharedQueues sharedQueues;
    private final long address;
    private final Listener listener;
    private final QueueLock lock;
    private final OwnerTasks ownerTasks;

    // Guarded by the lock, as what they refer to is.
    private final WorkCompletions raw = new WorkCompletions(BATCH);
    private final QueueRegistry registry = new QueueRegistry();
    private final Delivery delivery;
    // The completions in raw that were polled and not taken yet. Some remain when something was
    // thrown.
    private int next;
    private int end;
    private boolean unsettled; // something is kept, synthesized or left: no short poll
    // The ledger of the last completion, and so perhaps of the next: the processor can read it
    // without waiting for the id that the provider has just written.
    private @Nullable RequestLedger guess;

    // Read without the lock.
    private volatile boolean attention; // a queue pair has failed, or the owner has tasks
    private volatile boolean broken;
    private final CompletionCounts counts = new CompletionCounts();
    private final SendChains.@Nullable Shared sharedChain; // null unless it is confined
    private volatile @Nullable SendLimits sharedLimits; // that were asked for last

    /**
     * Makes a poller.
     *
     * @param owner the thread that the queue is confined to, or null
     */
    public CompletionPoller(
            QueueDevice device, long address, @Nullable Thread owner, Listener listener) {
        this.context = device.context();
        this.provider = device.provider();
        this.sharedQueues = device.sharedQueues();
        this.address = address;
        this.listener = listener;
        this.lock = new QueueLock(owner);
        this.sharedChain = owner == null ? null : new SendChains.Shared();
        this.ownerTasks = new OwnerTasks(lock, this::callOwner);
        this.delivery = new Delivery(provider, counts);
    }

    // ---- queues that report here

    /**
     * Takes a slot for one queue. Until {@link #enter}, completions of it are dropped.
     *
     * @return the upper half of its requests' {@link WorkId}
     */
    public long reserve(boolean receive) {
        if (!lock.acquire()) {
            throw new IllegalStateException("The completion queue is closed");
        }
        try {
            delivery.ensureCapacity(registry.capacity() + 1);
            long queue = registry.reserve(receive);
            if (queue == NO_SLOT) {
                throw new VerbenaException(
                        Status.INSUFFICIENT_RESOURCES,
                        "A completion queue serves at most 65536 send and receive queues: create another one");
            }
            return queue;
        } finally {
            lock.release();
        }
    }

    /** Delivers completions of a queue from now on. */
    public void enter(RequestLedger ledger) {
        lock.run(() -> registry.enter(ledger));
    }

    /**
     * Gives a slot back; what the device reports for it later is dropped. The owner of a confined
     * queue does so when it polls next.
     */
    public void release(long queue) {
        changeByOwner(
                () -> {
                    registry.release(queue);
                    guess = null;
                });
    }

    /** Delivers receives of shared receive queues that a queue pair used up, or no more of them. */
    public void share(int queuePairNumber, Endpoint endpoint, boolean shares) {
        changeByOwner(
                () -> {
                    if (shares) {
                        registry.share(queuePairNumber, endpoint);
                    } else {
                        registry.unshare(queuePairNumber, endpoint);
                    }
                });
    }

    /**
     * Runs a change under the lock, unless the queue is closed: then nobody polls. A queue may be
     * closed before its queue pairs.
     */
    private void changeByOwner(Runnable change) {
        ownerTasks.runByOwner(() -> lock.run(change));
    }

    // ---- threads

    /** The lock of this queue, whose owner is the thread that the queue is confined to. */
    public QueueLock lock() {
        return lock;
    }

    /**
     * Limits equal to these: the same object for each queue pair that is made as the one before, so
     * that it stays in the processor's cache however many there are. Queue pairs of other threads
     * have their own, because it may share a cache line with what the thread that made it writes.
     */
    SendLimits shared(SendLimits made) {
        SendLimits last = sharedLimits;
        if (last != null && last.equals(made)) {
            return last;
        }
        sharedLimits = made;
        return made;
    }

    /** The chain that queue pairs of the owner share; null unless this queue is confined. */
    public SendChains.@Nullable Shared sharedChain() {
        return sharedChain;
    }

    /** What other threads want of the owner of this confined queue. */
    public OwnerTasks ownerTasks() {
        return ownerTasks;
    }

    private void callOwner() {
        attention = true;
        listener.wakeOwner();
    }

    /**
     * Closes the queue for posts and polls, after the thread in it has left. Shared receives that
     * have ended here, and that nobody polls any more, may be posted again; those that its queue
     * pairs use up later, when they are closed.
     */
    public void close() {
        try {
            var _ = drain();
            notifyFailed(new CompletionRecords(1)); // as a poll does, of which there is none
        } finally {
            lock.close();
            delivery.forget(); // last: until then, another thread may keep more of them
        }
    }

    // ---- polling

    /**
     * Delivers what is there.
     *
     * @param into where to; only as many come as fit
     * @return whether the queue is open; when it is broken, {@link #broken} says so
     */
    public boolean poll(CompletionRecords into) {
        QueueLock.checkStack();
        if (!lock.acquire()) {
            return false;
        }
        try {
            if (unsettled || !pollPlain(into)) {
                pollAll(into);
            }
        } finally {
            lock.release();
        }
        if (attention) {
            attend(into);
        }
        return true;
    }

    /** What a poll does after it has released the lock, seldom. */
    private void attend(CompletionRecords polled) {
        attention = false; // first: what comes meanwhile sets it again
        try {
            ownerTasks.runAll();
        } catch (RuntimeException | Error e) {
            if (polled.size() == 0) {
                throw e;
            }
            // In the next poll: the caller would not see what this one has polled.
            ownerTasks.add(() -> OwnerTasks.rethrow(e));
        }
        notifyFailed(polled);
    }

    /**
     * The short poll, enough for almost all: nothing is there, or plain successes of one queue.
     * Apart from the long one, which does the same and more, because what the JIT prepares for that
     * costs more than all there is to do here.
     */
    private boolean pollPlain(CompletionRecords into) {
        int asked = Math.min(into.remaining(), BATCH);
        int came = ask(asked);
        int plain =
                came > 0 && guess != null ? guess.deliverPlain(raw, 0, came, provider, into) : 0;
        if (plain < came) {
            next = plain;
            end = came;
            take(into);
        }
        return came < asked || into.remaining() == 0;
    }

    private void pollAll(CompletionRecords into) {
        delivery.moveTo(into);
        take(into);
        int asked = Math.min(into.remaining(), BATCH);
        while (asked > 0) {
            refill(asked);
            take(into);
            // Internal ones took no room.
            asked = end == asked ? Math.min(into.remaining(), BATCH) : 0;
        }
        delivery.synthesizeDue(into);
        noteUnsettled();
    }

    private void noteUnsettled() {
        if (delivery.anyFailed()) {
            attention = true;
        }
        unsettled = !delivery.isEmpty() || !delivery.nothingToSynthesize() || next < end;
    }

    /**
     * Polls the available completions and keeps them for the consumer.
     *
     * @return whether there were any
     */
    public boolean drain() {
        if (!lock.acquire()) {
            return false;
        }
        try {
            boolean any = next < end;
            take(null);
            do {
                refill(BATCH);
                take(null);
                any |= end > 0;
            } while (end == BATCH);
            delivery.synthesizeDue(null);
            return any;
        } finally {
            noteUnsettled();
            lock.release();
        }
    }

    /**
     * For the close of a queue pair: keeps the shared receives that it used up for the consumer, or
     * frees their slots if this queue is closed and not destroyed yet.
     */
    void drainShared() {
        if (!drainUnlessClosed()) {
            freeShared();
        }
    }

    private boolean drainUnlessClosed() {
        return drain() || lock.run(() -> {});
    }

    /**
     * Leaves all ledgers alone: the lock is closed, and posts use theirs without it. The monitor is
     * for queue pairs that are closed at the same time.
     */
    private synchronized void freeShared() {
        do {
            for (; next < end; next++) {
                long id = raw.id(next);
                SharedReceives.Slot receive = WorkId.isShared(id) ? takeShared(id) : null;
                if (receive != null) {
                    receive.delivered();
                }
            }
            refill(BATCH);
        } while (end > 0);
    }

    private int ask(int count) {
        int came = context.pollCq(address, count, raw);
        if (came < 0) {
            broken = true;
            return 0;
        }
        return came;
    }

    /** Polls again, after all completions were taken. */
    private void refill(int count) {
        next = 0;
        end = ask(count);
    }

    /**
     * Takes completions out of {@link #raw}.
     *
     * @param to the consumer's records, or null to keep them
     */
    private void take(@Nullable CompletionRecords to) {
        int came = end;
        int i = next;
        try {
            while (i < came) {
                long id = raw.id(i);
                if (WorkId.isShared(id)) {
                    takeShared(i++, id, to);
                    continue;
                }
                RequestLedger ledger = guess;
                if (ledger == null || !WorkId.belongsTo(id, ledger.queue())) {
                    ledger = registry.find(id);
                    if (ledger == null) {
                        i++; // a closed queue pair left it behind, and has reported it already
                        continue;
                    }
                    guess = ledger;
                }
                int plain =
                        to != null && delivery.takesPlain(to, came - i)
                                ? ledger.deliverPlain(raw, i, came, provider, to)
                                : 0;
                if (plain > 0) {
                    i += plain;
                } else {
                    delivery.synthesizeBefore(ledger, WorkId.sequence(id), to);
                    take(i++, ledger, WorkId.sequence(id), to);
                }
            }
        } finally { // also when something was thrown that nobody expects
            next = i;
            noteUnsettled();
        }
    }

    private void take(
            int index, RequestLedger ledger, int sequence, @Nullable CompletionRecords to) {
        boolean success = raw.status(index) == WorkCompletions.SUCCESS;
        boolean silent = ledger.silent(sequence);
        long requestContext = ledger.context(sequence);
        OperationType type = ledger.typeOf(sequence);
        if (ledger.end(sequence, success)) {
            delivery.deliver(raw, index, ledger.endpoint(), ledger, type, requestContext, to);
        } else if (success && silent) {
            counts.internalSignal();
            ledger.endpoint().sendCounts().internalSignal();
        }
    }

    private void takeShared(int index, long id, @Nullable CompletionRecords to) {
        SharedReceives.Slot receive = takeShared(id);
        if (receive == null) {
            return;
        }
        Endpoint endpoint = registry.sharing(raw.queuePairNumber(index));
        if (endpoint == null) {
            receive.delivered(); // of a closed queue pair, which has reported what it used up
            return;
        }
        endpoint.receiveCounts().sharedReceive();
        delivery.deliver(raw, index, endpoint, receive, OperationType.RECEIVE, receive.context, to);
    }

    /** Null if its queue is closed, or if it was refused and the provider kept it all the same. */
    private SharedReceives.@Nullable Slot takeShared(long id) {
        SharedReceives queue = sharedQueues.find(id);
        return queue == null ? null : queue.take(WorkId.sequence(id));
    }

    /**
     * Notifies queue pairs that they have failed. The consumer's thread does so, without a lock.
     *
     * @param polled what the consumer is about to see: an exception would keep it from that, so the
     *     next poll tries again
     */
    private void notifyFailed(CompletionRecords polled) {
        for (Endpoint endpoint = nextFailed(); endpoint != null; endpoint = nextFailed()) {
            try {
                endpoint.connectionFailed();
            } catch (Throwable t) {
                putBack(endpoint);
                if (polled.size() == 0) {
                    throw t;
                }
                return;
            }
        }
    }

    private @Nullable Endpoint nextFailed() {
        if (!lock.acquire()) {
            return null;
        }
        Endpoint next = delivery.nextFailed();
        lock.release();
        return next;
    }

    private void putBack(Endpoint endpoint) {
        if (lock.acquire()) {
            delivery.putBack(endpoint);
            attention = true;
            lock.release();
        }
    }

    // ---- synthesized completions

    void synthesize(RequestLedger ledger, int first, int last, int status) {
        if (lock.acquire()) {
            try {
                ledger.synthesize(first, last, status, WorkCompletions.FLUSHED);
                deliverSynthesized(ledger);
            } finally {
                lock.release();
            }
        }
    }

    /**
     * The provider refused requests without saying which, and may have kept any of them.
     * Completions of those that have not ended are synthesized, or suppressed for the last one, if
     * its caller learns that it was refused. Under one lock: another thread polls before or after.
     *
     * @param first the first request that may have been refused
     * @param lastIsAsking whether the last one's caller waits for the answer
     * @param status of the first
     * @return true when the last one, and so each of them, has ended already: none was refused
     */
    boolean refuse(RequestLedger ledger, int first, int last, boolean lastIsAsking, int status) {
        if (!lock.acquire()) {
            return false; // nobody polls any more
        }
        try {
            if (ledger.hasEnded(last)) {
                return true;
            }
            if (lastIsAsking) {
                ledger.suppress(last);
            }
            int lastSynthesized = lastIsAsking ? last - 1 : last;
            ledger.synthesize(first, lastSynthesized, status, WorkCompletions.FLUSHED);
            deliverSynthesized(ledger);
            return false;
        } finally {
            lock.release();
        }
    }

    /** No internal request follows: the synthesized completions wait for none. */
    void awaitNoInternal(RequestLedger ledger) {
        var _ =
                lock.run(
                        () -> {
                            ledger.awaitNoInternal();
                            deliverSynthesized(ledger);
                        });
    }

    private void deliverSynthesized(RequestLedger ledger) {
        delivery.synthesize(ledger);
        delivery.synthesizeDue(null);
        noteUnsettled();
    }

    /**
     * Polls until every request of a queue has ended, or the time is over; then synthesizes the
     * other completions. For a queue pair that is in the error state and takes no more requests.
     *
     * @param nanoseconds how long to wait for the device; not at all when this queue is {@link
     *     #broken}
     * @param rest the status of those that the device does not end; {@link CompletionStatus#LOST}
     *     when this queue is broken
     */
    public void finish(RequestLedger ledger, long nanoseconds, int rest) {
        long start = System.nanoTime();
        while (ledger.outstanding() > 0 && !broken && System.nanoTime() - start < nanoseconds) {
            if (!drainUnlessClosed()) {
                break; // closed: nothing will come
            }
            Thread.onSpinWait();
        }
        if (ledger.outstanding() > 0
                && lock.run(
                        () -> {
                            ledger.synthesizeRest(broken ? CompletionStatus.LOST : rest);
                            deliverSynthesized(ledger);
                        })) {
            announce();
        }
    }

    /** Reports that completions were synthesized; without any lock of this completion queue. */
    void announce() {
        listener.synthesized();
    }

    // ---- what is known of the queue

    /** Whether requests that report here, other than receives, are outstanding. */
    boolean sendsOutstanding() {
        if (!lock.acquire()) {
            return false;
        }
        boolean outstanding = registry.sendsOutstanding();
        lock.release();
        return outstanding;
    }

    /** Whether the provider said that the queue is broken, as mlx5 does after an overrun. */
    public boolean broken() {
        return broken;
    }

    /**
     * Whether something is kept here that the consumer has not seen, and that came after a moment.
     */
    public boolean waiting(long since) {
        if (counts.keptEver() == since || !lock.acquire()) {
            return false;
        }
        boolean waiting = !delivery.isEmpty();
        lock.release();
        return waiting;
    }

    /** What was counted here, to be read from any thread. */
    public CompletionCounts counts() {
        return counts;
    }
}
