package dev.verbena;

import dev.verbena.internal.queue.ArmState;
import dev.verbena.internal.queue.CompletionPump;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;
import dev.verbena.internal.verbs.Descriptors;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.EventWait;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.VerbsContext;

import java.time.Duration;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * How the consumer of one completion queue is woken: NDK's arm over {@code ibv_req_notify_cq} and a
 * completion channel.
 *
 * <p>Verbs tells nothing of completions that were there before it was asked, nothing of a broken
 * queue on the channel, and knows no joining of requests. So this class keeps what is armed, looks
 * at the queue before and after asking, and swallows events that were for this layer's own signals.
 *
 * <p>Its lock is held for moments only, never while waiting, and never while a callback runs.
 */
final class CompletionEvents {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    // How often failures are looked for where the device gives no event for them: see ask.
    private static final int LOOK_MILLISECONDS = 20;

    // Deaths without any completion are looked for by who has waited so long, then ever more
    // seldom:
    // each look is a system call for each queue pair.
    private static final int MOST_SELDOM_MILLISECONDS = 1280;

    // After a wait that failed the callback's thread waits again, doubling from one to the other.
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final CompletionQueue owner; // for messages
    private final DeviceControl control;
    private final VerbsContext context;
    private final Provider provider;
    private final CompletionPump pump;
    private final long queue;
    private final long channel;
    private final Runnable lookForDeaths;
    private final int descriptor;
    private final int alarm;
    private final Consumer<Status> callback; // or null
    private final EventWait wait; // of who sleeps, or collects for a loop of the consumer's

    // All of these under this object's lock.
    private int armed = ArmState.NONE; // until it has fired and the consumer was told
    private Status fired; // what the consumer is to be told; null while there is nothing
    private int callbacksBefore; // of arms before that have fired, too
    private int unread; // events that the device was asked for, less those taken from the channel
    private boolean freed;
    private boolean sleeping; // somebody has to be woken when it fires
    private boolean unheeded; // a wait has begun, and nobody has looked at what it brought
    private boolean collecting; // the consumer's own loop is about to be told
    private long seen; // how much had been staged when the consumer was told last
    private long failuresSeen;
    private int joined = -1; // the descriptor for a loop of the consumer's

    // Changed under the lock.
    private volatile Status broken;
    private volatile boolean ownLoop;
    private volatile boolean closed;
    private Thread thread;

    // The sleeping thread's.
    private int lookGap = LOOK_MILLISECONDS;
    private boolean failedToTake; // the event that was there: a removed device's is there for ever
    private long lastLook = System.nanoTime();

    CompletionEvents(
            CompletionQueue owner,
            DeviceControl control,
            VerbsContext context,
            Provider provider,
            CompletionPump pump,
            long queue,
            long channel,
            Consumer<Status> callback,
            Runnable lookForDeaths) {
        this.owner = owner;
        this.control = control;
        this.context = context;
        this.provider = provider;
        this.pump = pump;
        this.queue = queue;
        this.channel = channel;
        this.descriptor = control.channelDescriptor(channel);
        this.callback = callback;
        this.lookForDeaths = lookForDeaths;
        this.alarm = (int) VerbenaException.check(Descriptors.newAlarm(), "eventfd", "");
        try {
            this.wait = control.newWait(channel, alarm);
        } catch (Throwable t) {
            Descriptors.close(alarm);
            throw t;
        }
    }

    /** Starts the thread that runs the callback; {@code atEnd} is the last it does. */
    void start(ThreadFactory threads, String name, Runnable atEnd) {
        Thread callbacks = threads.newThread(() -> run(atEnd));
        callbacks.setName(name);
        callbacks.start();
        thread = callbacks;
    }

    /** Arms; true when it has fired at once. */
    synchronized boolean arm(NotifyType type) {
        if (fired != null) {
            supersede();
        }
        armed = ArmState.join(armed, type.value());
        if (broken != null) {
            fire(broken);
        } else if (armed != ArmState.ERRORS) {
            failuresSeen = pump.failuresEver();
            if (pump.waiting(seen)) {
                fire(Status.SUCCESS);
            } else {
                request(); // most often nothing is there: consumers poll until it is so
            }
            if (looksForFailures() && sleeping) {
                raise(); // the waiting thread has to look now and then
            }
        }
        return fired != null;
    }

