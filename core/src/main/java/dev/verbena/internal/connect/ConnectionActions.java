package dev.verbena.internal.connect;

import dev.verbena.AdapterInfo;
import dev.verbena.ConnectionData;
import dev.verbena.ConnectionInfo;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionEvents.Identifier;
import dev.verbena.internal.connect.ConnectionInput.Accept;
import dev.verbena.internal.connect.ConnectionInput.Close;
import dev.verbena.internal.connect.ConnectionInput.Complete;
import dev.verbena.internal.connect.ConnectionInput.Connect;
import dev.verbena.internal.connect.ConnectionInput.Disconnect;
import dev.verbena.internal.connect.ConnectionInput.Event;
import dev.verbena.internal.connect.ConnectionInput.Failing;
import dev.verbena.internal.connect.ConnectionInput.Reject;
import dev.verbena.internal.connect.ConnectionStateMachine.Outcome;
import dev.verbena.internal.connect.ConnectionTable.Action;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.IdentifierInfo;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * What a connection does on a trigger: one method for each {@link Action}, on the identifier, the
 * queue pair and the step that the connection has at the time.
 *
 * <p>Knows no states and takes no lock: {@link ConnectionStateMachine} calls it, under its lock.
 */
final class ConnectionActions {
    // How long the peer may take to confirm a close: the kernel repeats the message after 4.3 s.
    private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(10);

    private final ConnectionStateMachine machine;
    private final ConnectionEvents events;
    private final String device;
    private Consumer<ConnectionStateMachine> onAnswer;

    private boolean inbound; // the peer asked for the connection
    private boolean wasEstablished;
    private @Nullable Identifier identifier;
    private @Nullable QueuePairHandle queuePair;
    private @Nullable ConnectionStep step;
    private @Nullable AddressResolution resolution; // of the last connect
    private @Nullable IdentifierInfo resolved; // by the last address resolution
    private @Nullable PrivateData requestData; // of the last connect
    private @Nullable InetSocketAddress peer;
    private boolean bound; // the identifier has this side's address
    private ConnectionData peerData = PrivateData.NONE; // what it sent last
    private boolean assumeInvalidatable;
    private @Nullable VerbenaException storedReason;
    private String disconnectReason = "";
    private @Nullable CloseReason endReason; // of an established connection
    private @Nullable Consumer<CloseReason> onEnd;
    private Timers.@Nullable Timer closeTimer;
    private Runnable whenClosed = () -> {};
    private Consumer<VerbenaException> onExpired = why -> {};

    ConnectionActions(
            ConnectionStateMachine machine,
            ConnectionEvents events,
            String device,
            Consumer<ConnectionStateMachine> onAnswer) {
        this.machine = machine;
        this.events = events;
        this.device = device;
        this.onAnswer = onAnswer;
    }

    /** Takes over a peer's request. */
    void takeRequest(ConnectionEvent request, IdentifierInfo info) {
        inbound = true;
        peer = info.peer();
        bound = true;
        peerData = PrivateData.read(request, request.inboundReads(), request.outboundReads());
        // Last: when something above throws, the caller destroys the identifier.
        identifier = events.adopt(request.id(), machine);
    }

    // ---- what the machine asks

    /** Whether an event is about this attempt, and not about one before it. */
    boolean concerns(ConnectionEvent event) {
        return identifier != null && identifier.key() == event.key();
    }

    /** Whether the way to the peer leads by the adapter's device. */
    boolean resolvedByOwnDevice() {
        IdentifierInfo found = identifier().describe();
        resolved = found;
        return found.device().equals(device);
    }

    /** Whether a future belongs to the outstanding step, and not to an earlier one. */
    @SuppressWarnings("ReferenceEquality")
    boolean isOutstanding(CompletableFuture<Void> future) {
        return step != null && step.future() == future;
    }

    /** Whether the deadline of the step that is outstanding is still to come. */
    boolean hasTimeLeft() {
        return outstandingStep().hasTimeLeft();
    }

