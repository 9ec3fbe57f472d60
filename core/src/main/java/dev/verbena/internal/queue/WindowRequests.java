package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.queue.Operation.Flags;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.SendChain;

/**
 * The requests of a {@link SendQueue} that name a window: bind and invalidate. What such a request
 * changes at once is its window ({@link WindowTable}); all else of a request is the queue's.
 */
@SuppressWarnings("ReferenceEquality") // domains and queue pairs are the same or others
public final class WindowRequests {
    private final SendQueue queue;
    private final CompletionPoller receivePoller;

    /**
     * Makes them for a queue.
     *
     * @param receivePoller where its queue pair's receives are delivered: some of them invalidate
     */
    public WindowRequests(SendQueue queue, CompletionPoller receivePoller) {
        this.queue = queue;
        this.receivePoller = receivePoller;
    }

    public PostResult bind(
            long context,
            Window window,
            RegisteredMemory region,
            long offset,
            long length,
            int flags) {
        QueueLock.checkStack();
        if (!queue.acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        try {
            PostResult refusal = queue.admit(Operation.BIND, flags);
            if (refusal == PostResult.ACCEPTED) {
                refusal = check(queue.limits, window, region, offset, length, flags);
            }
            if (refusal == PostResult.ACCEPTED) {
                refusal = checkFree(window);
            }
            if (refusal != PostResult.ACCEPTED) {
                return queue.refuse(refusal);
            }
            if (!window.idle()) {
                // Providers read the window's old key when its bind is posted, so the bind before
                // must have been.
                queue.postDeferredHere();
                if (!queue.connected()) {
                    return queue.refuse(PostResult.NOT_CONNECTED);
                }
            }
            int error = prepare(window);
            if (error != 0) {
                return queue.refuse(PostResult.ofErrno(error));
            }
            SendChain chain = queue.chainFor(flags);
            chain.begin(SendChain.BIND);
            chain.bind(
                    window.address(),
                    window.nextToken(),
                    region.handle(),
                    region.start() + offset,
                    length,
                    windowRights(flags));
            return submit(chain, Operation.BIND, window, context, flags);
        } catch (RuntimeException | Error e) {
            queue.afterException();
            throw e;
        } finally {
            queue.leave();
        }
    }

    static PostResult check(
            SendLimits limits,
            Window window,
            RegisteredMemory region,
            long offset,
            long length,
            int flags) {
        if (window.domain() != limits.domain() || region.domain() != limits.domain()) {
            return PostResult.OTHER_DOMAIN;
        }
        int write = flags & Flags.ALLOW_REMOTE_WRITE;
        if (write != 0 && write != Flags.ALLOW_REMOTE_WRITE) {
            return PostResult.WRONG_WINDOW_RIGHTS;
        }
        if (offset < 0
                || length < 1
                || length > limits.maxWindowBytes()
                || offset > region.bytes() - length) {
            return PostResult.OUTSIDE_REGION;
        }
        if (!region.alive()) {
            return PostResult.ARENA_CLOSED;
        }
        return region.bindable() && (write == 0 || region.writable())
                ? PostResult.ACCEPTED
                : PostResult.REGION_NOT_BINDABLE;
    }

    /**
     * Makes a window ready. The queue pair that it was bound on before may be closing: for the
     * device the window may be bound there still, and it must be freed before that queue pair is
     * destroyed, by one of the two.
     */
    private int prepare(Window window) {
        Endpoint endpoint = queue.ledger.endpoint();
        if (window.queue() == endpoint) {
            return window.prepare(); // the close of this queue pair waits for our lock
        }
        synchronized (endpoint.windows()) {
            int error = window.prepare();
            if (error == 0) {
                endpoint.windows().claim(window, endpoint);
            }
            return error;
        }
    }

    private PostResult checkFree(Window window) {
        if (window.bound()) {
            receivePoller.drain(); // the peer may have invalidated it
        }
        if (window.bound()) {
            return PostResult.WINDOW_BOUND;
        }
        return window.idle() || window.queue() == queue.ledger.endpoint()
                ? PostResult.ACCEPTED
                : PostResult.WINDOW_BUSY;
    }

    private static int windowRights(int flags) {
        return ((flags & Flags.ALLOW_REMOTE_READ) != 0 ? Rights.REMOTE_READ : 0)
                | ((flags & Flags.ALLOW_REMOTE_WRITE) != 0 ? Rights.REMOTE_WRITE : 0);
    }

    /**
     * Posts an invalidate of a window. Never deferred: the longer it waits, the likelier it is that
     * the peer invalidates first, and it fails.
     */
    public PostResult invalidate(long context, Window window, int flags) {
        QueueLock.checkStack();
        if (!queue.acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        try {
            PostResult refusal = queue.admit(Operation.INVALIDATE, flags);
            if (refusal == PostResult.ACCEPTED) {
                receivePoller.drain();
                if (!window.bound() || window.queue() != queue.ledger.endpoint()) {
                    refusal = PostResult.WINDOW_NOT_BOUND;
                }
            }
            if (refusal != PostResult.ACCEPTED) {
                return queue.refuse(refusal);
            }
            int atOnce = flags & ~Flags.DEFER;
            SendChain chain = queue.chainFor(atOnce);
            chain.begin(SendChain.INVALIDATE);
            chain.invalidate(window.token());
            return submit(chain, Operation.INVALIDATE, window, context, atOnce);
        } catch (RuntimeException | Error e) {
            queue.afterException();
            throw e;
        } finally {
            queue.leave();
        }
    }

    /** Ends a request and posts it with all deferred ones, unless it is deferred itself. */
    private PostResult submit(
            SendChain chain, Operation operation, Window window, long context, int flags) {
        RequestLedger ledger = queue.ledger;
        boolean silent = (flags & Flags.SILENT_SUCCESS) != 0;
        int after = queue.unsignaledAfter(queue.unsignaled, silent);
        ledger.ensureWindows(); // what needs memory comes before the request is in the chain
        chain.finish(ledger.nextId(), Flags.toVerbs(flags, 0, after == 0));
        ledger.add(window, context, operation.type(), silent, after == 0);
        Endpoint endpoint = ledger.endpoint();
        if (operation.opcode() == SendChain.BIND) {
            endpoint.windows().bind(window, endpoint);
        } else {
            endpoint.windows().invalidate(window);
        }
        boolean waits = (flags & Flags.DEFER) != 0 && !chain.full();
        return queue.finished(chain, waits, after);
    }
}