    /**
     * The consumer arms again before it was told of what has fired. Without a callback that is
     * forgotten, and found again if it still holds: the consumer may have polled what it was for.
     * The callback comes once for each arm that has fired.
     */
    private void supersede() {
        if (callback != null) {
            callbacksBefore++;
            armed = ArmState.NONE;
            seen = pump.stagedEver();
        }
        fired = null;
        if (joined >= 0) {
            Descriptors.silence(alarm); // or the consumer's loop would wake for it
        }
    }

    /** Asks the device for an event, unless there is something to tell already. */
    private void ask() {
        if (fired == null && !fireIfWaiting()) {
            request();
        }
    }

    private void request() {
        if (!sleeping && !collecting) { // a thread that waits takes events itself
            takeUnread();
        }
        // A device that gives no event for failures under a solicited arm: whoever waits here looks
        // for them from time to time; who runs a loop of their own gets all events instead. One
        // that
        // gives none for solicited receives either is asked for all events, too.
        boolean solicitedOnly =
                armed == ArmState.SOLICITED
                        && !provider.solicitedMissesReceives()
                        && !(provider.solicitedMissesFailures() && ownLoop);
        int answer = context.requestNotify(queue, solicitedOnly);
        if (answer != 0) {
            fire(VerbenaException.statusOf(Math.abs(answer)));
            return;
        }
        unread++;
        fireIfWaiting(); // what came before the device heard of it gives no event
    }

    /**
     * Takes the events of completions that the consumer polled without waiting. They would end the
     * next wait at once, and the kernel would keep each of them until the channel is destroyed.
     *
     * <p>Takes one system call if an event was requested and nobody waited for it, otherwise none.
     * An event that is still on its way when the channel is found empty is not counted any more.
     * The channel stays bounded all the same: from then on each request takes one event and adds
     * one, so it never holds more than were on their way at one time, and two.
     */
    private void takeUnread() {
        while (unread > 0) {
            unread = control.takeEventIfThere(channel, wait) ? unread - 1 : 0;
        }
    }

    private boolean fireIfWaiting() {
        pump.drain();
        if (pump.broken()) {
            fire(Status.BUFFER_OVERFLOW);
            return true;
        }
        // Under SOLICITED too: nothing says of a completion whether it was solicited, and one
        // callback too many is better than one too few.
        if (pump.waiting(seen)) {
            fire(Status.SUCCESS);
            return true;
        }
        return false;
    }

    private void fire(Status status) {
        fired = status;
        // Two system calls less where the one who fires is the one who will be told.
        if (sleeping || (joined >= 0 && !collecting)) {
            raise();
        }
    }

    /** Returns what has fired, and null if nothing has; then nothing is armed any more. */
    private Status tell() {
        if (callbacksBefore > 0) {
            callbacksBefore--;
            return Status.SUCCESS;
        }
        Status status = fired;
        if (status != null) {
            fired = null;
            armed = ArmState.NONE;
            seen = pump.stagedEver();
        }
        return status;
    }

    /**
     * The same, except if the consumer has polled all that it fired for: then the queue stays
     * armed, and the wait goes on. A callback comes all the same: NDK promises one for each arm.
     */
    private Status tellUnlessPolled() {
        if (fired == Status.SUCCESS && callback == null && !pump.waiting(seen)) {
            fired = null;
            ask();
        }
        return tell();
    }

    private boolean armedForCompletions() {
        return armed == ArmState.ANY || armed == ArmState.SOLICITED;
    }

    private boolean looksForFailures() {
        return armed == ArmState.SOLICITED && provider.solicitedMissesFailures() && !ownLoop;
    }

    /**
     * An event of the device's was taken; finds out whether it is for the consumer. One at a time:
     * asking once brings one, and what is left keeps the descriptor readable.
     */
    private void heed(int taken) {
        if (taken > 0 && unread > 0) {
            unread--;
        }
        if (taken < 0) {
            fireIfArmed(VerbenaException.statusOf(-taken));
        } else if (armedForCompletions()) {
            ask(); // only this layer's own signals have come when it does not fire
        }
    }

