package dev.verbena.internal.queue;

import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.internal.verbs.ReceiveRequest;
import dev.verbena.internal.verbs.WorkCompletions;

import java.lang.ref.Reference;

/**
 * The receive queue of a queue pair. A receive that is posted to a flushed queue pair ends
 * cancelled, by this library: rxe's provider puts receives into a ring without telling the kernel,
 * which has flushed that ring already.
 */
public final class ReceiveQueue extends QueueLock {
    private final RequestLedger ledger;
    private final long queuePair;
    private final ReceiveRequest request;
    private final CompletionPoller poller;
    private final Domain domain;
    private final int maxBuffers;
    private volatile boolean flushed;

    /**
     * Makes an empty queue.
     *
     * @param domain the queue pair's protection domain
     * @param maxBuffers how many buffers a receive may name
     */
    public ReceiveQueue(
            RequestLedger ledger,
            long queuePair,
            ReceiveRequest request,
            CompletionPoller poller,
            Domain domain,
            int maxBuffers) {
        super(poller.lock().owner());
        this.ledger = ledger;
        this.queuePair = queuePair;
        this.request = request;
        this.poller = poller;
        this.domain = domain;
        this.maxBuffers = maxBuffers;
    }

    public RequestLedger ledger() {
        return ledger;
    }

    static PostResult check(Buffers buffers, int count, int maxBuffers, Domain domain) {
        if (count > maxBuffers) {
            return PostResult.TOO_MANY_BUFFERS;
        }
        if (!buffers.isOf(domain)) {
            return PostResult.OTHER_DOMAIN;
        }
        // Here rather than in a completion: that would be the end of the connection.
        if (!buffers.writable()) {
            return PostResult.NOT_WRITABLE;
        }
        return buffers.alive(count) ? PostResult.ACCEPTED : PostResult.ARENA_CLOSED;
    }

    public PostResult post(long context, Buffers buffers) {
        checkStack();
        if (!acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        boolean synthesized;
        try {
            int count = buffers.size(); // once: see Buffers
            PostResult refusal = check(buffers, count, maxBuffers, domain);
            if (refusal != PostResult.ACCEPTED) {
                return refusal;
            }
            if (ledger.full()) {
                return PostResult.FULL;
            }
            int sequence = ledger.add(context, OperationType.RECEIVE, false, true);
            synthesized = flushed;
            if (synthesized) {
                poller.synthesize(ledger, sequence, sequence, WorkCompletions.FLUSHED);
            } else {
                long id = WorkId.of(ledger.queue(), sequence);
                int answer = request.post(queuePair, id, buffers.address(), count);
                if (answer != 0) {
                    return refused(answer, sequence);
                }
            }
        } finally {
            release();
            Reference.reachabilityFence(buffers);
        }
        if (synthesized) {
            poller.announce();
        }
        return PostResult.ACCEPTED;
    }

    /**
     * A provider that refuses a receive names it in {@code bad_wr}. One that does not may have kept
     * it, and then its id must not be the next one's, too.
     */
    private PostResult refused(int errno, int sequence) {
        if (request.wasNamed()) {
            ledger.takeBack();
            return PostResult.ofErrno(errno);
        }
        return poller.refuse(ledger, sequence, sequence, true, WorkCompletions.GENERAL_ERROR)
                ? PostResult.ACCEPTED
                : PostResult.ofErrno(errno);
    }

    /** Whether receives are outstanding that are not known to be flushed. */
    public boolean waiting() {
        return !flushed && ledger.outstanding() > 0;
    }

    /**
     * Cancels receives that are posted from now on. The caller moves the queue pair to the error
     * state after this.
     *
     * @param modifyToError moves it there; on a confined queue the owner does so once more, when it
     *     polls next: it may have posted a receive beside this call
     */
    public void flush(Runnable modifyToError) {
        checkStack();
        if (isForeign()) {
            flushed = true;
            // Before the queue pair is destroyed, this is closed: then the task does nothing.
            poller.ownerTasks().add(() -> run(modifyToError));
        } else if (acquire()) {
            flushed = true;
            release();
        }
    }

    /**
     * Closes the queue, and ends what is outstanding.
     *
     * @param modifyToError moves the queue pair to the error state, so that the device flushes it
     */
    public void closeAndFinish(long nanoseconds, Runnable modifyToError) {
        close();
        if (ledger.outstanding() > 0) {
            modifyToError.run();
            poller.finish(ledger, nanoseconds, WorkCompletions.FLUSHED);
        }
    }

    /**
     * Ends what is outstanding on a flushed queue pair.
     *
     * @param rest the status of what the device does not end
     */
    public void finish(long nanoseconds, int rest) {
        checkStack();
        poller.finish(ledger, nanoseconds, rest);
    }
}
