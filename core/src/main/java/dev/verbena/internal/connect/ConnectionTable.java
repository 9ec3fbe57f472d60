package dev.verbena.internal.connect;

import static dev.verbena.internal.connect.ConnectionState.*;
import static dev.verbena.internal.connect.ConnectionTable.Action.*;
import static dev.verbena.internal.connect.ConnectionTrigger.*;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * The connection state machine as one table: for every trigger and every state, what is done and
 * which state comes next.
 *
 * <p>A row reads: on these triggers, in these states, do this; then the next state (none: it stays)
 * and, where the action can fail, the state after a failure. {@code elsewhere} names what happens
 * in all other states. Every pair has exactly one row, which is checked when the class is loaded.
 * The two sides of NDK's sequence are these paths:
 *
 * <pre>
 * IDLE, RESOLVING_ADDRESS, RESOLVING_ROUTE, CONNECTING, ACCEPTED_BY_PEER, ESTABLISHED
 * REQUESTED, ACCEPTING, ESTABLISHED
 * </pre>
 *
 * and both end with DRAINING, DISCONNECTING, ENDED, or with PEER_LEFT, ENDED.
 *
 * <p>When the queue pair is flushed, which cancels what is outstanding:
 *
 * <ul>
 *   <li>when this side disconnects, as soon as its requests have completed or half of the timeout
 *       is over; and when it closes;
 *   <li>when an attempt fails that has changed the queue pair, and when the device is removed;
 *   <li>not when the peer leaves: posts are refused, and receives stay posted until this side
 *       disconnects or closes. After a failed request the queue pair has flushed itself.
 * </ul>
 */
final class ConnectionTable {
    /**
     * One cell.
     *
     * @param next the state meanwhile and afterwards
     * @param ifItFails the state when the action fails, or null for an action that cannot;
     *     everything is released then, as by {@link Action#FAIL}
     */
    record Transition(Action action, ConnectionState next, @Nullable ConnectionState ifItFails) {}

    /** What a connection does on a trigger; {@link ConnectionActions} has a method for each. */
    enum Action {
        /** Does nothing. */
        IGNORE,
        /** Throws: the call is not possible in this state. */
        REFUSE,
        /** Throws the reason that was stored when the request was lost. */
        REFUSE_WITH_REASON,
        /** Throws IllegalStateException: a close comes once. */
        REFUSE_SECOND_CLOSE,

        // ---- connecting

        /** Creates an identifier, begins the step, calls rdma_resolve_addr. */
        START_CONNECT,
        /** Calls rdma_resolve_addr once more, from the same address. */
        RESOLVE_AGAIN,
        /** Calls rdma_resolve_addr with a new identifier, from the next local address. */
        RESOLVE_FROM_NEXT,
        /** Calls rdma_resolve_route. */
        RESOLVE_ROUTE,
        /** Calls rdma_connect. */
        SEND_REQUEST,
        /** Reads the peer's parameters; the step succeeds. */
        TAKE_RESPONSE,
        /** Moves the queue pair to RTS, calls rdma_establish, lets posts through. */
        ESTABLISH,

        // ---- accepting

        /** Begins the step, moves the queue pair to RTS, calls rdma_accept. */
        SEND_REPLY,
        /** Lets posts through; the step succeeds. */
        OPEN_QUEUE_PAIR,
        /** Calls rdma_notify: the kernel then reports that the peer has completed. */
        NOTIFY_DATA,
        /** Calls rdma_reject, and releases everything. */
        SEND_REJECT,
        /**
         * Destroys the identifier, which refuses the peer, and closes the connector with the
         * reason.
         */
        EXPIRE_REQUEST,

        // ---- failing

        /** Keeps the reason for the next call: no step is outstanding that it could fail. */
        STORE_REASON,
        /** The step fails, and everything is released; a queue pair that was changed is flushed. */
        FAIL,
        /** As {@link #FAIL}; the caller gets the stored reason. */
        FAIL_WITH_REASON,

        // ---- disconnecting

        /** Begins the step, refuses posts, checks whether outstanding requests have ended. */
        START_DRAIN,
        /** Checks whether outstanding requests have ended, and sets a timer if not. */
        CHECK_DRAIN,
        /** Flushes the queue pair, calls rdma_disconnect. */
        FLUSH_AND_DISCONNECT,
        /** Flushes, calls rdma_disconnect as a reply to the peer, releases; the step succeeds. */
        CONFIRM_DISCONNECT,
        /** Releases everything; the step succeeds. */
        FINISH_DISCONNECT,
        /** Flushes, releases everything; the step fails. */
        FAIL_DISCONNECT,
        /** The caller gets the future of the disconnect that has begun. */
        JOIN_DISCONNECT,
        /** Flushes and releases what was left as it was when the peer disconnected. */
        FLUSH_AND_RELEASE,

