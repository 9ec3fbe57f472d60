package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.VerbsContext;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;

/**
 * The send queue of a queue pair (NDK: initiator queue): what NDK promises beyond {@code
 * ibv_post_send}. A post checks the request, builds it in the {@link SendChain}, notes it in the
 * {@link RequestLedger}, and hands the chain to the provider unless the request is deferred.
 *
 * <ul>
 *   <li><b>Silent requests.</b> A device frees a slot only when a completion at or behind it is
 *       polled, so every {@link #interval}-th silent request in a row asks for an internal signal.
 *   <li><b>Deferral.</b> Deferred requests wait in the chain for the next request without DEFER.
 *       Whatever is refused, by a return value or an exception, posts them first.
 *   <li><b>Refused late.</b> When the provider refuses a request whose post has returned that it
 *       was accepted, its completion is synthesized and the queue pair goes to the error state.
 * </ul>
 *
 * <p>Binds and invalidates, which name a window, begin in {@link WindowRequests}.
 *
 * <p>Posts return {@link Refusal#NONE}, a positive errno of the provider, or a {@link
 * Refusal#code}.
 */
public final class SendQueue {
    private static final int TRIES = 8; // while other queue pairs' completions come in between

    // The states of the connection, as posts see it: no way leads back.
    private static final int IDLE = 0;
    private static final int CONNECTED = 1;
    private static final int ENDED = 2;
    private static final VarHandle STATE;

