package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.Status;
import dev.verbena.UncaughtReports;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionSpecification.Cell;
import dev.verbena.internal.connect.ConnectionSpecification.Row;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.ConnectionEvent.Kind;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.StateChange;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Compares the connection state machine with a table that was written from the specification: every
 * state with every trigger, on a connection manager that does not exist. The test's thread is the
 * event thread.
 */
class ConnectionTableTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    private static final InetSocketAddress PEER = new InetSocketAddress("10.0.0.9", 7);
    private static final Duration LONG = Duration.ofHours(1);
    private static final PrivateData NO_DATA = new PrivateData(new byte[0], true);

    /** States that keep a reason for the next call; what it is when the test enters them. */
    private static final Map<ConnectionState, Status> FOR_THE_NEXT_CALL =
            Map.of(
                    ConnectionState.ACCEPTANCE_LOST, Status.DEVICE_REMOVED,
                    ConnectionState.REQUEST_LOST, Status.DEVICE_REMOVED,
                    ConnectionState.REQUEST_EXPIRED, Status.IO_TIMEOUT);

    private static final Set<ConnectionState> STEPS =
            EnumSet.of(
                    ConnectionState.RESOLVING_ADDRESS,
                    ConnectionState.RESOLVING_ROUTE,
                    ConnectionState.CONNECTING,
                    ConnectionState.ACCEPTING,
                    ConnectionState.DRAINING,
                    ConnectionState.DISCONNECTING);

    private static final Set<ConnectionState> UNCONNECTED =
            EnumSet.of(ConnectionState.IDLE, ConnectionState.FAILED, ConnectionState.ENDED);

    @RegisterExtension final UncaughtReports uncaught = new UncaughtReports();
    private final FakeConnections network = new FakeConnections();
    private final Timers timers = new Timers(() -> {});
    private final ConnectionEvents events;
    private final List<QueuePairStub> queuePairs = new ArrayList<>();
    private final List<CompletableFuture<Void>> steps = new ArrayList<>();
    private final AtomicInteger closed = new AtomicInteger();
    private ConnectionStateMachine machine;
    private CloseReason endReason;
    private String throwing = ""; // the call that throws next

    ConnectionTableTest() {
        network.devices.put(HERE, "fake0");
        network.beforeStep = this::called;
        events = new ConnectionEvents(network, timers);
    }

    @AfterEach
    void closeTheChannel() {
        events.close();
    }

    // ---- the walk

    @ParameterizedTest
    @MethodSource("dev.verbena.internal.connect.ConnectionSpecification#everyCell")
    void everyTriggerDoesWhatTheSpecificationDemands(Cell cell, Row demanded) {
        network.routeBy =
                cell.trigger() == ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE ? "fake1" : "fake0";
        enter(cell.state());
        if (cell.condition().equals("drained")) {
            queuePairs.getLast().drained = true;
        } else if (cell.condition().endsWith(" throws")) {
            throwing = cell.condition().replace(" throws", "");
        } else if (!cell.condition().isEmpty()) {
            network.errors.put(cell.condition().replace(" fails", ""), Errno.ENOMEM);
        }
        CloseReason ended = endReason;
        boolean reasonShown = showsReason();
        network.calls.clear();
        try {
            fire(cell.trigger());
        } catch (VerbenaException f) {
            log("throws " + f.status().name());
        } catch (IllegalStateException e) {
            log("throws IllegalStateException"); // a close comes once
        } catch (StackOverflowError e) {
            log("throws StackOverflowError");
        }
        if (endReason != ended) {
            log("ends " + endReason);
        }
        ConnectionState next = machine.state();
        if (showsReason() && !reasonShown && !FOR_THE_NEXT_CALL.containsKey(next)) {
            log("shows why");
        }
        List<String> effects = new ArrayList<>(network.calls);
        effects.removeIf(call -> call.startsWith("fillIn"));
        if (FOR_THE_NEXT_CALL.containsKey(next)) {
            Status kept = reasonOfTheNextCall();
            if (next != cell.state() || kept != FOR_THE_NEXT_CALL.get(next)) {
                effects.add("keeps " + kept.name());
            }
        }
        assertThat(new Row(next, String.join(", ", effects))).isEqualTo(demanded);
        uncaught.reports().removeIf(StackOverflowError.class::isInstance); // thrown to the test
        assertThat(uncaught.reports()).isEmpty();
        nothingIsLeftHanging();
    }

    /** Nobody waits for ever, and nothing is lost that a close would not find. */
    @ParameterizedTest
    @MethodSource("dev.verbena.internal.connect.ConnectionSpecification#everyCall")
    void anErrorInTheMiddleOfATransitionLeavesNothingHanging(Cell cell, String call) {
        network.routeBy =
                cell.trigger() == ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE ? "fake1" : "fake0";
        enter(cell.state());
        queuePairs.forEach(queuePair -> queuePair.drained = cell.condition().equals("drained"));
        throwing = call;
        try {
            fire(cell.trigger());
        } catch (StackOverflowError e) {
            uncaught.reports().add(e);
            assertThat(STEPS.contains(machine.state()))
                    .as("a call that throws begins no step")
                    .isEqualTo(STEPS.contains(cell.state()) && machine.state() == cell.state());
        }
        assertThat(uncaught.reports().poll()).isInstanceOf(StackOverflowError.class);
        assertThat(uncaught.reports()).isEmpty();
        nothingIsLeftHanging();
    }

    /** As if there were no memory for the peer's data: a step fails, or the next call does. */
    @ParameterizedTest
    @EnumSource
    void anEventThatCannotBeReadLeavesNothingHanging(ConnectionState state) {
        for (Kind kind : List.of(Kind.RESPONSE, Kind.REJECTED)) {
            enter(state);
            ConnectionEvent unreadable = new ConnectionEvent(kind, 0, 0, 28, null, 1, 1);
            try {
                machine.apply(new ConnectionInput.Event(ConnectionTrigger.of(kind), unreadable));
            } catch (NullPointerException e) {
                log("throws");
            }
            if (FOR_THE_NEXT_CALL.containsKey(machine.state())) {
                reasonOfTheNextCall();
            }
            nothingIsLeftHanging();
            queuePairs.clear();
            closed.set(0);
            endReason = null;
        }
    }

    private boolean showsReason() {
        return machine.toString().contains("(");
    }

    private Status reasonOfTheNextCall() {
        return catchThrowableOfType(
                        VerbenaException.class,
                        () -> machine.call(new ConnectionInput.Reject(NO_DATA)))
                .status();
    }

    private void log(String effect) {
        network.calls.add(effect);
    }

    private void called(String call) {
        if (throwing.equals(call)) {
            throwing = "";
            throw new StackOverflowError();
        }
    }

    @Test
    void aConnectForWhichThereIsNoMemoryMayBeTriedAgain() {
        enter(ConnectionState.IDLE);
        network.creating.set(new Error("no memory"));
        assertThatThrownBy(this::connect).hasMessage("no memory");
        assertThat(machine.state()).isEqualTo(ConnectionState.IDLE);
        fire(ConnectionTrigger.CONNECT);
        assertThat(machine.state()).isEqualTo(ConnectionState.RESOLVING_ADDRESS);
        nothingIsLeftHanging();
    }

    /** What it has begun is released. */
    @Test
    void aConnectThatAnErrorHasEndedHalfwayMayBeTriedAgain() {
        enter(ConnectionState.IDLE);
        Error error = new Error("no memory");
        Iterator<InetSocketAddress> sources =
                Stream.generate(
                                () -> {
                                    throw error;
                                })
                        .map(InetSocketAddress.class::cast)
                        .iterator();
        assertThatThrownBy(
                        () ->
                                machine.call(
                                        new ConnectionInput.Connect(
                                                queuePair(), sources, false, PEER, NO_DATA, LONG)))
                .isSameAs(error);
        assertThat(network.identifiers()).isZero();
        assertThat(machine.state()).isEqualTo(ConnectionState.IDLE);
        nothingIsLeftHanging();
    }

    @Test
    void eventsAreWaitedForWhereTheyCome() {
        assertThat(events.descriptor()).as("no standard stream").isGreaterThan(2);
    }

    /** It was taken from the channel before its identifier was destroyed. */
    @Test
    void anEventOfTheAttemptBeforeChangesNothing() {
        enter(ConnectionState.CONNECTING);
        machine.handle(
                new ConnectionEvent(Kind.RESPONSE, Long.MAX_VALUE, 0, 0, new byte[56], 1, 1));
        assertThat(machine.state()).isEqualTo(ConnectionState.CONNECTING);
        nothingIsLeftHanging();
    }

    /** After the trigger, and after a close that the peer confirms. */
    private void nothingIsLeftHanging() {
        if (UNCONNECTED.contains(machine.state())) {
            assertThat(network.identifiers()).as("identifiers").isZero();
        }
        if (machine.state() == ConnectionState.ENDED) {
            assertThat(queuePairs.getFirst().releases).as("releases").isEqualTo(1);
        }
        if (!STEPS.contains(machine.state())) {
            assertThat(steps).allMatch(CompletableFuture::isDone);
        }
        if (machine.state() == ConnectionState.PEER_LEFT) {
            assertThat(queuePairs.getFirst().shut).as("refuses posts").isTrue();
        }
        boolean wasEstablished = queuePairs.stream().anyMatch(queuePair -> queuePair.opened);
        if (machine.state() != ConnectionState.CLOSING
                && machine.state() != ConnectionState.CLOSED) {
            machine.call(new ConnectionInput.Close(this::closed));
        }
        if (machine.state() == ConnectionState.CLOSING) {
            assertThat(closed).as("closes before the peer confirms").hasValue(0);
            event(Kind.TIMEWAIT_EXIT, 0);
        }
        assertThat(machine.state()).isEqualTo(ConnectionState.CLOSED);
        assertThat(closed).as("closes").hasValue(1);
        assertThat(steps).as("steps").allMatch(CompletableFuture::isDone);
        assertThat(network.identifiers()).as("identifiers").isZero();
        assertThat(endReason != null).isEqualTo(wasEstablished);
        for (QueuePairStub queuePair : queuePairs) {
            if (queuePair.refused) { // released by the caller, too, whose release does nothing then
                assertThat(queuePair.releases).as("releases").isLessThanOrEqualTo(1);
            } else {
                assertThat(queuePair.releases).as("releases").isEqualTo(1);
            }
            if (queuePair.opened) {
                assertThat(queuePair.flushes).as("flushes").isPositive();
            }
            if (queuePair.changes > 0) {
                assertThat(queuePair.fresh).as("fresh").isFalse();
                assertThat(queuePair.flushes).as("flushes").isPositive();
            }
        }
    }

    // ---- how to get into a state

    private void enter(ConnectionState state) {
        switch (state) {
            case IDLE -> machine = new ConnectionStateMachine(events, "fake0");
            case RESOLVING_ADDRESS -> connectUntilNothingAnswers("resolveAddress");
            case RESOLVING_ROUTE -> connectUntilNothingAnswers("resolveRoute");
            case CONNECTING -> connectUntilNothingAnswers("connect");
            case ACCEPTED_BY_PEER -> {
                enter(ConnectionState.CONNECTING);
                event(Kind.RESPONSE, 0);
            }
            case ACCEPTANCE_LOST -> {
                enter(ConnectionState.ACCEPTED_BY_PEER);
                event(Kind.DEVICE_REMOVED, 0);
            }
            case REQUESTED -> request();
            case REQUEST_LOST -> {
                enter(ConnectionState.REQUESTED);
                event(Kind.DEVICE_REMOVED, 0);
            }
            case REQUEST_EXPIRED -> {
                enter(ConnectionState.REQUESTED);
                machine.fail(ConnectionTrigger.EXPIRE, why());
            }
            case ACCEPTING -> {
                enter(ConnectionState.REQUESTED);
                fire(ConnectionTrigger.ACCEPT);
            }
            case ESTABLISHED -> {
                enter(ConnectionState.ACCEPTING);
                event(Kind.ESTABLISHED, 0);
            }
            case DRAINING -> {
                enter(ConnectionState.ESTABLISHED);
                fire(ConnectionTrigger.DISCONNECT);
            }
            case DISCONNECTING -> {
                enter(ConnectionState.ESTABLISHED);
                queuePairs.getLast().drained = true;
                fire(ConnectionTrigger.DISCONNECT);
            }
            case PEER_LEFT -> {
                enter(ConnectionState.ESTABLISHED);
                event(Kind.DISCONNECTED, 0);
            }
            case ENDED -> {
                enter(ConnectionState.PEER_LEFT);
                fire(ConnectionTrigger.DISCONNECT);
            }
            case FAILED -> {
                enter(ConnectionState.REQUESTED);
                machine.call(new ConnectionInput.Reject(NO_DATA));
            }
            case CLOSING -> {
                enter(ConnectionState.ESTABLISHED);
                fire(ConnectionTrigger.CLOSE);
            }
            case CLOSED -> {
                enter(ConnectionState.IDLE);
                fire(ConnectionTrigger.CLOSE);
            }
        }
        assertThat(machine.state()).as("the state to begin with").isEqualTo(state);
    }

    private void connectUntilNothingAnswers(String call) {
        enter(ConnectionState.IDLE);
        network.silent.add(call);
        connect();
        handleEvents();
    }

    private void connect() {
        await(
                machine.call(
                        new ConnectionInput.Connect(
                                queuePair(),
                                Arrays.asList(null, new InetSocketAddress(HERE, 0)).iterator(),
                                false,
                                PEER,
                                NO_DATA,
                                LONG)));
        queuePairs.getLast().refused = false;
    }

    private void await(CompletableFuture<Void> step) {
        steps.add(step);
        if (!step.isDone()) {
            log("step begins");
        }
        step.whenComplete(
                (done, failure) ->
                        log(
                                failure == null
                                        ? "succeeds"
                                        : "fails " + ((VerbenaException) failure).status().name()));
    }

    private void closed() {
        closed.incrementAndGet();
        log("closed");
    }

    private void request() {
        Listening listening =
                new Listening(
                        events,
                        "fake0",
                        new InetSocketAddress(HERE, 0),
                        new Listening.Limits(1, LONG, LONG),
                        request -> machine = request);
        listening.resume();
        network.request(listening.address(), new byte[56], 1);
        handleEvents();
        machine.onExpired(why -> log("expired"));
        listening.close();
    }

    private QueuePairStub queuePair() {
        QueuePairStub made = new QueuePairStub();
        queuePairs.add(made);
        return made;
    }

    private void event(Kind kind, int status) {
        network.emitToAll(kind, status);
        handleEvents();
    }

    private void handleEvents() {
        while (network.hasEvents()) {
            events.handle();
        }
    }

    private static VerbenaException why() {
        return new VerbenaException(Status.IO_TIMEOUT, "as the test wants it");
    }

    // ---- how to fire a trigger

    private void fire(ConnectionTrigger trigger) {
        switch (trigger) {
            case CONNECT -> {
                network.silent.add("resolveAddress");
                connect();
            }
            case COMPLETE_CONNECT -> machine.call(new ConnectionInput.Complete(false));
            case ACCEPT -> {
                await(machine.call(new ConnectionInput.Accept(queuePair(), NO_DATA, false, LONG)));
                queuePairs.getLast().refused = false;
            }
            case REJECT -> machine.call(new ConnectionInput.Reject(NO_DATA));
            case DISCONNECT -> await(machine.call(new ConnectionInput.Disconnect(LONG)));
            case CLOSE -> machine.call(new ConnectionInput.Close(this::closed));
            case CANCEL -> {
                if (STEPS.contains(machine.state())) {
                    machine.cancel(steps.getLast(), "as the test wants it");
                } else {
                    machine.fail(trigger, why());
                }
            }
            case EXPIRE -> machine.fail(ConnectionTrigger.EXPIRE, why());
            case DEADLINE -> machine.fail(trigger, why());
            case DRAIN_TIMER,
                    CLOSE_TIMEOUT,
                    WORK_REQUEST_FAILED,
                    DATA_ARRIVED,
                    DRAINED,
                    NO_CONFIRMATION ->
                    machine.signal(trigger);
            case ADDRESS_RESOLVED, ADDRESS_RESOLVED_ELSEWHERE -> {
                network.silent.add("resolveRoute");
                event(trigger, Kind.ADDRESS_RESOLVED, 0);
            }
            case ADDRESS_TIMEOUT -> event(trigger, Kind.ADDRESS_ERROR, -Errno.ETIMEDOUT);
            case ADDRESS_ERROR -> event(trigger, Kind.ADDRESS_ERROR, -Errno.EHOSTUNREACH);
            case ROUTE_RESOLVED -> {
                network.silent.add("connect");
                event(trigger, Kind.ROUTE_RESOLVED, 0);
            }
            case ROUTE_ERROR -> event(trigger, Kind.ROUTE_ERROR, -Errno.EINVAL);
            case CONNECT_RESPONSE -> event(trigger, Kind.RESPONSE, 0);
            case CONNECT_ERROR -> event(trigger, Kind.CONNECT_ERROR, 0);
            case UNREACHABLE -> event(trigger, Kind.UNREACHABLE, -Errno.ETIMEDOUT);
            case REJECTED -> event(trigger, Kind.REJECTED, 28);
            case PEER_ESTABLISHED -> event(trigger, Kind.ESTABLISHED, 0);
            case PEER_DISCONNECTED -> event(trigger, Kind.DISCONNECTED, 0);
            case DISCONNECT_UNANSWERED -> event(trigger, Kind.DISCONNECTED, -Errno.ETIMEDOUT);
            case TIMEWAIT_EXIT -> event(trigger, Kind.TIMEWAIT_EXIT, 0);
            case DEVICE_REMOVED -> event(trigger, Kind.DEVICE_REMOVED, 0);
            case ADDRESS_CHANGED -> event(trigger, Kind.ADDRESS_CHANGED, 0);
            case UNRELATED_EVENT -> event(trigger, Kind.OTHER, 0);
            case EVENT_THREAD_ENDED -> {
                if (network.identifiers() > 0) {
                    events.threadEnded(new IllegalStateException("gone"));
                } else {
                    machine.eventThreadEnded(new IllegalStateException("gone"));
                }
            }
        }
    }

    /**
     * An event by way of the connection manager; where it has no identifier to report it for, or
     * reports it as something else, straight to the state machine.
     */
    private void event(ConnectionTrigger trigger, Kind kind, int status) {
        boolean resolves =
                trigger == ConnectionTrigger.ADDRESS_TIMEOUT
                        || trigger == ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE;
        if (network.identifiers() > 0
                && (!resolves || machine.state() == ConnectionState.RESOLVING_ADDRESS)) {
            event(kind, status);
        } else {
            machine.apply(
                    new ConnectionInput.Event(
                            trigger, new ConnectionEvent(kind, 0, 0, status, new byte[0], 0, 0)));
        }
    }

    /** A queue pair that remembers what was done to it. */
    private final class QueuePairStub extends QueuePairHandle {
        boolean refused = true; // until a call that names it has succeeded
        boolean drained;
        boolean opened;
        boolean shut;
        boolean fresh;
        int changes;
        int flushes;
        int releases;

        @Override
        public Traits traits() {
            return new Traits(5, false, true, 1, 1, 6, -1);
        }

        @Override
        public void ended(CloseReason reason) {
            assertThat(endReason).as("ends once").isNull();
            endReason = reason;
        }

        private void step(String name) {
            log(name);
            called(name);
        }

        @Override
        public boolean usable() {
            return flushes == 0;
        }

        @Override
        public boolean failed() {
            return flushes == 0;
        }

        @Override
        public int change(StateChange change) {
            changes++;
            step(
                    switch (change.state()) {
                        case StateChange.INITIALIZED -> "INIT";
                        case StateChange.READY_TO_RECEIVE -> "RTR";
                        default -> "RTS";
                    });
            return 0;
        }

        @Override
        public boolean open(boolean peerInvalidatable, Runnable onFailure) {
            step("open");
            opened = true;
            return true;
        }

        @Override
        public void onData(Runnable arrived) {}

        @Override
        public void refusePosts() {
            shut = true;
            step("shut");
        }

        @Override
        public void drain() {
            step("drain");
        }

        @Override
        public boolean drained() {
            step("drained?");
            return drained;
        }

        @Override
        public void flush() {
            flushes++;
            step("flush");
        }

        @Override
        public void release(boolean fresh) {
            releases++;
            this.fresh = fresh;
            log(fresh ? "fresh" : "used");
        }
    }
}
