package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.WorkCompletions;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Arrays;

/**
 * What stands between {@code ibv_poll_cq} and the consumer of one completion queue: it finds out
 * whose request ended, retires it with all before it, drops what was signaled for this layer's sake
 * only, and adds what this layer owes.
 *
 * <p>The layer polls on its own too: to get places of silent requests back, to see what is there
 * when the queue is armed, to save what a queue pair leaves behind. What it finds then waits here,
 * and is told first.
 */
public final class CompletionPump {
    /** {@code IBV_WC_GENERAL_ERR}: the status of a request that never reached the provider. */
    public static final int NOT_POSTED = WorkCompletions.GENERAL_ERROR;

    /** {@code IBV_WC_WR_FLUSH_ERR}: the status of a request that was behind such a one. */
    public static final int FLUSHED = WorkCompletions.FLUSHED;

    /**
     * The status of a request whose completion the device has lost: none of {@code enum
     * ibv_wc_status}, which knows no such thing.
     */
    public static final int LOST = 0xFF;

    /** What {@link #reserve} answers when all slots are taken. */
    public static final long NO_SLOT = -1;

    /** What {@link #reserve} answers when the completion queue is closed. */
    public static final long CLOSED = -2;

    private static final int BATCH = 64;
    private static final VarHandle HIDDEN;