    /** For what this device gives no event for. */
    private void fireIfFailed() {
        if (looksForFailures() && fired == null) {
            pump.drain();
            long failures = pump.failuresEver();
            if (failures != failuresSeen) {
                failuresSeen = failures;
                if (pump.waiting(seen)) { // else it was polled
                    fire(Status.SUCCESS);
                }
            }
        }
    }

    /** For who waits, where a death may come without any completion. */
    private void lookForDeathsNowAndThen(boolean eventCame) {
        long now = System.nanoTime();
        if (eventCame) {
            lookedAgo(LOOK_MILLISECONDS, now); // something lives: no need to look for a while
        } else if (now - lastLook >= TimeUnit.MILLISECONDS.toNanos(lookGap)) {
            lookForDeaths.run(); // not under the lock: what it finds may fire
            lookedAgo(Math.min(2 * lookGap, MOST_SELDOM_MILLISECONDS), System.nanoTime());
        }
    }

    private void lookedAgo(int gap, long now) {
        lookGap = gap;
        lastLook = now;
    }

    /** Completions came up that no device gives an event for. */
    synchronized void owed() {
        if (armed != ArmState.NONE) {
            pump.drain(); // they may stand behind some that were not polled
        }
        if (fired == null && armedForCompletions() && pump.waiting(seen)) {
            fire(Status.SUCCESS);
        }
    }

    /** The queue is of no use any more. */
    synchronized void breakDown(Status status) {
        broken = status;
        fireIfArmed(status);
    }

    private void fireIfArmed(Status status) {
        if (armed != ArmState.NONE) {
            fire(status);
        }
    }

    Status broken() {
        return broken;
    }

    boolean ownLoop() {
        return ownLoop;
    }

    /** How long to sleep at most, in milliseconds; negative is for ever. */
    private int patience(int milliseconds) {
        int look =
                looksForFailures()
                        ? LOOK_MILLISECONDS
                        : provider.forgetsLateReceives() ? lookGap : milliseconds;
        return milliseconds < 0 ? look : Math.min(look, milliseconds);
    }

    /** Looks for what an arm waits for, before its event wakes anybody; an overrun is such, too. */
    private boolean hasCome() {
        if (!armedForCompletions()) {
            return false;
        }
        pump.drain();
        return pump.broken() || pump.waiting(seen);
    }

    /**
     * Waits for whatever comes first. The lock is taken twice and no more: this is the data path of
     * who sleeps between messages.
     *
     * @param milliseconds how long at most; negative is for ever
     * @return what fired, or null when nothing did
     */
    private Status waitOnce(int milliseconds) {
        int most;
        boolean come;
        synchronized (this) {
            if (unheeded) { // the wait before was ended by an exception
                sleeping = false;
                heed(0); // perhaps it has taken the event, and nobody has looked what it was of
                unheeded = false;
            }
            Status told = tellUnlessPolled();
            if (told != null) {
                return told;
            }
            if (callback == null && armed == ArmState.NONE) {
                throw new IllegalStateException("Arm the completion queue before waiting for it");
            }
            most = patience(milliseconds);
            come = hasCome();
            if (come && pump.broken()) {
                fire(Status.BUFFER_OVERFLOW);
                return tell();
            }
            unheeded = true;
            sleeping = true;
        }
        // What has come has its event most often: asking for that at once spares poll(2). Where it
        // has none yet, or never will, being unsolicited, that is waited for as always.
        boolean taken = come && !closed && control.takeEventIfThere(channel, wait);
        int ready = taken || closed ? 0 : wait.await(most);
        if (ready < 0) {
            throw VerbenaException.of(
                    "poll",
                    ready,
                    "That was while waiting for %s; it may be waited for again".formatted(owner));
        }
        boolean eventCame = taken || ((ready & EventWait.EVENT) != 0 && !closed);
        int answer = eventCame && !taken ? control.takeEvent(channel, wait) : 1;
        failedToTake = answer < 0;
        if ((ready & EventWait.ALARM) != 0) {
            Descriptors.silence(alarm); // before the look at what it was raised for
        }
        if (provider.forgetsLateReceives() && !closed) {
            lookForDeathsNowAndThen(eventCame);
        }
        synchronized (this) {
            sleeping = false;
            if (closed) {
                return null;
            }
            if (eventCame) {
                heed(answer);
            }
            fireIfFailed();
            unheeded = false;
            return tellUnlessPolled(); // at last: an exception behind it would lose it
        }
    }

