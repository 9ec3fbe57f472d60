package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.connect.ConnectionTable.Transition;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.ConnectionEvent.Kind;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.StateChange;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Walks the table: every state with every trigger, through the real state machine, on a connection
 * manager that does not exist. The test's thread is the event thread.
 */
class ConnectionTableTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    private static final InetSocketAddress PEER = new InetSocketAddress("10.0.0.9", 7);
    private static final Duration LONG = Duration.ofHours(1);
    private static final PrivateData NO_DATA = new PrivateData(new byte[0], true);
    private static final Set<ConnectionState> STEPS =
            EnumSet.of(
                    ConnectionState.RESOLVING_ADDRESS,
                    ConnectionState.RESOLVING_ROUTE,
                    ConnectionState.CONNECTING,
                    ConnectionState.ACCEPTING,
                    ConnectionState.DRAINING,
                    ConnectionState.DISCONNECTING);

    private final FakeConnections network = new FakeConnections();
    private final Timers timers = new Timers(() -> {});
    private final ConnectionEvents events;
    private final List<QueuePairStub> queuePairs = new ArrayList<>();
    private final List<CompletableFuture<Void>> steps = new ArrayList<>();
    private final AtomicInteger closed = new AtomicInteger();
    private ConnectionStateMachine machine;

    ConnectionTableTest() {
        network.devices.put(HERE, "fake0");
        events = new ConnectionEvents(network, timers);
    }

    @AfterEach
    void closeTheChannel() {
        events.close();
    }

    // ---- the walk

    static Stream<Arguments> everyPair() {
        return Arrays.stream(ConnectionState.values())
                .flatMap(
                        state ->
                                Arrays.stream(ConnectionTrigger.values())
                                        .map(trigger -> Arguments.of(state, trigger)));
    }

    @ParameterizedTest
    @MethodSource("everyPair")
    void everyTriggerLeadsWhereTheTableSays(ConnectionState state, ConnectionTrigger trigger) {
        network.routeBy =
                trigger == ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE ? "fake1" : "fake0";
        enter(state);
        Transition transition = ConnectionTable.get(state, trigger);
        switch (transition.action()) {
            case REFUSE, REFUSE_WITH_REASON, FAIL_WITH_REASON ->
                    assertThatThrownBy(() -> fire(trigger)).isInstanceOf(VerbenaException.class);
            case REFUSE_SECOND_CLOSE ->
                    assertThatThrownBy(() -> fire(trigger))
                            .isInstanceOf(IllegalStateException.class);
            default -> fire(trigger);
        }
        assertThat(machine.state()).isEqualTo(transition.next());
        nothingIsLeftHanging();
    }

    static Stream<Arguments> everyPairThatCanFail() {
        return everyPair()
                .filter(
                        pair -> {
                            Transition transition = transition(pair);
                            return transition.ifItFails() != null
                                    && transition.action()
                                            != ConnectionTable.Action.FAIL_WITH_REASON;
                        });
    }

    private static Transition transition(Arguments pair) {
        return ConnectionTable.get(
                (ConnectionState) pair.get()[0], (ConnectionTrigger) pair.get()[1]);
    }

    @ParameterizedTest
    @MethodSource("everyPairThatCanFail")
    void everyActionThatFailsLeadsWhereTheTableSays(
            ConnectionState state, ConnectionTrigger trigger) {
        network.routeBy =
                trigger == ConnectionTrigger.ADDRESS_RESOLVED_ELSEWHERE ? "fake1" : "fake0";
        enter(state);
        Transition transition = ConnectionTable.get(state, trigger);
        network.errors.put(
                switch (transition.action()) {
                    case START_CONNECT, RESOLVE_AGAIN -> "resolveAddress";
                    case RESOLVE_FROM_NEXT -> "create";
                    case RESOLVE_ROUTE -> "resolveRoute";
                    case SEND_REQUEST -> "connect";
                    case ESTABLISH -> "establish";
                    case SEND_REPLY -> "accept";
                    default -> throw new AssertionError(transition + " has no call to fail");
                },
                Errno.ENOMEM);
        switch (trigger) {
            case CONNECT, COMPLETE_CONNECT, ACCEPT ->
                    assertThatThrownBy(() -> fire(trigger)).isInstanceOf(VerbenaException.class);
            default -> fire(trigger);
        }
        assertThat(machine.state()).isEqualTo(transition.ifItFails());
        nothingIsLeftHanging();
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
        if (machine.state() == ConnectionState.ENDED) {
            assertThat(network.identifiers()).as("identifiers").isZero();
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
            machine.call(new ConnectionInput.Close(closed::incrementAndGet));
        }
        if (machine.state() == ConnectionState.CLOSING) {
            assertThat(closed).as("closes before the peer confirms").hasValue(0);
            event(Kind.TIMEWAIT_EXIT, 0);
        }
        assertThat(machine.state()).isEqualTo(ConnectionState.CLOSED);
        assertThat(closed).as("closes").hasValue(1);
        assertThat(steps).as("steps").allMatch(CompletableFuture::isDone);
        assertThat(network.identifiers()).as("identifiers").isZero();
        assertThat(machine.closeReason().isDone()).isEqualTo(wasEstablished);
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
                event(Kind.CONNECT_ERROR, 0);
            }
            case REQUESTED -> request();
            case REQUEST_LOST -> {
                enter(ConnectionState.REQUESTED);
                event(Kind.REJECTED, 4);
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
        steps.add(
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
                steps.add(
                        machine.call(
                                new ConnectionInput.Accept(queuePair(), NO_DATA, false, LONG)));
                queuePairs.getLast().refused = false;
            }
            case REJECT -> machine.call(new ConnectionInput.Reject(NO_DATA));
            case DISCONNECT -> steps.add(machine.call(new ConnectionInput.Disconnect(LONG)));
            case CLOSE -> machine.call(new ConnectionInput.Close(closed::incrementAndGet));
            case CANCEL ->
                    machine.cancel(
                            steps.isEmpty() ? new CompletableFuture<>() : steps.getLast(),
                            "as the test wants it");
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
                event(Kind.ADDRESS_RESOLVED, 0);
            }
            case ADDRESS_TIMEOUT -> event(Kind.ADDRESS_ERROR, -Errno.ETIMEDOUT);
            case ADDRESS_ERROR -> event(Kind.ADDRESS_ERROR, -Errno.EHOSTUNREACH);
            case ROUTE_RESOLVED -> {
                network.silent.add("connect");
                event(Kind.ROUTE_RESOLVED, 0);
            }
            case ROUTE_ERROR -> event(Kind.ROUTE_ERROR, -Errno.EINVAL);
            case CONNECT_RESPONSE -> event(Kind.RESPONSE, 0);
            case CONNECT_ERROR -> event(Kind.CONNECT_ERROR, 0);
            case UNREACHABLE -> event(Kind.UNREACHABLE, -Errno.ETIMEDOUT);
            case REJECTED -> event(Kind.REJECTED, 28);
            case PEER_ESTABLISHED -> event(Kind.ESTABLISHED, 0);
            case PEER_DISCONNECTED -> event(Kind.DISCONNECTED, 0);
            case DISCONNECT_UNANSWERED -> event(Kind.DISCONNECTED, -Errno.ETIMEDOUT);
            case TIMEWAIT_EXIT -> event(Kind.TIMEWAIT_EXIT, 0);
            case DEVICE_REMOVED -> event(Kind.DEVICE_REMOVED, 0);
            case ADDRESS_CHANGED -> event(Kind.ADDRESS_CHANGED, 0);
            case UNRELATED_EVENT -> event(Kind.OTHER, 0);
            case EVENT_THREAD_ENDED -> events.threadEnded(new IllegalStateException("gone"));
        }
    }

    /** A queue pair that remembers what was done to it. */
    private static final class QueuePairStub extends QueuePairHandle {
        boolean refused = true; // until a call that names it has succeeded
        boolean drained;
        boolean opened;
        boolean shut;
        boolean fresh;
        int changes;
        int flushes;
        int releases;

        @Override
        public int number() {
            return 5;
        }

        @Override
        public long address() {
            return System.identityHashCode(this);
        }

        @Override
        public boolean sharedReceives() {
            return false;
        }

        @Override
        public boolean invalidatable() {
            return true;
        }

        @Override
        public int inboundReads() {
            return 1;
        }

        @Override
        public int outboundReads() {
            return 1;
        }

        @Override
        public int retries() {
            return 6;
        }

        @Override
        public int trafficClass() {
            return -1;
        }

        @Override
        public boolean usable() {
            return flushes == 0;
        }

        @Override
        public int change(StateChange change) {
            changes++;
            return 0;
        }

        @Override
        public boolean open(boolean peerInvalidatable, Runnable onFailure) {
            opened = true;
            return true;
        }

        @Override
        public void shut() {
            shut = true;
        }

        @Override
        public void drain() {}

        @Override
        public boolean drained() {
            return drained;
        }

        @Override
        public void flush() {
            flushes++;
        }

        @Override
        public void release(boolean fresh) {
            releases++;
            this.fresh = fresh;
        }
    }

    // ---- the table against NDK's sequence

    /** The sequence of NDK, and what each of its statuses comes from, read from the table alone. */
    @ParameterizedTest
    @CsvSource({
        // The connecting side.
        "IDLE, CONNECT, RESOLVING_ADDRESS",
        "RESOLVING_ADDRESS, ADDRESS_RESOLVED, RESOLVING_ROUTE",
        "RESOLVING_ROUTE, ROUTE_RESOLVED, CONNECTING",
        "CONNECTING, CONNECT_RESPONSE, ACCEPTED_BY_PEER",
        "CONNECTING, PEER_ESTABLISHED, ACCEPTED_BY_PEER",
        "ACCEPTED_BY_PEER, COMPLETE_CONNECT, ESTABLISHED",
        "ACCEPTED_BY_PEER, REJECT, IDLE",
        // The accepting side: accept succeeds when the peer has completed.
        "REQUESTED, ACCEPT, ACCEPTING",
        "ACCEPTING, PEER_ESTABLISHED, ESTABLISHED",
        "ACCEPTING, DATA_ARRIVED, ACCEPTING",
        "REQUESTED, REJECT, FAILED",
        "REQUESTED, CLOSE, CLOSED",
        // Statuses of connect, after which it may be tried again, and of accept.
        "CONNECTING, REJECTED, IDLE",
        "CONNECTING, UNREACHABLE, IDLE",
        "RESOLVING_ADDRESS, ADDRESS_ERROR, RESOLVING_ADDRESS",
        "RESOLVING_ROUTE, ROUTE_ERROR, IDLE",
        "CONNECTING, DEADLINE, IDLE",
        "ACCEPTING, REJECTED, FAILED",
        "ACCEPTING, DEADLINE, FAILED",
        // A graceful disconnect is followed by a flush; the peer's disconnect by none.
        "ESTABLISHED, DISCONNECT, DRAINING",
        "DRAINING, DRAINED, DISCONNECTING",
        "DISCONNECTING, PEER_DISCONNECTED, ENDED",
        "DISCONNECTING, DEADLINE, ENDED",
        "ESTABLISHED, PEER_DISCONNECTED, PEER_LEFT",
        "ESTABLISHED, WORK_REQUEST_FAILED, PEER_LEFT",
        "PEER_LEFT, DISCONNECT, ENDED",
        "ESTABLISHED, CLOSE, CLOSING",
        "CLOSING, PEER_DISCONNECTED, CLOSED",
        "CLOSING, CLOSE_TIMEOUT, CLOSED",
        // What comes while no step is outstanding waits for the next call.
        "REQUESTED, REJECTED, REQUEST_LOST",
        "ACCEPTED_BY_PEER, PEER_DISCONNECTED, ACCEPTANCE_LOST",
        "ACCEPTANCE_LOST, COMPLETE_CONNECT, IDLE",
        "REQUESTED, EXPIRE, REQUEST_EXPIRED",
    })
    void isTheSequenceOfNdk(
            ConnectionState state, ConnectionTrigger trigger, ConnectionState next) {
        assertThat(ConnectionTable.get(state, trigger).next()).isEqualTo(next);
    }
}