    static {
        try {
            HIDDEN =
                    MethodHandles.lookup()
                            .findVarHandle(CompletionPump.class, "hidden", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final VerbsContext context;
    private final Provider provider;
    private final SharedQueues sharedQueues;
    private final long address;
    private final Runnable onOwed;
    private final Gate gate = new Gate();

    // All of these under the gate.
    private final WorkCompletions raw = new WorkCompletions(BATCH);
    private final Backlog staged;
    private final ArrayList<RequestFifo> owing = new ArrayList<>(); // looked at by each poll
    private Endpoint[] dead = new Endpoint[8]; // failed, and not told so yet
    private int deadCount;
    private final IntMap<Endpoint> sharing = new IntMap<>();
    // What was polled and could not be kept, as the heap was exhausted: these in raw, until it is.
    private int leftFirst;
    private int leftEnd;
    private boolean unsettled; // something is staged, owing or left, perhaps
    private boolean[] taken = new boolean[8];
    private RequestFifo[] queues = new RequestFifo[8];
    private int[] generations = new int[8];
    // Whose completion came last, and so perhaps the next: what the processor can look up without
    // waiting for the id that the provider has just written.
    private RequestFifo guess; // or null

    // Changed under the gate, and read outside of it.
    private volatile boolean hasDead;
    private volatile boolean broken;
    private volatile long stagedEver;
    private volatile long failuresEver;
    private volatile long hidden; // written without the fence of a volatile write

    /**
     * Makes one.
     *
     * @param context the device
     * @param provider whose habits to follow
     * @param sharedQueues the device's shared receive queues
     * @param address of the {@code ibv_cq}
     * @param onOwed what to do when completions came up that the device gives no event for; called
     *     outside of all gates of this completion queue
     */
    public CompletionPump(
            VerbsContext context,
            Provider provider,
            SharedQueues sharedQueues,
            long address,
            Runnable onOwed) {
        this(context, provider, sharedQueues, address, onOwed, new Backlog(BATCH));
    }

    /** For tests, with an empty backlog of theirs. */
    CompletionPump(
            VerbsContext context,
            Provider provider,
            SharedQueues sharedQueues,
            long address,
            Runnable onOwed,
            Backlog staged) {
        this.staged = staged;
        this.context = context;
        this.provider = provider;
        this.sharedQueues = sharedQueues;
        this.address = address;
        this.onOwed = onOwed;
    }

    /**
     * Takes a slot for one queue and returns what its ids begin with. Until {@link #enter}, nothing
     * is told of it.
     *
     * @param receive whether it is a receive queue
     * @return what {@link WorkId#queue} gave, or {@link #NO_SLOT}, or {@link #CLOSED}
     */
    public long reserve(boolean receive) {
        if (!gate.enter()) {
            return CLOSED;
        }
        try {
            int slot = 0;
            while (slot < taken.length && taken[slot]) {
                slot++;
            }
            if (slot == WorkId.SLOTS) {
                return NO_SLOT;
            }
            if (slot == taken.length) {
                taken = Arrays.copyOf(taken, 2 * slot);
                queues = Arrays.copyOf(queues, 2 * slot);
                generations = Arrays.copyOf(generations, 2 * slot);
            }
            owing.ensureCapacity(owing.size() + taken.length); // owing something must not fail
            taken[slot] = true;
            return WorkId.queue(slot, ++generations[slot], receive);
        } finally {
            gate.leave();
        }
    }

    /**
     * Tells completions of a queue from now on.
     *
     * @param fifo its requests
     */
    public void enter(RequestFifo fifo) {
        if (gate.enter()) {
            queues[WorkId.slot(fifo.queue())] = fifo;
            gate.leave();
        }
    }

    /**
     * Gives a slot back; what the device tells for it later is dropped.
     *
     * @param queue what {@link #reserve} gave
     */
    public void release(long queue) {
        // The gate may be shut: the owner closed this queue before its queue pairs. Then nobody
        // polls.
        if (gate.enter()) {
            int slot = WorkId.slot(queue);
            RequestFifo fifo = queues[slot];
            if (fifo != null && fifo.underWay() == 0) {
                owing.remove(fifo); // otherwise there is no memory yet for what it owes
            }
            guess = null;
            queues[slot] = null;
            taken[slot] = false;
            gate.leave();
        }
    }

    /**
     * Tells receives of shared queues that a queue pair used up.
     *
     * @param queuePairNumber its number
     * @param endpoint whose completions they are, or null to forget it
     */
    public void share(int queuePairNumber, Endpoint endpoint) {
        if (gate.enter()) {
            try {
                if (endpoint == null) {
                    sharing.remove(queuePairNumber);
                } else {
                    sharing.put(queuePairNumber, endpoint);
                }
            } finally {
                gate.leave();
            }
        }
    }

    /** Lets nobody in any more. */
    public void shut() {
        gate.shut();
    }

    /**
     * Tells what is there.
     *
     * @param into where; only as many come as fit
     * @return whether the queue is open; when it is broken, {@link #broken} says so
     */
    public boolean poll(CompletionRecords into) {
        if (!gate.enter()) {
            return false;
        }
        try {
            if (unsettled || !pollPlain(into)) {
                pollAll(into);
            }
        } finally {
            gate.leave();
        }
        mourn(into);
        return true;
    }

    /**
     * The short way, for almost all polls: nothing is there, or successes of one queue pair that
     * need no thought. Apart from the long one, which does the same and more: what the JIT keeps
     * ready for that costs more than all there is to do here.
     *
     * @return whether there is no more to do
     */
    private boolean pollPlain(CompletionRecords into) {
        int asked = Math.min(into.room(), BATCH);
        int came = ask(asked);
        int told = came > 0 && guess != null ? guess.tellPlain(raw, 0, came, provider, into) : 0;
        if (told < came) {
            take(told, came, into);
        }
        return came < asked || into.room() == 0;
    }

    private void pollAll(CompletionRecords into) {
        staged.moveTo(into);
        boolean allTaken = takeLeft(into);
        int asked = Math.min(into.room(), BATCH);
        while (allTaken && asked > 0) {
            int came = ask(asked);
            allTaken = take(0, came, into) && came == asked;
            asked = Math.min(into.room(), BATCH); // hidden ones took no room
        }
        settle(into);
        unsettled = !staged.isEmpty() || !owing.isEmpty() || leftFirst < leftEnd;
    }

    /**
     * Tells queue pairs that they failed. The consumer's thread does so, which holds no gate.
     *
     * @param polled what the consumer is about to see: an exception would keep it from that, so the
     *     next poll tries again
     */
    private void mourn(CompletionRecords polled) {
        if (!hasDead) {
            return;
        }
        for (Endpoint endpoint = nextDead(); endpoint != null; endpoint = nextDead()) {
            try {
                endpoint.mourn();
            } catch (Throwable t) {
                putBack(endpoint);
                if (polled.size() == 0) {
                    throw t;
                }
                return;
            }
        }
    }

    private Endpoint nextDead() {
        if (!gate.enter()) {
            return null;
        }
        Endpoint next = deadCount == 0 ? null : dead[--deadCount];
        hasDead = deadCount > 0;
        gate.leave();
        return next;
    }

    private void putBack(Endpoint endpoint) {
        if (gate.enter()) {
            if (makeRoomForDead()) {
                addDead(endpoint);
            }
            gate.leave();
        }
    }

    private void addDead(Endpoint endpoint) {
        dead[deadCount++] = endpoint;
        hasDead = true;
    }

    /**
     * Polls everything that is there and keeps it for the consumer; what the heap has no memory for
     * stays where it is until the next time.
     *
     * @return whether anything came
     */
    public boolean drain() {
        if (!gate.enter()) {
            return false;
        }
        try {
            boolean any = leftFirst < leftEnd;
            boolean more = takeLeft(null);
            while (more) {
                int came = ask(BATCH);
                any |= came > 0;
                more = take(0, came, null) && came == BATCH;
            }
            settle(null);
            return any;
        } finally {
            gate.leave();
        }
    }

    /**
     * Polls until every request of a queue has ended, for a moment; then synthesizes the other
     * completions. For a queue pair that is in the error state and takes no more requests.
     *
     * @param fifo its requests
     * @param nanoseconds how long to wait for the device; not at all when this queue is {@link
     *     #broken}
     * @param rest the status of those that the device does not end; {@link #LOST} when this queue
     *     is broken
     */
    public void finish(RequestFifo fifo, long nanoseconds, int rest) {
        long start = System.nanoTime();
        while (fifo.underWay() > 0 && !broken && System.nanoTime() - start < nanoseconds) {
            if (!drain() && !open()) {
                return;
            }
            Thread.onSpinWait();
        }
        if (fifo.underWay() > 0 && oweRest(fifo, broken ? LOST : rest)) {
            announce();
        }
    }

    private boolean oweRest(RequestFifo fifo, int status) {
        if (!gate.enter()) {
            return false;
        }
        try {
            remember(fifo);
            fifo.oweRest(status);
            settle(null);
        } finally {
            gate.leave();
        }
        return true;
    }

    private boolean open() {
        if (!gate.enter()) {
            return false;
        }
        gate.leave();
        return true;
    }

    /**
     * Whether the provider said that the queue is broken, as mlx5 does after an overrun.
     *
     * @return true from then on
     */
    public boolean broken() {
        return broken;
    }

    /**
     * How many successes were signaled for this layer's sake and dropped.
     *
     * @return since the queue was made
     */
    public long hidden() {
        return hidden;
    }

    /**
     * Whether something waits here that the consumer has not seen, and that came after a moment.
     *
     * @param since what {@link #stagedEver} was at that moment
     * @return false when there is nothing, or nothing new
     */
    public boolean waiting(long since) {
        if (stagedEver == since || !gate.enter()) {
            return false;
        }
        boolean waiting = !staged.isEmpty();
        gate.leave();
        return waiting;
    }

    /**
     * How many completions were ever kept here.
     *
     * @return a count that only grows
     */
    public long stagedEver() {
        return stagedEver;
    }

    /**
     * How many of them told of a failure.
     *
     * @return a count that only grows
     */
    public long failuresEver() {
        return failuresEver;
    }

    /**
     * Owes completions; see {@link RequestFifo#owe}.
     *
     * @param fifo of which queue
     * @param first the first request
     * @param last the last request
     * @param status the first one's status
     */
    void owe(RequestFifo fifo, int first, int last, int status) {
        if (gate.enter()) {
            try {
                remember(fifo);
                fifo.owe(first, last, status, FLUSHED);
                settle(null);
            } finally {
                gate.leave();
            }
        }
    }

    /**
     * The provider refused requests without saying which, and may have kept any of them.
     * Completions of those that have not ended are owed, or suppressed for the last one, if its
     * caller is told that it was refused. In one go: what another thread polls, it polls before or
     * after.
     *
     * @param fifo of which queue
     * @param first the first request that may have been refused
     * @param last the last one
     * @param lastIsAsking whether the last one's caller waits for the answer
     * @return true when the last one, and so each of them, has ended already: none was refused
     */
    boolean refuse(RequestFifo fifo, int first, int last, boolean lastIsAsking) {
        if (!gate.enter()) {
            return false; // nobody polls any more
        }
        try {
            if (fifo.hasEnded(last)) {
                return true;
            }
            remember(fifo);
            if (lastIsAsking) {
                fifo.suppress(last);
            }
            fifo.owe(first, lastIsAsking ? last - 1 : last, NOT_POSTED, FLUSHED);
            settle(null);
            return false;
        } finally {
            gate.leave();
        }
    }

    /** Says that something was owed; not under any gate of this completion queue. */
    void announce() {
        onOwed.run();
    }

    private void remember(RequestFifo fifo) {
        unsettled = true;
        if (!owing.contains(fifo)) {
            owing.add(fifo);
        }
    }

    // What follows tells completions to the consumer's records if it is the consumer who polls, and
    // keeps them if not, with null for "to"; handed down, as a field would be a reference between
    // old objects to tell the collector of, twice a poll.

    private int ask(int count) {
        int came = context.pollCq(address, count, raw);
        if (came < 0) {
            broken = true;
        }
        return came;
    }

    /** Takes what was left in {@link #raw}; asking for more would overwrite it. */
    private boolean takeLeft(CompletionRecords to) {
        int first = leftFirst;
        int end = leftEnd;
        leftFirst = 0;
        leftEnd = 0;
        return take(first, end, to);
    }

    /**
     * Takes completions out of {@link #raw}.
     *
     * @param came the end of those that are there
     * @return whether all were taken; those that were not are left there, and nothing of them has
     *     changed
     */
    private boolean take(int first, int came, CompletionRecords to) {
        int i = first;
        try {
            while (i < came) {
                long id = raw.id(i);
                if (WorkId.isShared(id)) {
                    if (!makeRoom(to)) {
                        break;
                    }
                    takeShared(i++, id, to);
                    continue;
                }
                RequestFifo fifo = guess;
                if (fifo == null || !WorkId.belongsTo(id, fifo.queue())) {
                    fifo = queues[WorkId.slot(id)];
                    if (fifo == null || !WorkId.belongsTo(id, fifo.queue())) {
                        i++; // what a closed queue pair left behind was told at its close already
                        continue;
                    }
                    guess = fifo;
                }
                int plain =
                        to == null || !staged.isEmpty() || to.room() < came - i
                                ? 0
                                : fifo.tellPlain(raw, i, came, provider, to);
                if (plain > 0) {
                    i += plain;
                } else if (tellOwedBefore(fifo, WorkId.sequence(id), to)) {
                    take(i++, fifo, WorkId.sequence(id), to);
                } else {
                    break;
                }
            }
        } finally { // also when something was thrown that nobody expects
            if (i < came) {
                leftFirst = i;
                leftEnd = came;
                unsettled = true;
            }
        }
        return i >= came;
    }

    /** Tells what is owed before a request, and makes room for the request. */
    private boolean tellOwedBefore(RequestFifo fifo, int sequence, CompletionRecords to) {
        fifo.look();
        while (makeRoom(to)) {
            if (!fifo.nextBefore(sequence)) {
                return true;
            }
            tellOwed(fifo, to);
        }
        return false;
    }

    /**
     * Makes room for telling one more completion, before anything of it changes.
     *
     * @return false when there is none, and the heap has no memory for more
     */
    private boolean makeRoom(CompletionRecords to) {
        return makeRoomForDead()
                && (to != null && staged.isEmpty() && to.room() > 0 || staged.makeRoom());
    }

    private boolean makeRoomForDead() {
        if (deadCount == dead.length) {
            try {
                dead = Arrays.copyOf(dead, 2 * deadCount);
            } catch (OutOfMemoryError e) {
                return false;
            }
        }
        return true;
    }

    private void take(int index, RequestFifo fifo, int sequence, CompletionRecords to) {
        int status = raw.status(index);
        boolean success = status == WorkCompletions.SUCCESS;
        boolean silent = fifo.silent(sequence);
        long context = fifo.context(sequence);
        RequestType type = fifo.typeOf(sequence);
        if (fifo.end(sequence, success)) {
            tell(index, status, fifo.endpoint(), silent ? null : fifo, type, context, to);
        } else if (success && silent) {
            HIDDEN.setRelease(this, hidden + 1);
        }
    }

    private void takeShared(int index, long id, CompletionRecords to) {
        SharedReceives queue = sharedQueues.find(id);
        if (queue == null) {
            return; // closed
        }
        long context = queue.take(WorkId.sequence(id));
        Endpoint endpoint = sharing.get(raw.queuePairNumber(index));
        if (endpoint == null) {
            queue.told(); // of a queue pair that is closed, and was drained before
            return;
        }
        tell(index, raw.status(index), endpoint, queue, RequestType.RECEIVE, context, to);
    }

    private void tell(
            int index,
            int status,
            Endpoint endpoint,
            Credit credit,
            RequestType type,
            long context,
            CompletionRecords to) {
        if (status != WorkCompletions.SUCCESS) {
            fail(endpoint);
            tell(endpoint, credit, type, context, 0, status, raw.vendorError(index), 0, false, to);
        } else if (!type.isReceive()) {
            tell(endpoint, credit, type, context, 0, status, 0, 0, false, to);
        } else if (provider.invalidated(raw.flags(index))) {
            int token = raw.invalidatedToken(index);
            endpoint.windows().invalidated(token);
            tell(
                    endpoint,
                    credit,
                    RequestType.RECEIVE_AND_INVALIDATE,
                    context,
                    raw.bytes(index),
                    status,
                    0,
                    token,
                    false,
                    to);
        } else {
            boolean immediate = raw.hasImmediate(index);
            tell(
                    endpoint,
                    credit,
                    raw.isWriteWithImmediate(index) ? RequestType.RECEIVE_OF_WRITE : type,
                    context,
                    raw.bytes(index),
                    status,
                    0,
                    immediate ? raw.immediate(index) : 0,
                    immediate,
                    to);
        }
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // changed under the gate only
    private void fail(Endpoint endpoint) {
        failuresEver++;
        if (endpoint.dies()) {
            addDead(endpoint);
        }
    }

    @SuppressWarnings("NonAtomicVolatileUpdate") // changed under the gate only
    private void tell(
            Endpoint endpoint,
            Credit credit,
            RequestType type,
            long context,
            long bytes,
            int status,
            int vendorError,
            int extra,
            boolean immediate,
            CompletionRecords to) {
        CompletionRecords records = to;
        if (to != null && staged.isEmpty() && to.room() > 0) {
            if (credit != null) {
                credit.told();
            }
        } else {
            records = staged.next(credit);
            unsettled = true;
            stagedEver++;
        }
        records.add(endpoint, type, context, bytes, status, vendorError, extra, immediate);
    }

    private void settle(CompletionRecords to) {
        for (int i = 0; i < owing.size(); i++) {
            RequestFifo fifo = owing.get(i);
            while (makeRoom(to) && fifo.nextOwed()) {
                tellOwed(fifo, to);
            }
            if (queues[WorkId.slot(fifo.queue())] != fifo && fifo.underWay() == 0) {
                owing.remove(i--); // released before there was memory for all
            }
        }
    }

    private void tellOwed(RequestFifo fifo, CompletionRecords to) {
        int sequence = fifo.owedSequence();
        fail(fifo.endpoint());
        tell(
                fifo.endpoint(),
                fifo.silent(sequence) ? null : fifo,
                fifo.typeOf(sequence),
                fifo.context(sequence),
                0,
                fifo.owedStatus(),
                0,
                0,
                false,
                to);
    }
}