        // ---- the end, from elsewhere

        /** Refuses posts, calls rdma_disconnect as a reply, reports that it was closed or lost. */
        REPORT_END,
        /** Refuses posts, calls rdma_disconnect, reports the failure. */
        REPORT_FAILED_REQUEST,
        /** Stores the reason, reports that nothing will be known of this connection any more. */
        REPORT_LOST_EVENTS,
        /** The step fails, everything is released; a queue pair that was changed is flushed. */
        FAIL_WITH_DEVICE,
        /** As {@link #FAIL_WITH_DEVICE}; reports the end of the connection. */
        END_WITH_DEVICE,

        // ---- closing

        /** Flushes, calls rdma_disconnect, reports the end; the step is cancelled. */
        CLOSE_AND_DISCONNECT,
        /** The same without rdma_disconnect, which was called. */
        CLOSE_DISCONNECTED,
        /** Releases everything, which refuses a peer that waits; the step is cancelled. */
        CLOSE_AT_ONCE,
        /** Releases everything; the connector may be destroyed. */
        FINISH_CLOSE
    }

    /** States with a step that connects: a failure leaves the connector as good as new. */
    private static final Set<ConnectionState> CONNECT_STEP =
            in(RESOLVING_ADDRESS, RESOLVING_ROUTE, CONNECTING);

    private static final Set<ConnectionState> DISCONNECT_STEP = in(DRAINING, DISCONNECTING);

    /** States that wait for a call of this side. */
    private static final Set<ConnectionState> ACCEPTED = in(ACCEPTED_BY_PEER, ACCEPTANCE_LOST);

    private static final Set<ConnectionState> REQUEST = in(REQUESTED, REQUEST_LOST);

    private static final Map<ConnectionTrigger, Map<ConnectionState, Transition>> CELLS =
            new EnumMap<>(ConnectionTrigger.class);

    static {
        calls();
        endsOfSteps();
        resolving();
        replies();
        endsOfConnections();
        disconnecting();
        requireEveryPair();
    }

    private ConnectionTable() {}

    private static void calls() {
        row(on(CONNECT), in(IDLE), START_CONNECT, RESOLVING_ADDRESS, IDLE);
        elsewhere(on(CONNECT), REFUSE);

        row(on(COMPLETE_CONNECT), in(ACCEPTED_BY_PEER), ESTABLISH, ESTABLISHED, IDLE);
        row(on(COMPLETE_CONNECT), in(ACCEPTANCE_LOST), FAIL_WITH_REASON, IDLE, IDLE);
        elsewhere(on(COMPLETE_CONNECT), REFUSE);

        row(on(ACCEPT), in(REQUESTED), SEND_REPLY, ACCEPTING, FAILED);
        row(on(ACCEPT), in(REQUEST_LOST, REQUEST_EXPIRED), REFUSE_WITH_REASON);
        elsewhere(on(ACCEPT), REFUSE);

        row(on(REJECT), in(REQUESTED), SEND_REJECT, FAILED);
        row(on(REJECT), in(REQUEST_LOST, REQUEST_EXPIRED), REFUSE_WITH_REASON);
        row(on(REJECT), in(ACCEPTED_BY_PEER), SEND_REJECT, IDLE);
        row(on(REJECT), in(ACCEPTANCE_LOST), FAIL_WITH_REASON, IDLE, IDLE);
        elsewhere(on(REJECT), REFUSE);

        row(on(DISCONNECT), in(ESTABLISHED), START_DRAIN, DRAINING);
        row(on(DISCONNECT), DISCONNECT_STEP, JOIN_DISCONNECT);
        row(on(DISCONNECT), in(PEER_LEFT), FLUSH_AND_RELEASE, ENDED);
        row(on(DISCONNECT), in(ENDED), IGNORE);
        elsewhere(on(DISCONNECT), REFUSE);

        row(on(CLOSE), in(ESTABLISHED, DRAINING), CLOSE_AND_DISCONNECT, CLOSING);
        row(on(CLOSE), in(DISCONNECTING), CLOSE_DISCONNECTED, CLOSING);
        row(on(CLOSE), in(CLOSING, CLOSED), REFUSE_SECOND_CLOSE);
        elsewhere(on(CLOSE), CLOSE_AT_ONCE, CLOSED);
    }