    private void run(Runnable atEnd) {
        try {
            long pause = SHORTEST_PAUSE;
            while (!closed) {
                try {
                    Status status = waitOnce(-1);
                    if (status != null && !closed) {
                        call(status);
                    }
                    if (!failedToTake) {
                        pause = SHORTEST_PAUSE;
                        continue;
                    }
                } catch (Throwable t) { // for a moment, most likely: of memory, say
                    Uncaught.report(t);
                }
                if (!closed) {
                    LockSupport.parkNanos(pause);
                    pause = Math.min(2 * pause, LONGEST_PAUSE);
                }
            }
        } finally {
            atEnd.run();
        }
    }

    /**
     * Calls back. A callback that is still polling or arming its queue when another thread closes
     * it has made no mistake: it is ended by an exception, which nobody has to hear of.
     */
    private void call(Status status) {
        try {
            callback.accept(status);
        } catch (ClosedException e) {
            if (!owner.isClosed()) {
                Uncaught.report(e);
            }
        } catch (Throwable t) {
            Uncaught.report(t);
        }
    }

    /** Waits until it has fired; IO_TIMEOUT when it has not. */
    Status await(Duration timeout) {
        if (callback != null) {
            throw new IllegalStateException("This completion queue tells its callback");
        }
        long left = TimeUnit.NANOSECONDS.convert(timeout); // for ever is 292 years
        long deadline = System.nanoTime() + left;
        while (true) {
            Status status = waitOnce(left <= 0 ? 0 : milliseconds(left));
            if (status != null) {
                return status;
            }
            if (closed) {
                throw new ClosedException(owner);
            }
            if (left <= 0) {
                return Status.IO_TIMEOUT;
            }
            left = deadline - System.nanoTime();
        }
    }

    /** Rather too long than too short: what is left at the end would be waited for in a loop. */
    private static int milliseconds(long nanoseconds) {
        return (int) Math.min(Integer.MAX_VALUE, TimeUnit.NANOSECONDS.toMillis(nanoseconds) + 1);
    }

    synchronized int descriptor() {
        if (callback != null) {
            throw new IllegalStateException("This completion queue tells its callback");
        }
        if (joined < 0) {
            joined =
                    (int)
                            VerbenaException.check(
                                    Descriptors.join(descriptor, alarm), "epoll_create1", "");
            ownLoop = true;
            if (armed == ArmState.SOLICITED) {
                ask(); // for all events from now on, where failures give none under SOLICITED
            }
        }
        return joined;
    }

    /** For a loop of the consumer's own; PENDING when nothing was for the consumer. */
    Status takeEvent() {
        synchronized (this) {
            collecting = true;
        }
        try {
            Descriptors.silence(alarm);
            int taken = control.takeEvent(channel, wait);
            synchronized (this) {
                heed(taken);
                Status status = tellUnlessPolled();
                return status == null ? Status.PENDING : status;
            }
        } finally {
            synchronized (this) {
                collecting = false;
            }
        }
    }

    /** Ends waiting, and waits for a callback that is running. */
    void close() {
        closed = true;
        raise();
        if (thread != null) {
            LockSupport.unpark(thread);
            if (!Threads.join(thread, PATIENCE)) {
                throw VerbenaException.stillRunning("its callback", PATIENCE);
            }
        }
    }

    /** Frees what this class holds; nobody waits any more. */
    synchronized void free() {
        freed = true;
        Descriptors.close(alarm);
        if (joined >= 0) {
            Descriptors.close(joined);
        }
    }

    /** Not after {@link #free}: the number may be somebody else's by then. */
    private synchronized void raise() {
        if (!freed) {
            Descriptors.raise(alarm);
        }
    }
}
