package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Iterator;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One connection, from either side: applies {@link ConnectionTable} to calls, events and timers.
 *
 * <p>{@link #fire} looks a transition up and has {@link ConnectionActions} do what it says. One
 * step is outstanding at a time; its future ends by an event, its deadline, a close, or the end of
 * the event thread.
 *
 * <p>Any thread may call. Everything happens under this object's lock, except what may run code of
 * others: that is collected in an {@link Outcome} and runs after the lock is released.
 */
public final class ConnectionStateMachine implements ConnectionEvents.Handler {
    // Not a monitor: a peer may answer before the call that asked it has returned. The event thread
    // then waits for the rest of that call, and the JVM spins on a monitor for that long.
    private final ReentrantLock lock = new ReentrantLock();
    private final ConnectionActions actions; // under the lock, as is the state
    private ConnectionState state;

    /** Makes one that may connect. */
    public ConnectionStateMachine(ConnectionEvents events, String device) {
        this.actions = new ConnectionActions(this, events, device, request -> {});
        this.state = ConnectionState.IDLE;
    }

    /**
     * Makes one of a peer's request.
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
        actions.takeRequest(request, info);
    }

    // ---- calls

    /**
     * Begins to connect.
     *
     * @param queuePair this side's queue pair; released when it fails
     * @param sources the local addresses to try, one or more; null among them leaves it to the
     *     route. The next is asked for only when the last led nowhere, by the event thread
     * @param sharedAddress whether others connect from the same address and port
     * @param timeout how long it may take
     * @return ends when the peer has accepted
     * @throws Failure when it cannot begin
     */
    public CompletableFuture<Void> connect(
            QueuePairEnd queuePair,
            Iterator<@Nullable InetSocketAddress> sources,
            boolean sharedAddress,
            InetSocketAddress to,
            PrivateData data,
            Duration timeout)
            throws Failure {
        return begin(
                new ConnectionInput.Connect(queuePair, sources, sharedAddress, to, data, timeout));
    }

    /**
     * Establishes a connection that the peer has accepted.
     *
     * @param assumeInvalidatable whether the peer's tokens may be invalidated although it did not
     *     say so
     * @throws Failure when it cannot be established any more; the attempt has failed then
     */
    public void complete(boolean assumeInvalidatable) throws Failure {
        var _ = call(new ConnectionInput.Complete(assumeInvalidatable));
    }

    /**
     * Accepts a request.
     *
     * @param queuePair this side's queue pair; released when it fails
     * @param assumeInvalidatable whether the peer's tokens may be invalidated although it did not
     *     say so
     * @param timeout how long it may take
     * @throws Failure when it cannot be accepted any more
     */
    public CompletableFuture<Void> accept(
            QueuePairEnd queuePair, PrivateData data, boolean assumeInvalidatable, Duration timeout)
            throws Failure {
        return begin(new ConnectionInput.Accept(queuePair, data, assumeInvalidatable, timeout));
    }

    /**
     * Rejects a request, or a peer that has accepted.
     *
     * @throws Failure when there is nothing to reject, or not any more
     */
    public void reject(PrivateData data) throws Failure {
        var _ = call(new ConnectionInput.Reject(data));
    }

    /**
     * Ends the connection: waits for outstanding requests, but for half of the timeout, cancels the
     * rest, and calls rdma_disconnect.
     *
     * @param timeout how long it may take
     * @throws Failure when there is no connection
     */
    public CompletableFuture<Void> disconnect(Duration timeout) throws Failure {
        return begin(new ConnectionInput.Disconnect(timeout));
    }

    /**
     * Ends everything. A request or an acceptance is refused; a connection is cut, with word to the
     * peer.
     *
     * @param whenClosed run once, when everything is released
     */
    public void close(Runnable whenClosed) {
        apply(new ConnectionInput.Close(whenClosed));
    }

    /**
     * Gives up a step that its caller does not want any more.
     *
     * @param why the message of the failure that the future ends with
     */
    public void cancel(CompletableFuture<Void> which, String why) {
        failStep(which, ConnectionTrigger.CANCEL, () -> new Failure(Failure.Kind.CANCELLED, why));
    }

    /**
     * Sets what is called when this request is refused because it was not answered in time.
     *
     * @param callback gets the reason, outside of this object's lock
     */
    public void onExpired(Consumer<Failure> callback) {
        lock.lock();
        try {
            actions.onExpired(callback);
        } finally {
            lock.unlock();
        }
    }

    /** Refuses this request, unless it was answered. Later answers get the reason. */
    void expire(Failure why) {
        apply(new ConnectionInput.Failing(ConnectionTrigger.EXPIRE, why));
    }

    // ---- what can be asked

    /**
     * How the connection has ended.
     *
     * @return ends when an established connection does, and never fails
     */
    public CompletableFuture<CloseReason> closeReason() {
        return actions.closeReason();
    }

    /** What the peer said last: with the request, the reply, or the rejection. */
    public PeerParameters peerParameters() {
        return underLock(actions::peerParameters);
    }

    /**
     * This side's address.
     *
     * @return null while there is none
     */
    public @Nullable InetSocketAddress local() {
        return underLock(actions::local);
    }

    /**
     * The peer's address.
     *
     * @return as named by the caller or by the request, or null
     */
    public @Nullable InetSocketAddress peer() {
        return underLock(actions::peer);
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
        return underLock(this::describe);
    }

    private String describe() {
        InetSocketAddress peer = actions.peer();
        Failure reason = actions.storedReason();
        return (peer == null ? state.name() : "%s %s".formatted(state, peer))
                + (reason == null ? "" : " (%s)".formatted(reason.getMessage()));
    }

    // ---- events

    @Override
    public void handle(ConnectionEvent event) {
        Outcome outcome = new Outcome();
        lock.lock();
        try {
            if (actions.concerns(event)) {
                fireUnrefused(new ConnectionInput.Event(trigger(event), event), outcome);
            }
        } finally {
            leave(outcome);
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
        apply(
                new ConnectionInput.Failing(
                        ConnectionTrigger.EVENT_THREAD_ENDED, ConnectionEvents.broken(cause)));
    }

    /** Called by the thread that polled the completion of the failed request. */
    void workRequestFailed() {
        signal(ConnectionTrigger.WORK_REQUEST_FAILED);
    }

    void dataArrived() {
        signal(ConnectionTrigger.DATA_ARRIVED);
    }

    void deadline(ConnectionStep which) {
        failStep(
                which.future(),
                ConnectionTrigger.DEADLINE,
                () -> FailureMessages.deadline(state, actions.peer(), which.timeout()));
    }

    @SuppressWarnings("ReferenceEquality") // the step that is meant, or a later one
    private void failStep(
            CompletableFuture<Void> which, ConnectionTrigger trigger, Supplier<Failure> why) {
        Outcome outcome = new Outcome();
        lock.lock();
        try {
            ConnectionStep step = actions.step();
            if (step != null && step.future() == which) {
                fireUnrefused(new ConnectionInput.Failing(trigger, why.get()), outcome);
            }
        } finally {
            leave(outcome);
        }
    }

    void signal(ConnectionTrigger trigger) {
        apply(new ConnectionInput.Signal(trigger));
    }

    // ---- the machine

    /** Fires a call that begins a step, or joins one: the caller gets its future. */
    private CompletableFuture<Void> begin(ConnectionInput input) throws Failure {
        return Objects.requireNonNull(call(input));
    }

    /** Fires a call of this side; the caller gets the future, if there is one, or the failure. */
    private @Nullable CompletableFuture<Void> call(ConnectionInput input) throws Failure {
        Outcome outcome = new Outcome();
        lock.lock();
        try {
            fire(input, outcome);
        } finally {
            leave(outcome);
        }
        if (outcome.failure != null) {
            throw outcome.failure;
        }
        return outcome.result;
    }

    /** Fires an event, a timer or anything else that no caller waits for. */
    void apply(ConnectionInput input) {
        Outcome outcome = new Outcome();
        lock.lock();
        try {
            fireUnrefused(input, outcome);
        } finally {
            leave(outcome);
        }
    }

    /** Releases the lock, then runs what may run code of others. */
    private void leave(Outcome outcome) {
        lock.unlock();
        outcome.run();
    }

    private void fireUnrefused(ConnectionInput input, Outcome outcome) {
        try {
            fire(input, outcome);
        } catch (Failure f) {
            throw new AssertionError("only calls are refused", f);
        }
    }

    /**
     * Makes one transition, and those that follow from it.
     *
     * @throws Failure for a call that is refused: nothing has changed then
     */
    private void fire(ConnectionInput input, Outcome outcome) throws Failure {
        ConnectionState from = state;
        Transition transition = ConnectionTable.get(from, input.trigger());
        actions.check(transition.action(), input, from);
        state = transition.next();
        try {
            actions.perform(transition.action(), input, from, outcome);
        } catch (Failure f) {
            state = Objects.requireNonNull(transition.ifItFails()); // this action can fail
            actions.giveUp(f, outcome);
            outcome.failure = f;
        } catch (RuntimeException | Error e) { // out of memory, for example
            breakOff(e, transition, outcome);
            throw e;
        }
        ConnectionTrigger next = outcome.followedBy;
        outcome.followedBy = null;
        if (next != null) {
            fire(new ConnectionInput.Signal(next), outcome);
        }
    }

    /** Lets go of what an action had when it threw: its caller believes that nothing has begun. */
    private void breakOff(Throwable thrown, Transition transition, Outcome outcome) {
        ConnectionState otherwise = transition.ifItFails();
        if (otherwise != null) {
            state = otherwise;
            actions.giveUp(
                    new Failure(
                            Failure.Kind.ABORTED,
                            "A step of the connection threw; the cause says what",
                            thrown),
                    outcome);
        }
    }
}
