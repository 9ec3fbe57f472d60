package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.CallFailure;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.TimeUnit;

/**
 * Wakes the consumer of one completion queue: NDK's arm over {@code ibv_req_notify_cq} and a
 * completion channel.
 *
 * <p>Verbs gives no event for completions that were there before it was asked, none on the channel
 * for a broken queue, and does not join requests. So this class keeps what is armed, polls before
 * and after asking, and drops events that were for this library's own signals only.
 *
 * <p>Its lock is held for moments only, never while waiting, and never while a callback runs.
 *
 * <p>What fired is an {@code int}: {@link #SUCCESS}, {@link #OVERRUN}, {@link #FAILED}, or a
 * positive errno; {@link #NOTHING} when nothing has.
 */
public final class CompletionEvents {
    /** Nothing has fired. */
    public static final int NOTHING = Integer.MIN_VALUE;

    /** There is something to poll. */
    public static final int SUCCESS = 0;

    /** The completion queue overran. */
    public static final int OVERRUN = -1;

    /** The device failed. */
    public static final int FAILED = -2;

    private final VerbsContext context;
    private final Provider provider;
    private final CompletionPoller poller;
    private final long queue;
    private final EventSource source;
    private final @Nullable PrivateChannel own; // null: the queue is one of a shared channel
    private final Runnable lookForFailures;
    private final boolean calledBack; // each arm that has fired is to bring a callback

    // All of these under this object's lock.
    private int armed = ArmState.NONE; // until it has fired and the consumer was notified
    private int fired = NOTHING; // what the consumer is to be notified of
    private int callbacksBefore; // of arms before that have fired, too
    private int unread; // events that the device was asked for, less those taken from the channel
    private boolean freed;
    private boolean sleeping; // a thread waits, and has to be woken when it fires
    private boolean unchecked; // a wait has begun, and what it brought was not looked at yet
    private boolean collecting; // the consumer's own loop takes an event
    private long seen; // how much had been kept when the consumer was notified last
    private long failuresSeen;

    // Changed under the lock.
    private volatile int broken = NOTHING;
    private volatile boolean closed;

    // The sleeping thread's.
    private final LookSchedule schedule = new LookSchedule(System::nanoTime);
    private boolean failedToTake; // the event that was there: a removed device's is there for ever

    private CompletionEvents(
            VerbsContext context,
            Provider provider,
            CompletionPoller poller,
            long queue,
            EventSource source,
            boolean calledBack,
            Runnable lookForFailures) {
        this.context = context;
        this.provider = provider;
        this.poller = poller;
        this.queue = queue;
        this.source = source;
        this.own = source instanceof PrivateChannel channel ? channel : null;
        this.calledBack = calledBack;
        this.lookForFailures = lookForFailures;
    }

    /**
     * The events of a completion queue with a channel of its own.
     *
     * @param calledBack whether each arm that has fired is to bring a callback
     * @param lookForFailures looks for queue pairs that failed without a completion
     */
    public static CompletionEvents ofOwnChannel(
            DeviceControl control,
            VerbsContext context,
            Provider provider,
            CompletionPoller poller,
            long queue,
            long channel,
            boolean calledBack,
            Runnable lookForFailures) {
        return new CompletionEvents(
                context,
                provider,
                poller,
                queue,
                new PrivateChannel(control, channel),
                calledBack,
                lookForFailures);
    }

    /**
     * The events of a completion queue that shares its channel.
     *
     * @param queue the address of the {@code ibv_cq}, made with the context of the entry
     * @param lookForFailures looks for queue pairs that failed without a completion
     */
    public static CompletionEvents ofSharedChannel(
            VerbsContext context,
            Provider provider,
            CompletionPoller poller,
            long queue,
            SharedChannel<?>.Entry entry,
            Runnable lookForFailures) {
        return new CompletionEvents(
                context, provider, poller, queue, entry, false, lookForFailures);
    }

    /** What waits: not for a queue of a shared channel. */
    private PrivateChannel own() {
        if (own == null) {
            throw new IllegalStateException(
                    "This completion queue shares its channel with others: wait by CompletionChannel.await");
        }
        return own;
    }

