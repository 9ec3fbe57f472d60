package dev.verbena.internal.connect;

import dev.verbena.AdapterInfo;
import dev.verbena.ConnectionData;
import dev.verbena.ConnectionInfo;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionInput.Event;
import dev.verbena.internal.connect.ConnectionInput.Failing;
import dev.verbena.internal.connect.ConnectionTable.Transition;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One connection, from either side: applies {@link ConnectionTable} to calls, events and timers.
 *
 * <p>{@link #fire} looks a transition up and has {@link ConnectionActions} do what it says. One
 * step is outstanding at a time; its future completes by an event, its deadline, a close, or the
 * end of the event thread.
 *
 * <p>Any thread may call. Everything happens under this object's lock, except what may run code of
 * others: that is collected in an {@link Outcome} and runs after the lock is released.
 */
public final class ConnectionStateMachine implements ConnectionEvents.Handler {
    /**
     * What a trigger leaves behind: effects that run without the connection's lock, because they
     * may run code of others (futures of steps, callbacks, the release of a queue pair), and what a
     * caller gets.
     */
    static final class Outcome {
        private static final int MOST_EFFECTS = 8; // allocated before anything changes

        private @Nullable QueuePairHandle released; // before all other effects
        private boolean reusable;
        private final List<Runnable> effects = new ArrayList<>(MOST_EFFECTS);

        /** The future of the step that the caller waits for; null for a call that does not wait. */
        @Nullable CompletableFuture<Void> result;

        /** What the caller gets instead. */
        @Nullable VerbenaException failure;

        /** What the action found to have happened as well: fired next. */
        @Nullable ConnectionTrigger followedBy;

        void later(Runnable effect) {
            effects.add(effect);
        }

        void throwFailure() {
            if (failure != null) {
                throw failure;
            }
        }

        /** Releases a queue pair before all other effects: they may use it again. */
        void release(QueuePairHandle queuePair, boolean again) {
            released = queuePair;
            reusable = again;
        }

        private void run() {
            try {
                if (released != null) {
                    released.release(reusable && released.isFresh());
                }
            } finally {
                run(0);
            }
        }

        /** Runs the effects from an index on, even if an earlier one throws. */
        private void run(int from) {
            if (from < effects.size()) {
                try {
                    effects.get(from).run(); // perhaps an object's last close, which may fail
                } finally {
                    run(from + 1);
                }
            }
        }
    }

    // Not a monitor: a peer may answer before the call that asked it has returned. The event thread
    // then waits for the rest of that call, and the JVM spins on a monitor for that long.
    private final ReentrantLock lock = new ReentrantLock();
    private final ConnectionActions actions; // under the lock, as is the state
    private ConnectionState state;

    public ConnectionStateMachine(ConnectionEvents events, String device) {
        this.actions = new ConnectionActions(this, events, device, request -> {});
        this.state = ConnectionState.IDLE;
    }

    /**
     * Creates one for a peer's request.
     *
     * @param onAnswer called under the lock when the request is accepted, rejected, expired or lost
     */
    ConnectionStateMachine(
            ConnectionEvents events,
            String device,
            ConnectionEvent request,
            IdentifierInfo info,
            Consumer<ConnectionStateMachine> onAnswer) {
        this.actions = new ConnectionActions(this, events, device, onAnswer);
        this.state = ConnectionState.REQUESTED;
        lock.lock(); // other threads find it as soon as it is known by its identifier
        try {
            actions.takeRequest(request, info);
        } finally {
            lock.unlock();
        }
    }

    // ---- calls

    /**
     * Makes a call of this side.
     *
     * @return the step that waits for the peer; complete for a call that does not wait
     * @throws VerbenaException when the call is refused, and then nothing has changed; or when it
     *     fails, and then everything is released
     */
    public CompletableFuture<Void> call(ConnectionInput.Call call) {
        Outcome outcome = apply(call);
        outcome.throwFailure();
        return outcome.result == null ? CompletableFuture.completedFuture(null) : outcome.result;
    }

    /** Prepares a close of this side. Running it needs no more memory to begin. */
    public Runnable closing(Runnable whenClosed) {
        ConnectionInput close = new ConnectionInput.Close(whenClosed);
        Supplier<ConnectionInput> input = () -> close;
        Outcome outcome = new Outcome();
        return () -> {
            apply(input, outcome);
            outcome.throwFailure();
        };
    }

    /**
     * Cancels a step that its caller does not want any more, or the wait of a caller that joined
     * it; does nothing if it has ended.
     *
     * @param why the message of the failure that the future completes with
     */
    public void cancel(CompletableFuture<Void> step, String why) {
        Supplier<VerbenaException> reason = () -> new VerbenaException(Status.CANCELLED, why);
        if (step instanceof ConnectionStep.Joined) {
            step.completeExceptionally(reason.get());
        } else {
            failStep(step, ConnectionTrigger.CANCEL, reason);
        }
    }

    /**
     * Sets what is called when this request is refused because it was not answered in time.
     *
     * @param callback gets the reason, outside of this object's lock
     */
    public void onExpired(Consumer<VerbenaException> callback) {
        underLock(
                () -> {
                    actions.onExpired(callback);
                    return null;
                });
    }

    // ---- what can be asked

    /**
     * Adds a callback for the end of an established connection: called once, also if it has ended.
     *
     * @param callback called under this object's lock; leaves the program's code to other threads
     */
    public void onEnd(Consumer<CloseReason> callback) {
        underLock(
                () -> {
                    actions.onEnd(callback);
                    return null;
                });
    }

    /** The event by which the peer ended the connection, or "". */
    public String disconnectReason() {
        return underLock(actions::disconnectReason);
    }

    /** What the peer sent last: its request, its reply, or its rejection. */
    public ConnectionData peerData(AdapterInfo limits) {
        return underLock(() -> actions.peerData(limits));
    }

    /** This side's address, or null while there is none. */
    public @Nullable InetSocketAddress local() {
        return underLock(actions::local);
    }

    /** The peer's address, as named by the caller or by the request, or null. */
    public @Nullable InetSocketAddress peer() {
        return underLock(actions::peer);
    }

    /** A snapshot for the program; null without a connection and without an attempt. */
    @Nullable ConnectionInfo info() {
        return underLock(
                () -> {
                    ConnectionInfo.State shown = state.shown();
                    return shown == null ? null : actions.info(shown);
                });
    }

    ConnectionState state() {
        return underLock(() -> state);
    }

    private <T extends @Nullable Object> T underLock(Supplier<T> what) {
        lock.lock();
        try {
            return what.get();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public String toString() {
        return underLock(() -> state + actions.describe());
    }

    // ---- events, timers, and what other objects report

    @Override
    public void handle(ConnectionEvent event) {
        apply(() -> actions.concerns(event) ? input(event) : null);
    }

    private ConnectionInput input(ConnectionEvent event) {
        try {
            return new Event(trigger(event), event);
        } catch (RuntimeException | Error e) { // no memory to ask which device it is
            return new Failing(ConnectionTrigger.ADDRESS_ERROR, FailureMessages.thrown(e));
        }
    }

    /** What an event means depends on a fact or two beside its kind. */
    private ConnectionTrigger trigger(ConnectionEvent event) {
        ConnectionTrigger plain = ConnectionTrigger.of(event.kind());
        if (state == ConnectionState.RESOLVING_ADDRESS) {
            if (plain == ConnectionTrigger.ADDRESS_RESOLVED) {
                return actions.resolvedByOwnDevice()
                        ? plain
                        : ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE;
            }
            if (plain == ConnectionTrigger.ADDRESS_ERROR
                    && event.status() == -Errno.ETIMEDOUT
                    && actions.hasTimeLeft()) {
                return ConnectionTrigger.ADDRESS_TIMEOUT;
            }
        }
        return plain == ConnectionTrigger.PEER_DISCONNECTED && event.status() < 0
                ? ConnectionTrigger.DISCONNECT_UNANSWERED
                : plain;
    }

    @Override
    public void eventThreadEnded(Throwable cause) {
        fail(ConnectionTrigger.EVENT_THREAD_ENDED, FailureMessages.noEvents(cause));
    }

    /** Called when the deadline of a step has passed. */
    void deadline(ConnectionStep step) {
        failStep(
                step.future(),
                ConnectionTrigger.DEADLINE,
                () -> FailureMessages.deadline(state, actions.peer(), step.timeout()));
    }

    private void failStep(
            CompletableFuture<Void> step,
            ConnectionTrigger trigger,
            Supplier<VerbenaException> why) {
        apply(() -> actions.isOutstanding(step) ? new Failing(trigger, why.get()) : null);
    }

    /** Reports an event that fails a step or a request. */
    void fail(ConnectionTrigger trigger, VerbenaException why) {
        apply(new Failing(trigger, why));
    }

    /** Reports an event that has no data besides its trigger. */
    void signal(ConnectionTrigger trigger) {
        apply(trigger);
    }

    // ---- the machine

    Outcome apply(ConnectionInput input) {
        return apply(() -> input);
    }

    private Outcome apply(Supplier<? extends @Nullable ConnectionInput> input) {
        Outcome outcome = new Outcome();
        apply(input, outcome);
        return outcome;
    }

    /**
     * Fires an input, if there is one. Then, without the lock, runs its effects, because they may
     * call the code of others.
     *
     * @param input called under the lock
     */
    private void apply(Supplier<? extends @Nullable ConnectionInput> input, Outcome outcome) {
        lock.lock();
        try {
            ConnectionInput found = input.get();
            if (found != null) {
                fire(found, outcome);
            }
        } finally {
            lock.unlock();
            outcome.run();
        }
    }

    /**
     * Makes one transition, and the transitions that follow from it.
     *
     * @throws VerbenaException for a call that is refused: nothing has changed then
     */
    private void fire(ConnectionInput input, Outcome outcome) {
        ConnectionState from = state;
        Transition transition = ConnectionTable.get(from, input.trigger());
        actions.check(transition.action(), input, from);
        state = transition.next();
        try {
            actions.perform(transition.action(), input, from, outcome);
        } catch (RuntimeException | Error e) { // a failed call, or for example no memory
            ConnectionState otherwise = transition.ifItFails();
            if (otherwise != null) { // null: stays, or leads to next also after a failure
                state = otherwise;
                outcome.failure = FailureMessages.thrown(e);
                actions.fail(outcome.failure, true, outcome);
            }
            if (otherwise == null || !(e instanceof VerbenaException)) {
                throw e;
            }
        } finally {
            actions.count(from, transition.next(), state);
            ConnectionTrigger next = outcome.followedBy;
            outcome.followedBy = null;
            if (next != null) {
                fire(next, outcome);
            }
        }
    }
}