    void onEnd(Consumer<CloseReason> callback) {
        if (endReason != null) {
            callback.accept(endReason);
        } else {
            onEnd = onEnd == null ? callback : onEnd.andThen(callback);
        }
    }

    String disconnectReason() {
        return disconnectReason;
    }

    ConnectionData peerData(AdapterInfo limits) {
        return new ConnectionData(
                peerData.privateData(),
                peerData.exact(),
                peerInvalidatable(),
                Math.min(peerData.inboundReads(), limits.maxInboundReads()),
                Math.min(peerData.outboundReads(), limits.maxOutboundReads()));
    }

    @Nullable InetSocketAddress local() {
        return bound ? identifier().describe().local() : null;
    }

    @Nullable InetSocketAddress peer() {
        return peer;
    }

    ConnectionInfo info(ConnectionInfo.State shown) {
        return new ConnectionInfo(
                local(), peer, shown, inbound, queuePair == null ? 0 : queuePair.traits().number());
    }

    /** Counts what a transition led to; {@code next} is the state that it was to lead to. */
    void count(ConnectionState from, ConnectionState next, ConnectionState to) {
        if (to == ConnectionState.ESTABLISHED && from.connecting()) {
            wasEstablished = true;
            events.counts().established(inbound);
        } else if ((from.connecting() || next.connecting()) && !to.connecting()) {
            events.counts().attemptFailed();
        }
    }

    String describe() {
        return (peer == null ? "" : " " + peer)
                + (storedReason == null ? "" : " (%s)".formatted(storedReason.getMessage()));
    }

    void onExpired(Consumer<VerbenaException> callback) {
        onExpired = callback;
    }

    /** Throws when an action cannot begin. */
    void check(Action action, ConnectionInput input, ConnectionState state) {
        switch (action) {
            case REFUSE -> throw FailureMessages.refusal(input.trigger(), state);
            case REFUSE_WITH_REASON -> throw reasonAgain();
            case REFUSE_SECOND_CLOSE -> throw new IllegalStateException("closed twice");
            case START_CONNECT ->
                    ((Connect) input).data().checkLength(PrivateData.REQUEST_BYTES, "connecting");
            case SEND_REPLY -> {
                events.ensureAlive();
                reply(((Accept) input).data()).checkLength(PrivateData.REPLY_BYTES, "accepting");
            }
            case SEND_REJECT ->
                    reply(((Reject) input).data())
                            .checkLength(PrivateData.REJECT_BYTES, "rejecting");
            case START_DRAIN -> events.ensureAlive();
            default -> {}
        }
    }

    private PrivateData reply(PrivateData data) {
        return data.replyTo(peerData.exact());
    }

    /** Does what a transition says; {@code from} is the state before it. */
    void perform(Action action, ConnectionInput input, ConnectionState from, Outcome outcome) {
        switch (action) {
            case IGNORE, REFUSE, REFUSE_WITH_REASON, REFUSE_SECOND_CLOSE -> {}
            case START_CONNECT -> startConnect((Connect) input, outcome);
            case RESOLVE_AGAIN -> resolve();
            case RESOLVE_FROM_NEXT -> resolveFromNext(reason(input, from));
            case RESOLVE_ROUTE -> resolveRoute();
            case SEND_REQUEST -> sendRequest();
            case TAKE_RESPONSE -> takeResponse(((Event) input).event(), outcome);
            case ESTABLISH -> establish((Complete) input, outcome);
            case SEND_REPLY -> sendReply((Accept) input, outcome);
            case OPEN_QUEUE_PAIR -> openQueuePair(outcome);
            case NOTIFY_DATA -> events.control().notifyEstablished(identifier().id());
            case SEND_REJECT -> sendReject((Reject) input, outcome);
            case EXPIRE_REQUEST -> expireRequest(reason(input, from), outcome);
            case STORE_REASON -> storedReason = reason(input, from);
            case FAIL -> fail(reason(input, from), true, outcome);
            case FAIL_WITH_REASON -> throw reasonAgain();
            case START_DRAIN -> startDrain((Disconnect) input, outcome);
            case CHECK_DRAIN -> checkDrain(outcome);
            case FLUSH_AND_DISCONNECT -> flushAndDisconnect(outcome);
            case CONFIRM_DISCONNECT -> confirmDisconnect(outcome);
            case FINISH_DISCONNECT -> finishDisconnect(outcome);
            case JOIN_DISCONNECT -> joinDisconnect((Disconnect) input, from, outcome);
            case FLUSH_AND_RELEASE -> flushAndRelease(outcome);
            case REPORT_END -> reportEnd(((Event) input).event());
            case REPORT_FAILED_REQUEST -> reportFailedRequest();
            case REPORT_LOST_EVENTS -> reportLostEvents(reason(input, from));
            case FAIL_WITH_DEVICE -> fail(reason(input, from), false, outcome);
            case END_WITH_DEVICE -> endWithDevice(input, from, outcome);
            case CLOSE_AND_DISCONNECT -> closeAlive((Close) input, true, outcome);
            case CLOSE_DISCONNECTED -> closeAlive((Close) input, false, outcome);
            case CLOSE_AT_ONCE -> closeAtOnce((Close) input, outcome);
            case FINISH_CLOSE -> finishClose(outcome);
        }
    }