    /** Arms. */
    public synchronized boolean arm(int type) {
        if (fired != NOTHING) {
            supersede();
        }
        armed = ArmState.join(armed, type);
        if (broken != NOTHING) {
            fire(broken);
        } else if (armed != ArmState.ERRORS) {
            failuresSeen = poller.counts().failuresEver();
            if (poller.waiting(seen)) {
                fire(SUCCESS);
            } else {
                request(); // most often nothing is there: consumers poll until it is so
            }
            if (looksForFailures() && sleeping) {
                raise(); // the waiting thread has to look now and then
            }
        }
        return fired != NOTHING;
    }

    /**
     * The consumer arms again before it was notified of what has fired. Without a callback that is
     * dropped, and found again if it still holds: the consumer may have polled what it was for.
     * With one, each arm that has fired brings a callback.
     */
    private void supersede() {
        if (calledBack) {
            callbacksBefore++;
            armed = ArmState.NONE;
            seen = poller.counts().keptEver();
        }
        fired = NOTHING;
        source.clear();
        raiseForTasks();
    }

    /** Has the consumer's own loop come for tasks whose raise was undone, or had nobody to wake. */
    private void raiseForTasks() {
        if (poller.ownerTasks().any() && ownLoop()) {
            raise();
        }
    }

    /** Asks the device for an event, unless something has fired already. */
    private void ask() {
        if (fired == NOTHING) {
            fireIfWaiting();
        }
        if (fired == NOTHING) {
            request();
        }
    }

    private void request() {
        if (unread > 0 && !sleeping && !collecting) { // a thread that waits takes events itself
            source.takeUnread(unread);
            unread = 0;
        }
        // A device may give no event for failures under a solicited arm: a thread that waits here
        // looks for them from time to time, and a loop of the consumer's gets all events instead. A
        // device that gives none for solicited receives either is asked for all events, too.
        boolean solicitedOnly =
                armed == ArmState.SOLICITED
                        && !provider.solicitedMissesReceives()
                        && !(provider.solicitedMissesFailures() && ownLoop());
        int answer = context.requestNotify(queue, solicitedOnly);
        if (answer != 0) {
            fire(Math.abs(answer));
            return;
        }
        unread++;
        fireIfWaiting(); // what came before the device heard of it gives no event
    }

    private void fireIfWaiting() {
        poller.drain();
        // Under SOLICITED too: nothing says of a completion whether it was solicited, and one
        // callback too many is better than one too few.
        if (poller.broken()) {
            fire(OVERRUN);
        } else if (poller.waiting(seen)) {
            fire(SUCCESS);
        }
    }

    private void fire(int status) {
        fired = status;
        // Saves two system calls where the thread that fires will itself be notified.
        if (sleeping || (ownLoop() && !collecting)) {
            raise();
        }
    }

    /** Takes what has fired; nothing is armed any more then. */
    private int takeFired() {
        if (callbacksBefore > 0) {
            callbacksBefore--;
            return SUCCESS;
        }
        int status = fired;
        if (status != NOTHING) {
            fired = NOTHING;
            armed = ArmState.NONE;
            seen = poller.counts().keptEver();
        }
        return status;
    }

    /**
     * The same, except if the consumer has polled all that it fired for: then the queue stays
     * armed, and the wait goes on. A callback comes all the same: NDK promises one for each arm.
     */
    private int takeFiredUnlessPolled() {
        if (fired == SUCCESS && !calledBack && !poller.waiting(seen)) {
            fired = NOTHING;
            ask();
        }
        return takeFired();
    }

    private boolean armedForCompletions() {
        return armed == ArmState.ANY || armed == ArmState.SOLICITED;
    }

    /** Whether no thread waits in {@link #waitOnce}. */
    private boolean ownLoop() {
        return own == null || isWatchedElsewhere();
    }

    private boolean looksForFailures() {
        return armed == ArmState.SOLICITED && provider.solicitedMissesFailures() && !ownLoop();
    }