    private static void endsOfSteps() {
        // The event thread's end is more than that for a connection without a step, see below.
        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED), CONNECT_STEP, FAIL, IDLE);
        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED), in(ACCEPTING), FAIL, FAILED);
        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED), DISCONNECT_STEP, FAIL_DISCONNECT, ENDED);
        elsewhere(on(DEADLINE, CANCEL), IGNORE);

        row(on(EXPIRE), REQUEST, EXPIRE_REQUEST, REQUEST_EXPIRED);
        elsewhere(on(EXPIRE), IGNORE);
    }

    private static void resolving() {
        Set<ConnectionState> first = in(RESOLVING_ADDRESS);
        row(on(ADDRESS_RESOLVED), first, RESOLVE_ROUTE, RESOLVING_ROUTE, IDLE);
        row(on(ADDRESS_TIMEOUT), first, RESOLVE_AGAIN, RESOLVING_ADDRESS, IDLE);
        row(on(ADDRESS_RESOLVED_ELSEWHERE), first, RESOLVE_FROM_NEXT, RESOLVING_ADDRESS, IDLE);
        row(on(ADDRESS_ERROR), first, RESOLVE_FROM_NEXT, RESOLVING_ADDRESS, IDLE);
        elsewhere(on(ADDRESS_RESOLVED, ADDRESS_RESOLVED_ELSEWHERE), IGNORE);
        elsewhere(on(ADDRESS_TIMEOUT, ADDRESS_ERROR), IGNORE);

        row(on(ROUTE_RESOLVED), in(RESOLVING_ROUTE), SEND_REQUEST, CONNECTING, IDLE);
        elsewhere(on(ROUTE_RESOLVED), IGNORE);
    }

    private static void replies() {
        row(
                on(CONNECT_RESPONSE, PEER_ESTABLISHED),
                in(CONNECTING),
                TAKE_RESPONSE,
                ACCEPTED_BY_PEER);
        row(on(CONNECT_RESPONSE, PEER_ESTABLISHED), in(ACCEPTING), OPEN_QUEUE_PAIR, ESTABLISHED);
        elsewhere(on(CONNECT_RESPONSE, PEER_ESTABLISHED), IGNORE);

        row(on(DATA_ARRIVED), in(ACCEPTING), NOTIFY_DATA);
        elsewhere(on(DATA_ARRIVED), IGNORE);

        Set<ConnectionTrigger> failures = on(ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE, REJECTED);
        row(failures, CONNECT_STEP, FAIL, IDLE);
        row(failures, in(ACCEPTING), FAIL, FAILED);
        row(failures, ACCEPTED, STORE_REASON, ACCEPTANCE_LOST);
        row(failures, REQUEST, STORE_REASON, REQUEST_LOST);

        // A connection goes on, as its packets carry IP addresses. An attempt was promised to a
        // neighbour that may not be there any more.
        row(on(ADDRESS_CHANGED), CONNECT_STEP, FAIL, IDLE);
        row(on(ADDRESS_CHANGED), in(ACCEPTING), FAIL, FAILED);
        elsewhere(on(ADDRESS_CHANGED), IGNORE);

        elsewhere(on(UNRELATED_EVENT), IGNORE);
    }

    private static void endsOfConnections() {
        Set<ConnectionTrigger> disconnected = on(PEER_DISCONNECTED, DISCONNECT_UNANSWERED);
        row(disconnected, in(ACCEPTING), FAIL, FAILED);
        row(disconnected, ACCEPTED, STORE_REASON, ACCEPTANCE_LOST);
        row(disconnected, REQUEST, STORE_REASON, REQUEST_LOST);

        // A peer that gives up before it has word that the connection is established is reported by
        // an event of an attempt. TIMEWAIT_EXIT comes long after a disconnect; should that have
        // been missed, the connection has ended all the same.
        Set<ConnectionTrigger> ends =
                on(PEER_DISCONNECTED, ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE, REJECTED);
        ends.addAll(on(DISCONNECT_UNANSWERED, TIMEWAIT_EXIT));
        row(ends, in(ESTABLISHED), REPORT_END, PEER_LEFT);
        row(ends, in(DRAINING), CONFIRM_DISCONNECT, ENDED);
        row(ends, in(CLOSING), FINISH_CLOSE, CLOSED);
        row(on(DISCONNECT_UNANSWERED), in(DISCONNECTING), FAIL_DISCONNECT, ENDED);
        ends.remove(DISCONNECT_UNANSWERED);
        row(ends, in(DISCONNECTING), FINISH_DISCONNECT, ENDED);
        elsewhere(ends, IGNORE);
        elsewhere(on(DISCONNECT_UNANSWERED), IGNORE);

        row(on(DEVICE_REMOVED), CONNECT_STEP, FAIL_WITH_DEVICE, FAILED);
        row(on(DEVICE_REMOVED), in(ACCEPTING), FAIL_WITH_DEVICE, FAILED);
        row(on(DEVICE_REMOVED), ACCEPTED, STORE_REASON, ACCEPTANCE_LOST);
        row(on(DEVICE_REMOVED), REQUEST, STORE_REASON, REQUEST_LOST);
        row(on(DEVICE_REMOVED), in(ESTABLISHED, DRAINING, DISCONNECTING), END_WITH_DEVICE, ENDED);
        row(on(DEVICE_REMOVED), in(PEER_LEFT), END_WITH_DEVICE, ENDED);
        row(on(DEVICE_REMOVED), in(CLOSING), FINISH_CLOSE, CLOSED);
        elsewhere(on(DEVICE_REMOVED), IGNORE);

        row(on(EVENT_THREAD_ENDED), ACCEPTED, STORE_REASON, ACCEPTANCE_LOST);
        row(on(EVENT_THREAD_ENDED), REQUEST, STORE_REASON, REQUEST_LOST);
        row(on(EVENT_THREAD_ENDED), in(ESTABLISHED), REPORT_LOST_EVENTS);
        row(on(EVENT_THREAD_ENDED), in(PEER_LEFT), STORE_REASON);
        row(on(EVENT_THREAD_ENDED), in(CLOSING), FINISH_CLOSE, CLOSED);
        elsewhere(on(EVENT_THREAD_ENDED), IGNORE);

        row(on(WORK_REQUEST_FAILED), in(ESTABLISHED), REPORT_FAILED_REQUEST, PEER_LEFT);
        elsewhere(on(WORK_REQUEST_FAILED), IGNORE);
    }

    private static void disconnecting() {
        row(on(DRAIN_TIMER), in(DRAINING), CHECK_DRAIN);
        elsewhere(on(DRAIN_TIMER), IGNORE);

        row(on(DRAINED), in(DRAINING), FLUSH_AND_DISCONNECT, DISCONNECTING);
        elsewhere(on(DRAINED), IGNORE);

        row(on(NO_CONFIRMATION), in(DISCONNECTING), FINISH_DISCONNECT, ENDED);
        row(on(NO_CONFIRMATION), in(CLOSING), FINISH_CLOSE, CLOSED);
        elsewhere(on(NO_CONFIRMATION), IGNORE);

        row(on(CLOSE_TIMEOUT), in(CLOSING), FINISH_CLOSE, CLOSED);
        elsewhere(on(CLOSE_TIMEOUT), IGNORE);
    }

    static Transition get(ConnectionState state, ConnectionTrigger trigger) {
        // There is one for each pair: requireEveryPair().
        return Objects.requireNonNull(Objects.requireNonNull(CELLS.get(trigger)).get(state));
    }

    // ---- how rows are written

    private static Set<ConnectionTrigger> on(ConnectionTrigger... triggers) {
        return EnumSet.copyOf(Arrays.asList(triggers));
    }

    private static Set<ConnectionState> in(ConnectionState... states) {
        return EnumSet.copyOf(Arrays.asList(states));
    }

    /** A row whose action cannot fail, and after which the state is as before. */
    private static void row(Set<ConnectionTrigger> on, Set<ConnectionState> in, Action action) {
        in.forEach(state -> row(on, EnumSet.of(state), action, state));
    }

    /** A row whose action cannot fail. */
    private static void row(
            Set<ConnectionTrigger> on,
            Set<ConnectionState> in,
            Action action,
            ConnectionState next) {
        row(on, in, action, next, null);
    }

    private static void row(
            Set<ConnectionTrigger> on,
            Set<ConnectionState> in,
            Action action,
            ConnectionState next,
            @Nullable ConnectionState ifItFails) {
        Transition transition = new Transition(action, next, ifItFails);
        for (ConnectionTrigger trigger : on) {
            for (ConnectionState state : in) {
                if (cells(trigger).put(state, transition) != null) {
                    throw new AssertionError("Two rows for %s in %s".formatted(trigger, state));
                }
            }
        }
    }

    /** A row for all states that the rows above leave. */
    private static void elsewhere(Set<ConnectionTrigger> on, Action action) {
        on.forEach(trigger -> row(EnumSet.of(trigger), left(trigger), action));
    }

    private static void elsewhere(Set<ConnectionTrigger> on, Action action, ConnectionState next) {
        on.forEach(trigger -> row(EnumSet.of(trigger), left(trigger), action, next));
    }

    private static Set<ConnectionState> left(ConnectionTrigger trigger) {
        Set<ConnectionState> left = EnumSet.allOf(ConnectionState.class);
        left.removeAll(cells(trigger).keySet());
        return left;
    }

    private static Map<ConnectionState, Transition> cells(ConnectionTrigger trigger) {
        return CELLS.computeIfAbsent(trigger, t -> new EnumMap<>(ConnectionState.class));
    }

    private static void requireEveryPair() {
        for (ConnectionTrigger trigger : ConnectionTrigger.values()) {
            if (!left(trigger).isEmpty()) {
                throw new AssertionError("%s has no row in %s".formatted(trigger, left(trigger)));
            }
        }
    }
}