    private VerbenaException reasonAgain() {
        return FailureMessages.again(Objects.requireNonNull(storedReason));
    }

    /**
     * The reason for a failure. Also stores the private data of a rejection, but only of one that
     * answers this side; any other comes from the kernel of a peer that has closed its identifier.
     */
    private VerbenaException reason(ConnectionInput input, ConnectionState from) {
        if (input instanceof Failing failing) {
            return failing.reason();
        }
        ConnectionEvent event = ((Event) input).event();
        boolean answers = from == ConnectionState.CONNECTING || from == ConnectionState.ACCEPTING;
        if (answers && event.rejectedByProgram()) {
            peerData = PrivateData.read(event, peerData.inboundReads(), peerData.outboundReads());
        }
        return FailureMessages.ofEvent(input.trigger(), event, from, peer, device, resolved);
    }

    // ---- actions of the connecting side

    private void startConnect(Connect call, Outcome outcome) {
        Identifier created = events.create(machine);
        identifier = created;
        if (call.sharedAddress()) {
            created.shareAddress();
        }
        queuePair = call.queuePair();
        setTrafficClass();
        requestData = call.data();
        peer = call.peer();
        peerData = PrivateData.NONE;
        resolution = new AddressResolution(call.sources(), call.peer(), events, device);
        begin(call.timeout(), outcome);
        resolve();
    }

    private void resolve() {
        resolution().resolve(identifier(), outstandingStep().millisecondsLeft());
    }

    /** An identifier has one address for its life: another address takes another identifier. */
    private void resolveFromNext(VerbenaException otherwise) {
        if (!resolution().next()) {
            throw otherwise;
        }
        Identifier old = identifier();
        identifier = events.create(machine);
        old.destroy();
        setTrafficClass();
        resolve();
    }

    private void setTrafficClass() {
        int value = queuePair().traits().trafficClass();
        if (value >= 0) {
            identifier().trafficClass(value);
        }
    }

    private void resolveRoute() {
        bound = true;
        identifier().resolveRoute(outstandingStep().millisecondsLeft());
    }

    private void sendRequest() {
        PrivateData data = Objects.requireNonNull(requestData);
        identifier().connect(queuePair().requestParameters(data), Objects.requireNonNull(peer));
    }

    private void takeResponse(ConnectionEvent event, Outcome outcome) {
        peerData = PrivateData.read(event, event.inboundReads(), event.outboundReads());
        resolution = null; // these are not needed any more
        resolved = null;
        requestData = null;
        endStep(null, outcome);
    }

    private void establish(Complete call, Outcome outcome) {
        assumeInvalidatable = call.assumeInvalidatable();
        try {
            queuePair().moveToReadyToSend(identifier());
            identifier().establish();
        } catch (VerbenaException e) {
            throw FailureMessages.whileAnswering(e, peer);
        }
        open(outcome);
    }