    /**
     * Finds out whether the device's events are for the consumer. {@link #waitOnce} takes one at a
     * time: asking once brings one, and what is left keeps the descriptor readable.
     *
     * @param taken how many events were taken, or the negative errno of taking one
     */
    private void handleEvents(int taken) {
        if (taken < 0) {
            fireIfArmed(-taken);
            return;
        }
        unread = Math.max(0, unread - taken); // late ones are not counted any more
        if (armedForCompletions()) {
            ask(); // only this layer's own signals have come when it does not fire
        }
    }

    /** For what this device gives no event for. */
    private void fireIfFailed() {
        if (looksForFailures() && fired == NOTHING) {
            poller.drain();
            long failures = poller.counts().failuresEver();
            if (failures != failuresSeen) {
                failuresSeen = failures;
                if (poller.waiting(seen)) { // else it was polled
                    fire(SUCCESS);
                }
            }
        }
    }

    /** Completions came up that no device gives an event for. */
    public synchronized void synthesized() {
        if (fired == NOTHING && armedForCompletions()) {
            poller.drain(); // they may stand behind some that were not polled
            if (poller.waiting(seen)) {
                fire(SUCCESS);
            }
        }
    }

    /** Something is to be done by the thread that this confined queue belongs to. */
    public synchronized void wakeOwner() {
        if (sleeping || ownLoop()) {
            raise();
        }
    }

    /** The queue is broken. */
    public synchronized void breakDown(int status) {
        broken = status;
        fireIfArmed(status);
    }

    private void fireIfArmed(int status) {
        if (armed != ArmState.NONE) {
            fire(status);
        }
    }

    /**
     * Why the queue is broken.
     *
     * @return {@link #NOTHING} while it is not
     */
    public int broken() {
        return broken;
    }

    /**
     * Whether nobody looks for failures while the consumer waits: it has a loop of its own.
     *
     * @return true after {@link #descriptor}, or after that of a shared channel
     */
    public boolean isWatchedElsewhere() {
        return source.isWatchedElsewhere();
    }

    /** Whether {@link #close} was called. */
    public boolean closed() {
        return closed;
    }

    /** How long to sleep at most, in milliseconds; negative is for ever. */
    private int longestSleep(int milliseconds) {
        int look =
                looksForFailures()
                        ? LookSchedule.SHORTEST_MILLISECONDS
                        : provider.forgetsLateReceives()
                                ? schedule.gapMilliseconds()
                                : milliseconds;
        return milliseconds < 0 ? look : Math.min(look, milliseconds);
    }

    /** Looks for what an arm waits for, before its event wakes anybody; an overrun is such, too. */
    private boolean hasCome() {
        if (!armedForCompletions()) {
            return false;
        }
        poller.drain();
        return poller.broken() || poller.waiting(seen);
    }

    /**
     * Waits for an event, or until it is woken. Takes the lock twice and no more: for a consumer
     * that sleeps between messages this is the data path.
     *
     * @param milliseconds how long at most; negative is for ever
     * @return what fired, or {@link #NOTHING}
     * @throws CallFailure when waiting failed; it may be tried again
     */
    public int waitOnce(int milliseconds) {
        PrivateChannel channel = own();
        int most;
        boolean come;
        synchronized (this) {
            if (unchecked) { // the wait before was ended by an exception
                sleeping = false;
                handleEvents(0); // perhaps it has taken the event, and not looked what it was for
                unchecked = false;
            }
            int before = takeFiredUnlessPolled();
            if (before != NOTHING) {
                return before;
            }
            if (!calledBack && armed == ArmState.NONE) {
                throw new IllegalStateException("Arm the completion queue before waiting for it");
            }
            most = longestSleep(milliseconds);
            come = hasCome();
            if (come && poller.broken()) {
                fire(OVERRUN);
                return takeFired();
            }
            if (poller.ownerTasks().any()) {
                return NOTHING; // to be done by the caller, before it sleeps
            }
            unchecked = true;
            sleeping = true;
        }
        // What has come has its event most often: asking for that at once spares poll(2). Where it
        // has none yet, or never will, being unsolicited, that is waited for as always.
        boolean taken = come && !closed && channel.takeIfThere();
        int ready = taken || closed ? 0 : channel.await(most);
        if (ready < 0) {
            throw new CallFailure("poll", -ready);
        }
        boolean eventCame = taken || ((ready & EventWait.EVENT) != 0 && !closed);
        int answer = eventCame && !taken ? channel.take() : 1;
        failedToTake = answer < 0;
        if ((ready & EventWait.WAKE_UP) != 0) {
            channel.lower(); // before the look at what it was raised for
        }
        if (provider.forgetsLateReceives() && !closed) {
            if (eventCame) {
                schedule.eventCame(lookForFailures);
            } else {
                schedule.look(lookForFailures); // not under the lock: what it finds may fire
            }
        }
        synchronized (this) {
            sleeping = false;
            if (closed) {
                return NOTHING;
            }
            if (eventCame) {
                handleEvents(answer);
            }
            fireIfFailed();
            unchecked = false;
            return takeFiredUnlessPolled(); // at last: an exception behind it would lose it
        }
    }

