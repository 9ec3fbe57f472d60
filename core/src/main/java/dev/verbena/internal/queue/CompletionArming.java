package dev.verbena.internal.queue;

import dev.verbena.NotifyType;
import dev.verbena.PostResult;
import dev.verbena.Status;
import dev.verbena.internal.util.Members;
import dev.verbena.internal.util.Uncaught;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * What one completion queue is armed for, and whether it has fired: NDK's arm over {@code
 * ibv_req_notify_cq}. Its {@link EventChannel} does the waiting.
 *
 * <p><b>The arm race.</b> {@code ibv_req_notify_cq} has the device raise an event for completions
 * that come after it. One that comes between the consumer's last empty poll and that call would
 * wake nobody. So {@link #request} polls after the call, and the queue fires if there is something;
 * the poller keeps it for the consumer.
 *
 * <p>Verbs raises no event on the channel for a broken queue, and does not combine two arms either.
 * So this class keeps what is armed, and drops events that were raised for internal signals only.
 *
 * <p>Its lock is held briefly, never during a wait, and never while a callback runs.
 */
public class CompletionArming implements EventChannel.Member, CompletionPoller.Listener {
    /** How long the device has, after an overrun of the queue, for what is outstanding. */
    private static final long BREAK_DOWN = TimeUnit.SECONDS.toNanos(1);

    private final VerbsContext context;
    private final CompletionPoller poller;
    private final Members<NativeQueuePair> queuePairs = new Members<>();
    private final long queue;
    private final EventChannel<?>.Entry entry;
    private final boolean calledBack; // each arm that fired gets a callback

    // Guarded by this object.
    private @Nullable NotifyType armed; // until the consumer was notified
    private @Nullable Status fired; // what the consumer is to be notified of
    private int callbacksBefore; // of earlier arms that have fired, too
    private Status before = Status.SUCCESS; // of those: a failure if one of them has fired with it
    private int unread; // events that were requested and not taken from the channel
    private boolean collecting; // the result is returned at once: no thread has to be woken
    private long seen; // how much had been kept when the consumer was last notified
    private boolean closed;

    private Status last = Status.SUCCESS; // of the waiting thread
    private volatile @Nullable Status broken; // changed under the lock

    /**
     * The events of a completion queue, and its poller.
     *
     * @param queue the address of the {@code ibv_cq}, created with the context of the entry
     * @param owner the thread that the queue is confined to, or null
     * @param calledBack whether each arm that fired gets a callback
     */
    public CompletionArming(
            QueueDevice device,
            long queue,
            @Nullable Thread owner,
            EventChannel<?>.Entry entry,
            boolean calledBack) {
        this.context = device.context();
        this.queue = queue;
        this.entry = entry;
        this.calledBack = calledBack;
        this.poller = new CompletionPoller(device, queue, owner, this);
    }

    public CompletionPoller poller() {
        return poller;
    }

    /** The address of the {@code ibv_cq}. */
    long address() {
        return queue;
    }

    public Members<NativeQueuePair> queuePairs() {
        return queuePairs;
    }

    /**
     * Arms.
     *
     * @return whether the queue has fired
     */
    public synchronized boolean arm(NotifyType type) {
        if (fired != null) {
            supersede(fired);
        }
        armed = join(armed, type);
        Status failure = broken;
        if (failure != null) {
            fire(failure);
        } else if (armed != NotifyType.ERRORS) {
            if (poller.waiting(seen)) {
                fire(Status.SUCCESS);
            } else {
                request(); // usually nothing is there: consumers poll until the queue is empty
            }
        }
        return fired != null;
    }

    /** ANY includes all others, SOLICITED includes ERRORS. */
    static NotifyType join(@Nullable NotifyType armed, NotifyType asked) {
        boolean included = armed == NotifyType.ANY || asked == NotifyType.ERRORS;
        return armed != null && included ? armed : asked;
    }

    /**
     * The consumer arms again before it was notified. Without a callback the notification is
     * dropped, because the consumer may have polled the completions; if they are still there, the
     * queue fires again. With a callback, each arm that fired gets its own.
     */
    private void supersede(Status status) {
        fired = null;
        if (calledBack) {
            before = callbacksBefore == 0 || status != Status.SUCCESS ? status : before;
            callbacksBefore++;
            armed = null;
            seen = poller.counts().keptEver();
            return;
        }
        entry.clear();
        if (poller.ownerTasks().any()) {
            entry.raise();
        }
    }

    /** Requests an event, unless the queue has fired. */
    private void ask() {
        fireIfWaiting();
        if (fired == null) {
            request();
        }
    }

    private void request() {
        unread = entry.takeUnread(unread);
        int answer = context.requestNotify(queue, armed == NotifyType.SOLICITED);
        if (answer != 0) {
            fire(PostResult.ofErrno(Math.abs(answer)).status());
            return;
        }
        unread++;
        fireIfWaiting(); // the arm race
    }

    /**
     * Under SOLICITED too: a completion does not tell whether it was solicited, and one callback
     * too many is better than one too few.
     */
    private void fireIfWaiting() {
        if (fired == null && armedForCompletions()) {
            poller.drain();
            if (poller.broken()) {
                fire(Status.BUFFER_OVERFLOW);
            } else if (poller.waiting(seen)) {
                fire(Status.SUCCESS);
            }
        }
    }

    private void fire(Status status) {
        fired = status;
        if (!collecting) {
            entry.raise();
        }
    }

    private void fireIfArmed(Status status) {
        if (armed != null) {
            fire(status);
        }
    }

    private boolean armedForCompletions() {
        return armed == NotifyType.ANY || armed == NotifyType.SOLICITED;
    }

    /** For which completions the queue is armed; null when it is not. */
    public synchronized @Nullable NotifyType armed() {
        return armed;
    }

    /**
     * Whether {@link #arm} was called and the consumer was not notified since.
     *
     * @return false if a wait would never end
     */
    public synchronized boolean isAwaited() {
        return armed != null || fired != null;
    }

    // ---- the waiting thread

    @Override
    public boolean collect(int events) {
        poller.ownerTasks().runAll(); // first: they may bring completions
        synchronized (this) {
            if (closed) {
                return false;
            }
            collecting = true;
            try {
                if (events > 0) {
                    unread = Math.max(0, unread - events); // late ones are not counted
                    if (armedForCompletions()) {
                        ask(); // if only internal signals came, this requests another event
                    }
                } else {
                    fireIfWaiting();
                }
                Status taken = takeFired();
                last = taken != null ? taken : last;
                return taken != null;
            } finally {
                collecting = false;
                if (fired != null || callbacksBefore > 0) {
                    entry.raise(); // for the next callback, or because the check failed
                }
            }
        }
    }

    /**
     * Takes what has fired; then nothing is armed. If the consumer has polled everything since, the
     * queue stays armed instead. A callback is called in any case: NDK promises one for each arm.
     */
    private @Nullable Status takeFired() {
        if (callbacksBefore > 0) {
            callbacksBefore--;
            return before;
        }
        if (fired == Status.SUCCESS && !calledBack && !poller.waiting(seen)) {
            fired = null;
            ask();
        }
        Status status = fired;
        if (status != null) {
            fired = null;
            armed = null;
            seen = poller.counts().keptEver();
        }
        return status;
    }

    /** The status with which the queue last fired. For the waiting thread only. */
    public Status last() {
        return last;
    }

    @Override
    public synchronized boolean expectsEvent() {
        if (closed || fired != null || !armedForCompletions()) {
            return false;
        }
        poller.drain();
        if (poller.broken()) {
            fire(Status.BUFFER_OVERFLOW); // at once: the device may raise no event
            return false;
        }
        return poller.waiting(seen);
    }

    @Override
    public synchronized void channelFailed(int errno) {
        fireIfArmed(PostResult.ofErrno(errno).status());
    }

    // ---- other threads

    @Override
    public synchronized void synthesized() {
        fireIfWaiting();
    }

    @Override
    public void wakeOwner() {
        entry.raise();
    }

    /**
     * Marks the queue as broken. First ends the outstanding requests of its queue pairs, so a
     * notified consumer finds all their completions here. What one of them throws is reported as
     * uncaught: it must not keep the others, nor the failure, from the consumer.
     *
     * @param overrun whether the queue overran; otherwise the device has failed
     */
    public void breakDown(boolean overrun) {
        try {
            endAll(overrun);
        } finally {
            breakDown(overrun ? Status.BUFFER_OVERFLOW : Status.INTERNAL_ERROR);
        }
        if (overrun) { // otherwise the connection manager says that the device is gone
            queuePairs.all().forEach(each -> Uncaught.run(each::reportFailure));
        }
    }

    private void endAll(boolean overrun) {
        List<NativeQueuePair> all = queuePairs.all();
        all.forEach(each -> Uncaught.run(each::breakDown));
        int lost = overrun ? CompletionStatus.LOST : WorkCompletions.GENERAL_ERROR;
        long timeout = overrun ? BREAK_DOWN : NativeQueuePair.FAILED_DEVICE_TIMEOUT;
        long start = System.nanoTime();
        for (NativeQueuePair each : all) {
            Uncaught.run(() -> each.finish(this, timeout - (System.nanoTime() - start), lost));
        }
    }

    /** The queue is broken: it overran, or its device failed. */
    synchronized void breakDown(Status status) {
        broken = status;
        fireIfArmed(status);
    }

    /** Why the queue is broken; null while it is not. */
    public @Nullable Status broken() {
        return broken;
    }

    /** Ends the use of the native queue, which may be destroyed afterwards. */
    public synchronized void close() {
        closed = true;
    }
}