    private void open(Outcome outcome) {
        if (!queuePair().open(peerInvalidatable(), this::workRequestFailed)) {
            outcome.followedBy = ConnectionTrigger.WORK_REQUEST_FAILED;
        }
    }

    /** Called by the thread that polled the completion of the failed request. */
    private void workRequestFailed() {
        machine.signal(ConnectionTrigger.WORK_REQUEST_FAILED);
    }

    private boolean peerInvalidatable() {
        return assumeInvalidatable || peerData.invalidatable();
    }

    // ---- actions of the accepting side

    private void sendReply(Accept call, Outcome outcome) {
        QueuePairHandle held = call.queuePair();
        queuePair = held;
        assumeInvalidatable = call.assumeInvalidatable();
        begin(call.timeout(), outcome);
        try {
            held.moveToReadyToSend(identifier());
            held.onData(() -> machine.signal(ConnectionTrigger.DATA_ARRIVED));
            identifier().accept(held.replyParameters(reply(call.data()), peerData));
        } catch (VerbenaException e) {
            throw FailureMessages.whileAnswering(e, peer);
        }
        answered();
    }

    private void answered() {
        onAnswer.accept(machine);
        onAnswer = request -> {};
        onExpired = why -> {};
    }

    private void openQueuePair(Outcome outcome) {
        open(outcome);
        endStep(null, outcome);
    }

    private void sendReject(Reject call, Outcome outcome) {
        int error = identifier().reject(reply(call.data()).rejectionBytes());
        if (error != 0) {
            throw FailureMessages.lateReject(error);
        }
        release(outcome, true);
    }

    private void expireRequest(VerbenaException why, Outcome outcome) {
        Consumer<VerbenaException> callback = onExpired;
        outcome.later(() -> callback.accept(why));
        release(outcome, true); // which refuses the peer
        storedReason = why;
    }

    // ---- actions that disconnect

    private void startDrain(Disconnect call, Outcome outcome) {
        begin(call.timeout(), outcome);
        queuePair().drain();
        checkDrain(outcome);
    }

    /**
     * The consumer's thread polls the completion queue and has its events, so there is no event to
     * wait for here: looked at soon, then less often.
     */
    private void checkDrain(Outcome outcome) {
        if (queuePair().drained() || !outstandingStep().checkDrainLater()) {
            outcome.followedBy = ConnectionTrigger.DRAINED;
        }
    }

    private void flushAndDisconnect(Outcome outcome) {
        boolean sent = false;
        try {
            queuePair().flush();
            sent = identifier().disconnect() == 0;
        } finally {
            outcome.followedBy = sent ? null : ConnectionTrigger.NO_CONFIRMATION;
        }
    }

    private void confirmDisconnect(Outcome outcome) {
        queuePair().flush();
        identifier().disconnect();
        finishDisconnect(outcome);
    }

    private void joinDisconnect(Disconnect call, ConnectionState from, Outcome outcome) {
        outcome.result =
                outstandingStep()
                        .join(
                                call.timeout(),
                                () -> FailureMessages.deadline(from, peer, call.timeout()));
    }

    private void finishDisconnect(Outcome outcome) {
        release(outcome, true);
        endStep(null, outcome);
    }

    private void flushAndRelease(Outcome outcome) {
        queuePair().flush();
        release(outcome, true);
    }

    // ---- actions when the connection ends from elsewhere

    private void reportEnd(ConnectionEvent event) {
        try {
            queuePair().refusePosts();
            disconnectReason = FailureMessages.ofDisconnect(event);
            identifier().disconnect(); // confirms
        } finally {
            end(CloseReason.of(event));
        }
    }

    private void reportFailedRequest() {
        // Otherwise requests failed because the program flushed it.
        boolean failed = queuePair().failed();
        try {
            queuePair().refusePosts();
            identifier().disconnect(); // the peer may still be there
        } finally {
            end(failed ? CloseReason.REQUEST_FAILED : CloseReason.LOCAL);
        }
    }