    // Which requests of a chain have callers that wait for the answer, and may be refused without a
    // completion.
    private static final int NONE_ASKS = 0;
    private static final int LAST_ASKS = 1;
    private static final int ALL_ASK = 2; // a batch

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(SendQueue.class, "state", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    // These also of WindowRequests, under the lock.
    final SendRules rules;
    final RequestLedger ledger;
    final SendChain chain;

    private final QueueLock lock;
    private final VerbsContext verbs;
    private final long queuePair;
    private final CompletionPoller poller;
    private final int interval;
    private final Runnable modifyToError;

    private int state; // by STATE, from any thread

    // Written before the state becomes CONNECTED, and read after.
    private boolean peerInvalidatable;
    private int outboundReads;

    // Guarded by the lock.
    private int unsignaled; // silent requests since the last signal
    private boolean announce; // completions were synthesized: to be announced without the lock

    /**
     * Makes a queue that is not connected.
     *
     * @param rules what its requests may ask for
     * @param ledger its requests
     * @param chain where they are built
     * @param verbs the device
     * @param queuePair the address of the {@code ibv_qp}
     * @param poller where their completions are delivered
     * @param interval what {@link #interval} returned for its depth
     * @param modifyToError moves the queue pair to the error state, so that the device flushes it
     */
    public SendQueue(
            SendRules rules,
            RequestLedger ledger,
            SendChain chain,
            VerbsContext verbs,
            long queuePair,
            CompletionPoller poller,
            int interval,
            Runnable modifyToError) {
        this.lock = new QueueLock(poller.lock().owner());
        this.rules = rules;
        this.ledger = ledger;
        this.chain = chain;
        this.verbs = verbs;
        this.queuePair = queuePair;
        this.poller = poller;
        this.interval = interval;
        this.modifyToError = modifyToError;
    }

    /**
     * How many silent requests may follow each other until one asks for a signal: half of the
     * depth, which keeps a signal in reach, and 64 at most, as more would gain nothing.
     *
     * @param depth of the queue
     * @return 1 to 64
     */
    public static int interval(int depth) {
        return Math.clamp(depth / 2, 1, 64);
    }

    // ---- posting

    /**
     * Posts a request with buffers.
     *
     * @param operation what to do
     * @param context the caller's context
     * @param buffers local memory
     * @param remoteAddress the peer's memory, of operations that name it
     * @param remoteKey the peer's key, to use or to invalidate
     * @param operand immediate data, or what an atomic operation compares or adds
     * @param swap what an atomic operation stores
     * @param flags {@link RequestFlags}
     * @return whether it was accepted: see this class
     */
    public int post(
            Operation operation,
            long context,
            Buffers buffers,
            long remoteAddress,
            int remoteKey,
            long operand,
            long swap,
            int flags) {
        if (!lock.acquire()) {
            return Refusal.NOT_CONNECTED.code();
        }
        try {
            int count = buffers.size();
            int refusal = admit(operation, flags);
            if (refusal == Refusal.NONE) {
                refusal =
                        rules.check(
                                operation, buffers, count, flags, peerInvalidatable, outboundReads);
            }
            if (refusal != Refusal.NONE) {
                return refuse(refusal);
            }
            chain.begin(operation.opcode());
            operation.fill(chain, remoteAddress, remoteKey, operand, swap);
            int answer;
            if ((flags & RequestFlags.INLINE) != 0) {
                answer = postInline(operation, context, buffers, count, flags);
            } else {
                if ((flags & RequestFlags.DEFER) != 0) {
                    chain.copyOfBuffers(buffers.entries(), count); // the caller may change the list
                } else {
                    chain.buffers(buffers.address(), count);
                }
                answer = submit(operation, context, flags, 0);
            }
            if (answer == Refusal.NONE) {
                ledger.addBytes(buffers.bytes()); // a store after the downcall delays nothing
            }
            return answer;
        } catch (RuntimeException | Error e) {
            postDeferredHere();
            throw e;
        } finally {
            release();
            Reference.reachabilityFence(buffers);
        }
    }

    /** Checks that the queue is connected, that it knows the flags, and that it has a free slot. */
    int admit(Operation operation, int flags) {
        if ((int) STATE.getAcquire(this) != CONNECTED) {
            return Refusal.NOT_CONNECTED.code();
        }
        // Before a full queue: an unknown flag is wrong whether there is a slot or not.
        if ((flags & ~operation.flags()) != 0) {
            return Refusal.UNKNOWN_FLAG.code();
        }
        return ledger.full() && fullAfterDrain() ? Refusal.FULL.code() : Refusal.NONE;
    }

    private boolean fullAfterDrain() {
        poller.drain(); // silent requests may have ended without a poll by the consumer
        return ledger.full();
    }

    /** Checks the same for a batch, and what its requests need of the peer. */
    int admitBatch(int count, boolean invalidates, boolean reads) {
        if ((int) STATE.getAcquire(this) != CONNECTED) {
            return Refusal.NOT_CONNECTED.code();
        }
        if (invalidates && !peerInvalidatable) {
            return Refusal.NO_REMOTE_INVALIDATE.code();
        }
        if (reads && outboundReads == 0) {
            return Refusal.NO_READS.code();
        }
        if (!ledger.hasRoom(count)) {
            poller.drain();
            return ledger.hasRoom(count) ? Refusal.NONE : Refusal.FULL.code();
        }
        return Refusal.NONE;
    }

    private int postInline(
            Operation operation, long context, Buffers buffers, int count, int flags) {
        // As one buffer: most providers refuse more than the queue pair was made for, inline too.
        long bytes = buffers.copyInline(chain, count, rules.maxInlineBytes());
        if (bytes < 0) {
            return refuse(Buffers.refusal(bytes));
        }
        if (bytes == 0) {
            chain.buffers(0, 0);
        }
        return submit(operation, context, flags, bytes == 0 ? 0 : SendChain.INLINE);
    }

    /** Ends a request and posts it with all deferred ones, unless it is deferred itself. */
    private int submit(Operation operation, long context, int flags, int inline) {
        boolean silent = (flags & RequestFlags.SILENT_SUCCESS) != 0;
        int after = unsignaledAfter(unsignaled, silent);
        chain.finish(ledger.nextId(), RequestFlags.toVerbs(flags, inline, after == 0));
        boolean waits = (flags & RequestFlags.DEFER) != 0 && !chain.full();
        long first = waits ? 0 : chain.prepare(0);
        ledger.add(context, operation.type(), silent, after == 0);
        return finished(waits, first, after);
    }

    /** How many silent requests in a row there are after one more request; 0: it is signaled. */
    int unsignaledAfter(int before, boolean silent) {
        return silent && before + 1 < interval ? before + 1 : 0;
    }

    /** How many silent requests in a row there are now. */
    int unsignaled() {
        return unsignaled;
    }

    /**
     * As the other, for a request that names a window. Apart from it, because the JIT inlines no
     * method with a parameter whose class is not loaded, and many programs have no windows.
     */
    int submit(Operation operation, Window window, long context, int flags) {
        boolean silent = (flags & RequestFlags.SILENT_SUCCESS) != 0;
        int after = unsignaledAfter(unsignaled, silent);
        chain.finish(ledger.nextId(), RequestFlags.toVerbs(flags, 0, after == 0));
        ledger.add(window, context, operation.type(), silent, after == 0);
        Endpoint endpoint = ledger.endpoint();
        if (operation.opcode() == SendChain.BIND) {
            endpoint.windows().bind(window, endpoint);
        } else {
            endpoint.windows().invalidate(window);
        }
        boolean waits = (flags & RequestFlags.DEFER) != 0 && !chain.full();
        return finished(waits, waits ? 0 : chain.prepare(0), after);
    }

    /** Posts the chain, unless its last request is deferred. */
    private int finished(boolean waits, long first, int unsignaledAfter) {
        int refusal = waits ? Refusal.NONE : postChain(first, true);
        if (refusal == Refusal.NONE) {
            unsignaled = unsignaledAfter;
        }
        return refusal;
    }

    // ---- refusals

    /**
     * Refuses a request that was not begun, for a reason that its caller has found; posts what was
     * deferred.
     *
     * @param refusal a refusal's code
     * @return the same, or NOT_CONNECTED where the queue is closed
     */
    public int refuseOutside(int refusal) {
        if (!lock.acquire()) {
            return Refusal.NOT_CONNECTED.code();
        }
        try {
            return refuse(refusal);
        } finally {
            release();
        }
    }

    /** The same, with the lock. */
    int refuse(int refusal) {
        postDeferredHere();
        return refusal;
    }

    /** Posts what was deferred: a request was refused by an exception before it got here. */
    public void postDeferred() {
        if (lock.acquire()) {
            try {
                postDeferredHere();
            } finally {
                release();
            }
        }
    }

    /** The same, with the lock. Those requests were accepted: their posts have returned. */
    void postDeferredHere() {
        if (!chain.isEmpty()) {
            postChain(chain.prepare(0), false);
        }
    }

    /** Releases the lock, and announces what was synthesized under it. */
    void release() {
        if (announce) {
            announce = false;
            lock.release();
            poller.announce();
        } else {
            lock.release();
        }
    }

    /**
     * Posts the chain.
     *
     * @param lastIsAsking whether the last request's caller still waits for the answer, so that it
     *     may be refused without a completion
     */
    private int postChain(long first, boolean lastIsAsking) {
        int answer = verbs.postSend(queuePair, first, chain.badRequest());
        int errno =
                chain.accepted(answer)
                        ? 0
                        : notAccepted(chain, answer, lastIsAsking ? LAST_ASKS : NONE_ASKS);
        chain.clear();
        return errno;
    }

    /**
     * Posts a batch, whose requests are in the ledger.
     *
     * @param batch their chain
     * @param unsignaledAfter how many silent requests in a row there are behind it
     * @return {@link Refusal#NONE}, or a positive errno: then none of them was posted, and none is
     *     in the ledger any more
     */
    int postBatch(SendChain batch, int unsignaledAfter) {
        int answer = verbs.postSend(queuePair, batch.prepare(0), batch.badRequest());
        int refusal = batch.accepted(answer) ? 0 : notAccepted(batch, answer, ALL_ASK);
        if (refusal == Refusal.NONE) {
            unsignaled = unsignaledAfter;
        }
        return refusal;
    }

    private int notAccepted(SendChain chain, int answer, int asking) {
        int posted = 0; // so many the provider has taken
        int errno = chain.refused(posted, answer);
        // A queue that was full for the provider may have a free slot once completions are polled.
        for (int tries = 0;
                tries < TRIES
                        && errno == Errno.ENOMEM
                        && chain.refusedAt() != SendChain.UNKNOWN
                        && poller.drain();
                tries++) {
            posted = chain.refusedAt();
            errno = post(chain, posted);
        }
        return errno == 0 ? 0 : refused(chain, errno, posted, asking);
    }

    /** The downcall: 0, or a positive errno, and {@link SendChain#refusedAt} says where. */
    private int post(SendChain chain, int first) {
        int answer = verbs.postSend(queuePair, chain.prepare(first), chain.badRequest());
        return chain.accepted(answer) ? 0 : chain.refused(first, answer);
    }

    /**
     * The provider refused a request of the chain, and with it all behind it.
     *
     * @param posted how many of the chain it had taken before
     * @param asking whose post has not returned yet
     * @return what that post returns
     */
    private int refused(SendChain chain, int errno, int posted, int asking) {
        int at = chain.refusedAt();
        int last = ledger.last();
        int first = last - chain.length() + 1;
        if (asking == ALL_ASK ? at == 0 : asking == LAST_ASKS && at == chain.length() - 1) {
            for (int sequence = last; sequence - (first + at) >= 0; sequence--) {
                ledger.takeBack();
            }
            return errno; // nothing else has happened
        }
        boolean lastIsAsking = asking == LAST_ASKS;
        int answer = asking == ALL_ASK ? Refusal.NONE : errno; // some of a batch may be posted
        if (at == SendChain.UNKNOWN) {
            if (poller.refuse(ledger, first + posted, last, lastIsAsking)) {
                return Refusal.NONE; // whatever the provider meant: all have completed
            }
            end();
        } else {
            end();
            int lastSynthesized = last;
            if (lastIsAsking) {
                ledger.takeBack();
                lastSynthesized--;
                answer = Refusal.NOT_CONNECTED.code();
            }
            poller.synthesize(ledger, first + at, lastSynthesized, CompletionPoller.NOT_POSTED);
        }
        modifyToError.run();
        announce = true;
        return answer;
    }

    /**
     * The lock of this queue.
     *
     * @return whose owner is the thread that the queue is confined to
     */
    public QueueLock lock() {
        return lock;
    }

    /**
     * Its requests, for their counters.
     *
     * @return always the same
     */
    public RequestLedger ledger() {
        return ledger;
    }

    // ---- the connection

    /**
     * Accepts posts from now on, unless the end came first. From any thread.
     *
     * @param invalidatable whether the peer announced that its keys can be invalidated
     * @param reads how many reads may be outstanding at the peer
     */
    public void connect(boolean invalidatable, int reads) {
        peerInvalidatable = invalidatable;
        outboundReads = reads;
        STATE.compareAndSet(this, IDLE, CONNECTED);
    }

    /**
     * Whether posts are accepted.
     *
     * @return false before the connection, after a flush, and after a post that the provider
     *     refused late
     */
    public boolean connected() {
        return (int) STATE.getAcquire(this) == CONNECTED;
    }

    /** Refuses posts from now on: what follows would be lost. */
    private void end() {
        STATE.setVolatile(this, ENDED);
    }

    /**
     * Posts what was deferred, and refuses posts from now on. The caller has the device flush what
     * is outstanding. From any thread; on a confined queue the owner posts what was deferred, when
     * it posts or polls next.
     */
    public void disconnect() {
        endFirstIfForeign();
        poller.ownerTasks().runByOwner(this::disconnectHere);
    }

    private void endFirstIfForeign() {
        if (lock.isForeign()) {
            end();
        }
    }

    private void disconnectHere() {
        if (lock.acquire()) {
            try {
                postDeferredHere();
                end();
            } finally {
                release();
            }
        }
    }

    /**
     * Disconnects, and makes sure that {@link #drained} finds out: where the last request is silent
     * and unsignaled, a write of no bytes goes behind it. That touches nothing at the peer and
     * needs no key. (A peer that accepts no writes at all would refuse it, and end the connection,
     * which is ending.)
     */
    public void drain() {
        endFirstIfForeign();
        poller.ownerTasks().runByOwner(this::drainHere);
    }

    private void drainHere() {
        disconnectHere();
        if (lock.acquire()) {
            try {
                if (unsignaled > 0 && ledger.outstanding() > 0) {
                    postInternal(SendChain.WRITE);
                }
            } finally {
                release();
            }
        }
    }

    /**
     * Whether all requests have ended. Polls first; not on a confined queue, where only the owner
     * polls.
     *
     * @return true when nothing is outstanding
     */
    public boolean drained() {
        if (!lock.isForeign()) {
            poller.drain();
        }
        return ledger.outstanding() == 0;
    }

    /** Polls, and does what other threads have left for the owner of this confined queue. */
    public void serve() {
        poller.ownerTasks().runAll();
        poller.drain();
    }

    /**
     * How many requests are outstanding.
     *
     * @return as of a moment ago
     */
    public int outstanding() {
        return Math.max(0, ledger.outstanding());
    }

    /** Posts a request of this library's own, of no bytes. */
    private void postInternal(int opcode) {
        chain.begin(opcode);
        chain.buffers(0, 0);
        if (opcode == SendChain.WRITE) {
            chain.remote(0, 0);
        }
        chain.finish(WorkId.of(ledger.queue(), ledger.addInternal()), SendChain.SIGNALED);
        if (post(chain, 0) != 0) {
            ledger.takeBack();
        }
        chain.clear();
    }

    /**
     * Closes the queue, and ends what is outstanding: by the device, or when the time is over by
     * this library.
     *
     * @param nanoseconds how long to wait for the device
     */
    public void close(long nanoseconds) {
        if (flush()) {
            lock.close();
            // Without the lock: posts beside the close are not to wait.
            poller.finish(ledger, nanoseconds, CompletionPoller.FLUSHED);
        }
    }

    /**
     * Refuses posts from now on, and ends what is outstanding as {@link #close} does.
     *
     * @param nanoseconds how long to wait for the device
     * @param rest the status of what the device does not end
     */
    public void finish(long nanoseconds, int rest) {
        if (flush()) {
            poller.finish(ledger, nanoseconds, rest);
        }
    }

    /** Has the device flush what is outstanding; false when the queue is closed. */
    private boolean flush() {
        if (!lock.acquire()) {
            return false;
        }
        try {
            postDeferredHere();
            end();
            if (ledger.outstanding() > 0) {
                modifyToError.run();
                // The last requests may be silent and unsignaled. In the error state this one is
                // flushed behind them, and shows that all before it have been reported.
                postInternal(SendChain.SEND);
            }
        } finally {
            release();
        }
        return true;
    }
}