    /**
     * Whether the last wait found an event that could not be taken: it is there still, and the next
     * wait ends at once.
     *
     * @return for the waiting thread only
     */
    public boolean failedToTake() {
        return failedToTake;
    }

    /**
     * Waits until it has fired, or the queue is closed.
     *
     * @return what fired, or {@link #NOTHING}
     * @throws CallFailure when waiting failed; it may be tried again
     */
    public int await(long nanoseconds) {
        long left = nanoseconds;
        long deadline = System.nanoTime() + left;
        while (true) {
            int status = waitOnce(left <= 0 ? 0 : milliseconds(left));
            if (status != NOTHING || closed) {
                return status;
            }
            if (!poller.ownerTasks().runAll() && left <= 0) {
                return NOTHING;
            }
            left = deadline - System.nanoTime();
        }
    }

    /** Rounded up: what is left at the end would be waited for in a loop. */
    static int milliseconds(long nanoseconds) {
        return (int) Math.min(Integer.MAX_VALUE, TimeUnit.NANOSECONDS.toMillis(nanoseconds) + 1);
    }

    /**
     * The descriptor for a loop of the consumer's.
     *
     * @throws CallFailure when there is none to be had
     */
    public synchronized int descriptor() {
        PrivateChannel channel = own();
        boolean first = !ownLoop();
        int joined = channel.joinedDescriptor();
        if (first) {
            if (fired != NOTHING) {
                raise(); // there was nobody yet to wake for it
            } else if (armed == ArmState.SOLICITED) {
                ask(); // for all events from now on, where failures give none under SOLICITED
            }
            raiseForTasks();
        }
        return joined;
    }

    /**
     * Takes an event, for a loop of the consumer's.
     *
     * @return what fired, or {@link #NOTHING} when the event was not for the consumer
     */
    public int takeEvent() {
        PrivateChannel channel = own();
        synchronized (this) {
            collecting = true;
        }
        try {
            channel.lower();
            return collect(channel.take());
        } catch (RuntimeException | Error e) {
            collectAgain();
            throw e;
        }
    }

    /** An exception has ended the look: whatever there is, the loop comes again. */
    private synchronized void collectAgain() {
        collecting = false;
        raise();
    }

    /**
     * Looks whether it has fired. Under one lock: what fires, or is left, after it wakes again.
     *
     * @param events how many of this queue's were taken from the channel, or the negative errno of
     *     taking one
     * @return what fired, or {@link #NOTHING}
     */
    public synchronized int collect(int events) {
        if (closed) {
            return NOTHING;
        }
        collecting = true;
        try {
            handleEvents(events);
            return takeFiredUnlessPolled();
        } finally {
            collecting = false;
            raiseForTasks(); // which were left since the caller looked
        }
    }

    /** The channel of this queue does not work any more: fires if it is armed. */
    public synchronized void channelFailed(int errno) {
        fireIfArmed(errno);
    }

    /** Ends waiting. */
    public void close() {
        closed = true;
        raise();
    }

    /** Frees the descriptors; no thread waits any more. */
    public synchronized void free() {
        freed = true;
        source.free();
    }

    /** Not after {@link #free}: another file may have the number by then. */
    private synchronized void raise() {
        if (!freed) {
            source.raise();
        }
    }
}