    private void reportLostEvents(VerbenaException why) {
        storedReason = why;
        end(CloseReason.EVENT_THREAD_ENDED);
    }

    private void endWithDevice(ConnectionInput input, ConnectionState from, Outcome outcome) {
        end(CloseReason.DEVICE_REMOVED);
        fail(reason(input, from), false, outcome);
    }

    // ---- actions that close

    private void closeAlive(Close call, boolean disconnect, Outcome outcome) {
        whenClosed = call.whenClosed();
        boolean waits = false;
        try {
            queuePair().flush();
            boolean sent = !disconnect || identifier().disconnect() == 0;
            if (sent && events.alive()) {
                closeTimer =
                        events.timers()
                                .after(
                                        CLOSE_TIMEOUT,
                                        () -> machine.signal(ConnectionTrigger.CLOSE_TIMEOUT));
                endStep(FailureMessages.closed(), outcome);
                waits = true;
            }
        } finally {
            outcome.followedBy = waits ? null : ConnectionTrigger.NO_CONFIRMATION; // first
            end(CloseReason.LOCAL); // may find no memory
        }
    }

    private void closeAtOnce(Close call, Outcome outcome) {
        whenClosed = call.whenClosed();
        try {
            flushIfChanged();
        } finally {
            finishClose(outcome);
        }
    }

    /** What waits for the close may use the queue pair again: it is released before. */
    private void finishClose(Outcome outcome) {
        if (closeTimer != null) {
            closeTimer.cancel();
        }
        try {
            release(outcome, true);
            endStep(FailureMessages.closed(), outcome);
        } finally {
            outcome.later(whenClosed);
        }
    }

    // ---- what actions have in common

    // The table has an action only in states that have what the action works on.

    private Identifier identifier() {
        return Objects.requireNonNull(identifier);
    }

    private QueuePairHandle queuePair() {
        return Objects.requireNonNull(queuePair);
    }

    private ConnectionStep outstandingStep() {
        return Objects.requireNonNull(step);
    }

    private AddressResolution resolution() {
        return Objects.requireNonNull(resolution);
    }

    private void begin(Duration timeout, Outcome outcome) {
        ConnectionStep begun = new ConnectionStep(events.timers(), timeout, machine);
        step = begun;
        outcome.result = begun.future();
    }

    /** Completes the outstanding step, if there is one, with the failure, if there is one. */
    private void endStep(@Nullable VerbenaException failure, Outcome outcome) {
        ConnectionStep ended = step;
        if (ended != null) {
            ended.cancelDeadline();
            outcome.later(() -> ended.complete(failure));
            step = null;
        }
    }

    /**
     * Releases everything, then fails the step, because its caller may then connect the queue pair
     * again.
     */
    void fail(VerbenaException why, boolean reusable, Outcome outcome) {
        try {
            flushIfChanged();
        } finally {
            try {
                release(outcome, reusable);
            } finally {
                endStep(why, outcome);
            }
        }
    }

    private void flushIfChanged() {
        if (queuePair != null) {
            queuePair.flushIfChanged();
        }
    }

    /** Releases identifier and queue pair; reports the end of a connection, at the latest. */
    private void release(Outcome outcome, boolean reusable) {
        storedReason = null;
        bound = false;
        QueuePairHandle released = queuePair;
        if (released != null) {
            outcome.release(released, reusable);
            if (wasEstablished) {
                end(CloseReason.LOCAL);
            }
            queuePair = null;
        }
        answered();
        Identifier ended = identifier;
        identifier = null;
        if (ended != null) {
            ended.destroy();
        }
    }

    /** Reports the end of the connection once, after it was counted. */
    private void end(CloseReason why) {
        if (endReason == null) {
            endReason = why;
            Consumer<CloseReason> told = onEnd;
            onEnd = null; // it keeps the connection's user
            try {
                events.counts().ended(why);
                queuePair().ended(why);
            } finally {
                if (told != null) {
                    told.accept(why);
                }
            }
        }
    }
}
