package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.queue.Operation.Flags;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.SendChains;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

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
 *       polled, so every n-th silent request in a row asks for an internal signal ({@link
 *       SendLimits#interval}).
 *   <li><b>Deferral.</b> Deferred requests wait in the chain for the next request without DEFER.
 *       Whatever is refused, by a return value or an exception, posts them first.
 *   <li><b>Refused late.</b> When the provider refuses a request whose post has returned that it
 *       was accepted, its completion is synthesized and the queue pair goes to the error state.
 * </ul>
 *
 * <p>Binds and invalidates, which name a window, begin in {@link WindowRequests}. The queue is its
 * own lock: an object less to be read by each post.
 */
public final class SendQueue extends QueueLock {
    // Connection states as posts see them. A queue never returns to an earlier state.
    private static final int IDLE = 0;
    private static final int CONNECTED = 1;
    private static final int ENDED = 2;
    private static final VarHandle STATE =
            Fields.handle(MethodHandles.lookup(), "state", int.class);

    // Which requests of a chain have callers that wait for the answer, and may be refused without a
    // completion.
    private static final int NONE_ASKS = 0;
    private static final int LAST_ASKS = 1;
    private static final int ALL_ASK = 2; // a batch

    private static final int TRIES = 8; // while other queue pairs' completions come in between

    // These also of WindowRequests and Batch, under the lock.
    final SendLimits limits;
    final RequestLedger ledger;
    final CompletionPoller poller;
    int unsignaled; // silent requests since the last signal

    private final VerbsContext verbs;
    private final long queuePair;
    private final SendChains chains;
    private final SendChain single; // of a request that is posted at once
    private final int interval;
    private final Runnable modifyToError;

    @SuppressWarnings("UnusedVariable") // by STATE
    private int state; // from any thread

    // Written before the state becomes CONNECTED, and read after.
    private boolean peerInvalidatable;
    private int outboundReads;

    // Guarded by the lock.
    private @Nullable SendChain deferred; // null until the first request is deferred
    private boolean deferring; // requests are in it
    private boolean announce; // completions were synthesized: to be announced without the lock

    /**
     * Makes a queue that is not connected.
     *
     * @param limits of its requests
     * @param modifyToError moves the queue pair to the error state, so that the device flushes it
     */
    public SendQueue(
            SendLimits limits,
            RequestLedger ledger,
            SendChains chains,
            VerbsContext verbs,
            long queuePair,
            CompletionPoller poller,
            Runnable modifyToError) {
        super(poller.lock().owner());
        this.limits = limits;
        this.ledger = ledger;
        this.chains = chains;
        this.single = chains.single();
        this.verbs = verbs;
        this.queuePair = queuePair;
        this.poller = poller;
        this.interval = ledger.interval();
        this.modifyToError = modifyToError;
    }

    // ---- posting

    /**
     * Posts a request with buffers. The checks, in this order: the queue is open, the queue pair
     * connected, the flags known, a slot free, the operation one that the peer supports ({@link
     * #admit}); then the number of bytes, and the buffers ({@link Operation#check}; those of an
     * inline request when they are copied). The first that fails is returned after all that was
     * deferred has been posted.
     *
     * @param operand immediate data, or what an atomic operation compares or adds
     */
    public PostResult post(
            Operation operation,
            long context,
            Buffers buffers,
            long remoteAddress,
            int remoteKey,
            long operand,
            long swap,
            int flags) {
        checkStack();
        if (!acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        try {
            int count = buffers.size();
            PostResult refusal = admit(operation, flags);
            if (refusal == PostResult.ACCEPTED) {
                refusal = operation.check(limits, buffers, count, remoteAddress, flags);
            }
            if (refusal != PostResult.ACCEPTED) {
                return refuse(refusal);
            }
            SendChain chain = chainFor(flags);
            chain.begin(operation.opcode());
            operation.fill(chain, remoteAddress, remoteKey, operand, swap);
            PostResult answer;
            if ((flags & Flags.INLINE) != 0) {
                answer = postInline(chain, operation, context, buffers, count, flags);
            } else {
                if ((flags & Flags.DEFER) != 0) {
                    chain.copyOfBuffers(buffers.entries(), count); // the caller may change the list
                } else {
                    chain.buffers(buffers.address(), count);
                }
                answer = submit(chain, operation, context, flags, 0);
            }
            if (answer == PostResult.ACCEPTED) {
                ledger.addBytes(buffers.bytes()); // a store after the downcall delays nothing
            }
            return answer;
        } catch (RuntimeException | Error e) {
            afterException();
            throw e;
        } finally {
            leave();
            Reference.reachabilityFence(buffers);
        }
    }

    /** Where a request with these flags is built: behind what is deferred, if anything is. */
    SendChain chainFor(int flags) {
        return (flags & Flags.DEFER) == 0 && !deferring ? single : deferred();
    }

    private SendChain deferred() {
        SendChain made = deferred;
        if (made == null) {
            made = chains.deferred();
            deferred = made;
        }
        return made;
    }

    /**
     * Checks the flags, that a slot is free, and that the connected peer supports the operation.
     */
    PostResult admit(Operation operation, int flags) {
        if (!connected()) {
            return PostResult.NOT_CONNECTED;
        }
        // Before a full queue: an unknown flag is wrong whether there is a slot or not.
        if ((flags & ~operation.flags()) != 0) {
            return PostResult.UNKNOWN_FLAG;
        }
        if (ledger.full() && fullAfterDrain()) {
            return PostResult.FULL;
        }
        if ((flags & Flags.DEFER) != 0) {
            ledger.ensureNext();
        }
        Operation.Needs needs = operation.needs();
        return needs == Operation.Needs.NOTHING
                ? PostResult.ACCEPTED
                : checkPeer(needs.invalidates(), needs.reads());
    }

    private boolean fullAfterDrain() {
        poller.drain(); // silent requests may have ended without a poll by the consumer
        return ledger.full();
    }

    /** Checks that the peer supports a request, or all requests of a batch. */
    PostResult checkPeer(boolean invalidates, boolean reads) {
        if (invalidates && !peerInvalidatable) {
            return PostResult.NO_REMOTE_INVALIDATE;
        }
        // Without a limit of 1 or more the device would let a read wait for ever.
        return reads && outboundReads == 0 ? PostResult.NO_READS : PostResult.ACCEPTED;
    }

    private PostResult postInline(
            SendChain chain,
            Operation operation,
            long context,
            Buffers buffers,
            int count,
            int flags) {
        // As one buffer: most providers refuse more than the queue pair was made for, inline too.
        long bytes = buffers.copyInline(chain, count, limits.maxInlineBytes());
        if (bytes < 0) {
            return refuse(Buffers.refusal(bytes));
        }
        return submit(chain, operation, context, flags, bytes == 0 ? 0 : SendChain.INLINE);
    }

    /** Ends a request and posts it with all deferred ones, unless it is deferred itself. */
    private PostResult submit(
            SendChain chain, Operation operation, long context, int flags, int inline) {
        boolean silent = (flags & Flags.SILENT_SUCCESS) != 0;
        int after = unsignaledAfter(unsignaled, silent);
        chain.finish(ledger.nextId(), Flags.toVerbs(flags, inline, after == 0));
        boolean waits = (flags & Flags.DEFER) != 0 && !chain.full();
        ledger.add(context, operation.type(), silent, after == 0);
        return finished(chain, waits, after);
    }

    /** How many silent requests in a row there are after one more request; 0: it is signaled. */
    int unsignaledAfter(int before, boolean silent) {
        return silent && before + 1 < interval ? before + 1 : 0;
    }

    /** Posts the chain, unless its last request is deferred. */
    PostResult finished(SendChain chain, boolean waits, int unsignaledAfter) {
        if (waits) {
            deferring = true;
            unsignaled = unsignaledAfter;
            return PostResult.ACCEPTED;
        }
        PostResult refusal = postChain(chain, LAST_ASKS);
        if (refusal == PostResult.ACCEPTED) {
            unsignaled = unsignaledAfter;
        }
        return refusal;
    }

    // ---- refusals

    /**
     * Refuses a request that was not begun, for a reason that its caller has found; posts what was
     * deferred.
     *
     * @return the same refusal, or NOT_CONNECTED where the queue is closed
     */
    public PostResult refuseOutside(PostResult refusal) {
        checkStack();
        return run(this::postDeferredHere) ? refusal : PostResult.NOT_CONNECTED;
    }

    /** The same, with the lock. */
    PostResult refuse(PostResult refusal) {
        postDeferredHere();
        return refusal;
    }

    /** Posts what was deferred: a request was refused by an exception before it got here. */
    public void postDeferred() {
        checkStack();
        run(this::postDeferredHere);
    }

    /** The same, with the lock. Those requests were accepted: their posts have returned. */
    void postDeferredHere() {
        if (deferring) {
            postChain(deferred(), NONE_ASKS);
        }
    }

    /** A post has thrown, perhaps when its request was in a chain and the ledger already. */
    void afterException() {
        try {
            postDeferredHere();
            if (!single.isEmpty()) {
                postChain(single, NONE_ASKS);
            }
        } finally {
            single.clear(); // other queue pairs may use it, too
        }
    }

    /** Releases the lock, and announces what was synthesized under it. */
    @Override
    void leave() {
        if (announce) {
            announce = false;
            release();
            poller.announce();
        } else {
            release();
        }
    }

    /**
     * Posts a chain.
     *
     * @param asking which callers still wait for the answer, so that their requests may be refused
     *     without a completion
     */
    private PostResult postChain(SendChain chain, int asking) {
        PostResult result = handOver(chain, asking);
        chain.clear();
        deferring = false;
        return result;
    }

    /**
     * Posts a batch, whose requests are in the ledger.
     *
     * @param unsignaledAfter how many silent requests in a row there are behind it
     * @return {@link PostResult#ACCEPTED}, or a refusal: then none of them was posted, and none is
     *     in the ledger any more
     */
    PostResult postBatch(SendChain batch, int unsignaledAfter) {
        PostResult refusal = handOver(batch, ALL_ASK);
        if (refusal == PostResult.ACCEPTED) {
            unsignaled = unsignaledAfter;
        }
        return refusal;
    }

    private PostResult handOver(SendChain chain, int asking) {
        int answer = verbs.postSend(queuePair, chain.prepare(0), chain.badRequest());
        return chain.accepted(answer) ? PostResult.ACCEPTED : postRest(chain, answer, asking);
    }

    /**
     * The provider did not accept a chain as a whole: posts the rest again where that may help,
     * otherwise settles what becomes of each request.
     */
    private PostResult postRest(SendChain chain, int answer, int asking) {
        int posted = 0; // so many the provider has taken
        int errno = chain.takeBadRequest(posted, answer);
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
        return errno == 0 ? PostResult.ACCEPTED : settle(chain, errno, posted, asking);
    }

    /**
     * The provider refused a request of a chain, and with it all behind it. If the callers of all
     * these wait for the answer, they are taken back, and nothing else has happened. Otherwise
     * those whose posts have returned get synthesized completions, and the queue pair fails.
     *
     * @param posted how many of the chain it had taken before
     * @return what the post returns whose caller waits
     */
    private PostResult settle(SendChain chain, int errno, int posted, int asking) {
        boolean over = !connected(); // so a provider may refuse any request
        PostResult refusal = over ? PostResult.NOT_CONNECTED : PostResult.ofErrno(errno);
        int at = chain.refusedAt();
        int last = ledger.last();
        int first = last - chain.length() + 1;
        if (asking == ALL_ASK ? at == 0 : asking == LAST_ASKS && at == chain.length() - 1) {
            for (int sequence = last; sequence - (first + at) >= 0; sequence--) {
                ledger.takeBack();
            }
            return refusal; // nothing else has happened
        }
        boolean lastIsAsking = asking == LAST_ASKS;
        // Some of a batch may be posted.
        PostResult answer = asking == ALL_ASK ? PostResult.ACCEPTED : refusal;
        int status = over ? WorkCompletions.FLUSHED : WorkCompletions.GENERAL_ERROR;
        if (at == SendChain.UNKNOWN) {
            if (poller.refuse(ledger, first + posted, last, lastIsAsking, status)) {
                return PostResult.ACCEPTED; // whatever the provider meant: all have completed
            }
            end();
        } else {
            end();
            int lastSynthesized = last;
            if (lastIsAsking) {
                ledger.takeBack();
                lastSynthesized--;
                answer = PostResult.NOT_CONNECTED;
            }
            poller.synthesize(ledger, first + at, lastSynthesized, status);
        }
        if (asking != ALL_ASK) {
            chain.clear(); // first: after an exception, what it holds is not posted once more
            deferring = false;
        }
        fail();
        return answer;
    }

    /** The downcall: 0, or a positive errno, and {@link SendChain#refusedAt} says where. */
    private int post(SendChain chain, int first) {
        int answer = verbs.postSend(queuePair, chain.prepare(first), chain.badRequest());
        return chain.accepted(answer) ? 0 : chain.takeBadRequest(first, answer);
    }

    /**
     * Has the device flush what is outstanding: a request was lost. Where silent requests before it
     * may fail now, without a signal behind them, a request of this library's own follows: the
     * device reports it after their failures, and the lost requests are reported then.
     */
    private void fail() {
        announce = true;
        boolean follows = false;
        try {
            modifyToError.run();
            if (ledger.awaitsInternal()) {
                unsignaled = 0;
                follows = postInternal();
            }
        } finally {
            if (!follows && ledger.awaitsInternal()) {
                poller.awaitNoInternal(ledger);
            }
        }
    }

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
    public void refusePosts() {
        endByOwner(
                () -> {
                    postDeferredHere();
                    end();
                });
    }

    /** Refuses posts from now on, and has the owner do the rest. */
    private void endByOwner(Runnable rest) {
        checkStack();
        if (isForeign()) {
            end();
        }
        poller.ownerTasks().runByOwner(() -> run(rest));
    }

    /**
     * Refuses posts, and makes sure that {@link #drained} finds out: if the last request is silent
     * and unsignaled, a write of no bytes goes behind it. (A peer that accepts no writes at all
     * would refuse it, and end the connection, which is ending.)
     */
    public void drain() {
        endByOwner(
                () -> {
                    postDeferredHere();
                    end();
                    if (unsignaled > 0 && ledger.outstanding() > 0) {
                        var _ = postInternal();
                    }
                });
    }

    /**
     * Whether all requests have ended. Polls first; not on a confined queue, where only the owner
     * polls.
     */
    public boolean drained() {
        if (!isForeign()) {
            poller.drain();
        }
        return ledger.outstanding() == 0;
    }

    /**
     * Polls, and does what other threads have left for the owner of this confined queue.
     *
     * @return whether requests are outstanding, of this queue pair or of another one that reports
     *     to the same completion queue
     */
    public boolean serve() {
        poller.ownerTasks().runAll();
        poller.drain();
        return poller.sendsOutstanding();
    }

    /**
     * Posts a request of this library's own; nothing is deferred. A write of no bytes touches
     * nothing at the peer and needs no key, so it does no harm where the device carries it out.
     */
    private boolean postInternal() {
        single.begin(SendChain.WRITE);
        single.buffers(0, 0);
        single.remote(0, 0);
        single.finish(WorkId.of(ledger.queue(), ledger.addInternal()), SendChain.SIGNALED);
        boolean posted = post(single, 0) == 0;
        if (!posted) {
            ledger.takeBack();
        }
        single.clear();
        return posted;
    }

    /**
     * Closes the queue, and ends what is outstanding: by the device, or when the time is over by
     * this library.
     */
    public void closeAndFinish(long nanoseconds) {
        boolean open = true;
        try {
            open = flush();
        } finally { // also when an error ends the flush: what comes next destroys the queue pair
            close();
            if (open) {
                // Without the lock, so that a post on another thread does not wait for this.
                poller.finish(ledger, nanoseconds, WorkCompletions.FLUSHED);
            }
        }
    }

    /**
     * Refuses posts from now on, and ends what is outstanding as {@link #closeAndFinish} does.
     *
     * @param rest the status of what the device does not end
     */
    public void finish(long nanoseconds, int rest) {
        checkStack();
        if (flush()) {
            poller.finish(ledger, nanoseconds, rest);
        }
    }

    /** Has the device flush what is outstanding; false when the queue is closed. */
    private boolean flush() {
        return run(
                () -> {
                    postDeferredHere();
                    end();
                    if (ledger.outstanding() > 0) {
                        modifyToError.run();
                        // The last requests may be silent and unsignaled. In the error state this
                        // one is flushed behind them, and shows that all before it have been
                        // reported.
                        var _ = postInternal();
                    }
                });
    }
}
