package dev.verbena.internal.connect;

import static dev.verbena.internal.connect.ConnectionState.*;
import static dev.verbena.internal.connect.ConnectionTable.Action.*;
import static dev.verbena.internal.connect.ConnectionTrigger.*;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;
import java.util.Collections;
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
 * and, where that one holds something, the state after a failure. No pair has two rows. Where there
 * is none, a call is refused, and anything else ignored. The two sides of NDK's sequence are these
 * paths:
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
     * @param ifItFails the state when the action throws, if only for lack of stack or heap;
     *     everything is released then, as by {@link Action#FAIL}. Null for an action that leads to
     *     {@code next} even then, and does its last part, for which others wait
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
        /** The caller waits for the disconnect that has begun, up to its own deadline. */
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

    /** States that hold nothing. */
    private static final Set<ConnectionState> UNCONNECTED = in(IDLE, FAILED, ENDED, CLOSED);

    private static final Set<ConnectionState> DISCONNECT_STEP = in(DRAINING, DISCONNECTING);

    /** States that wait for a call of this side. */
    private static final Set<ConnectionState> ACCEPTED = in(ACCEPTED_BY_PEER, ACCEPTANCE_LOST);

    private static final Set<ConnectionState> REQUEST = in(REQUESTED, REQUEST_LOST);

    /** The peer has accepted, or has completed what this side accepted. */
    private static final Set<ConnectionTrigger> ANSWERS = on(CONNECT_RESPONSE, PEER_ESTABLISHED);

    /** Events by which an attempt fails. */
    private static final Set<ConnectionTrigger> FAILURES =
            on(ROUTE_ERROR, CONNECT_ERROR, UNREACHABLE, REJECTED);

    /**
     * Events by which a connection ends, or that confirm its end. A peer that gives up before it
     * has word that the connection is established is reported by an event of an attempt.
     * TIMEWAIT_EXIT comes long after a disconnect; should that have been missed, the connection has
     * ended all the same.
     */
    private static final Set<ConnectionTrigger> CONFIRMATIONS =
            with(FAILURES, PEER_DISCONNECTED, TIMEWAIT_EXIT);

    private static final Set<ConnectionTrigger> ENDS = with(CONFIRMATIONS, DISCONNECT_UNANSWERED);

    /** What ends an attempt while it waits for a call of this side. */
    private static final Set<ConnectionTrigger> LOSSES =
            with(
                    FAILURES,
                    PEER_DISCONNECTED,
                    DISCONNECT_UNANSWERED,
                    DEVICE_REMOVED,
                    EVENT_THREAD_ENDED);

    private static final Map<ConnectionTrigger, Map<ConnectionState, Transition>> CELLS =
            new EnumMap<>(ConnectionTrigger.class);

    static {
        connecting();
        accepting();
        established();
        disconnecting();
        closing();
        elsewhere(on(CONNECT, COMPLETE_CONNECT, ACCEPT, REJECT, DISCONNECT), REFUSE);
        elsewhere(EnumSet.allOf(ConnectionTrigger.class), IGNORE);
    }

    private ConnectionTable() {}

    private static void connecting() {
        row(on(CONNECT), in(IDLE), START_CONNECT, RESOLVING_ADDRESS, IDLE);

        Set<ConnectionState> first = in(RESOLVING_ADDRESS);
        row(on(ADDRESS_RESOLVED), first, RESOLVE_ROUTE, RESOLVING_ROUTE, IDLE);
        row(on(ADDRESS_TIMEOUT), first, RESOLVE_AGAIN, RESOLVING_ADDRESS, IDLE);
        row(
                on(ADDRESS_RESOLVED_ELSEWHERE, ADDRESS_ERROR),
                first,
                RESOLVE_FROM_NEXT,
                RESOLVING_ADDRESS,
                IDLE);
        row(on(ROUTE_RESOLVED), in(RESOLVING_ROUTE), SEND_REQUEST, CONNECTING, IDLE);
        row(ANSWERS, in(CONNECTING), TAKE_RESPONSE, ACCEPTED_BY_PEER, IDLE);
        row(FAILURES, CONNECT_STEP, FAIL, IDLE);
        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED), CONNECT_STEP, FAIL, IDLE);
        // A connection goes on, as its packets carry IP addresses. An attempt was promised to a
        // neighbour that may not be there any more.
        row(on(ADDRESS_CHANGED), CONNECT_STEP, FAIL, IDLE);
        row(on(DEVICE_REMOVED), CONNECT_STEP, FAIL_WITH_DEVICE, FAILED);

        row(on(COMPLETE_CONNECT), in(ACCEPTED_BY_PEER), ESTABLISH, ESTABLISHED, IDLE);
        row(on(REJECT), in(ACCEPTED_BY_PEER), SEND_REJECT, IDLE);
        row(LOSSES, ACCEPTED, STORE_REASON, ACCEPTANCE_LOST, IDLE);
        row(on(COMPLETE_CONNECT, REJECT), in(ACCEPTANCE_LOST), FAIL_WITH_REASON, IDLE);
    }

    private static void accepting() {
        row(on(ACCEPT), in(REQUESTED), SEND_REPLY, ACCEPTING, FAILED);
        row(on(REJECT), in(REQUESTED), SEND_REJECT, FAILED);
        row(LOSSES, REQUEST, STORE_REASON, REQUEST_LOST, FAILED);
        row(on(EXPIRE), REQUEST, EXPIRE_REQUEST, REQUEST_EXPIRED, FAILED);
        row(on(ACCEPT, REJECT), in(REQUEST_LOST, REQUEST_EXPIRED), REFUSE_WITH_REASON);

        Set<ConnectionState> step = in(ACCEPTING);
        row(ANSWERS, step, OPEN_QUEUE_PAIR, ESTABLISHED, FAILED);
        row(on(DATA_ARRIVED), step, NOTIFY_DATA);
        row(FAILURES, step, FAIL, FAILED);
        row(on(PEER_DISCONNECTED, DISCONNECT_UNANSWERED), step, FAIL, FAILED);
        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED, ADDRESS_CHANGED), step, FAIL, FAILED);
        row(on(DEVICE_REMOVED), step, FAIL_WITH_DEVICE, FAILED);
    }

    private static void established() {
        row(ENDS, in(ESTABLISHED), REPORT_END, PEER_LEFT);
        row(on(WORK_REQUEST_FAILED), in(ESTABLISHED), REPORT_FAILED_REQUEST, PEER_LEFT);
        row(on(EVENT_THREAD_ENDED), in(ESTABLISHED), REPORT_LOST_EVENTS);
        row(on(EVENT_THREAD_ENDED), in(PEER_LEFT), STORE_REASON);
        row(on(DEVICE_REMOVED), in(ESTABLISHED, PEER_LEFT), END_WITH_DEVICE, ENDED);
    }

    private static void disconnecting() {
        row(on(DISCONNECT), in(ESTABLISHED), START_DRAIN, DRAINING, ENDED);
        row(on(DISCONNECT), DISCONNECT_STEP, JOIN_DISCONNECT);
        row(on(DISCONNECT), in(PEER_LEFT), FLUSH_AND_RELEASE, ENDED);
        row(on(DISCONNECT), in(ENDED), IGNORE);

        row(on(DRAIN_TIMER), in(DRAINING), CHECK_DRAIN);
        row(on(DRAINED), in(DRAINING), FLUSH_AND_DISCONNECT, DISCONNECTING);
        row(ENDS, in(DRAINING), CONFIRM_DISCONNECT, ENDED);

        row(on(DISCONNECT_UNANSWERED), in(DISCONNECTING), FAIL, ENDED);
        row(CONFIRMATIONS, in(DISCONNECTING), FINISH_DISCONNECT, ENDED);
        row(on(NO_CONFIRMATION), in(DISCONNECTING), FINISH_DISCONNECT, ENDED);

        row(on(DEADLINE, CANCEL, EVENT_THREAD_ENDED), DISCONNECT_STEP, FAIL, ENDED);
        row(on(DEVICE_REMOVED), DISCONNECT_STEP, END_WITH_DEVICE, ENDED);
    }

    private static void closing() {
        row(on(CLOSE), in(ESTABLISHED, DRAINING), CLOSE_AND_DISCONNECT, CLOSING);
        row(on(CLOSE), in(DISCONNECTING), CLOSE_DISCONNECTED, CLOSING);
        row(on(CLOSE), in(CLOSING, CLOSED), REFUSE_SECOND_CLOSE);
        row(on(CLOSE), left(CLOSE), CLOSE_AT_ONCE, CLOSED);

        row(ENDS, in(CLOSING), FINISH_CLOSE, CLOSED);
        row(on(NO_CONFIRMATION, CLOSE_TIMEOUT), in(CLOSING), FINISH_CLOSE, CLOSED);
        row(on(DEVICE_REMOVED, EVENT_THREAD_ENDED), in(CLOSING), FINISH_CLOSE, CLOSED);
    }

    static Transition get(ConnectionState state, ConnectionTrigger trigger) {
        // There is one for each pair.
        return Objects.requireNonNull(Objects.requireNonNull(CELLS.get(trigger)).get(state));
    }

    // ---- how rows are written

    private static Set<ConnectionTrigger> on(ConnectionTrigger... triggers) {
        return EnumSet.copyOf(Arrays.asList(triggers));
    }

    private static Set<ConnectionTrigger> with(
            Set<ConnectionTrigger> some, ConnectionTrigger... more) {
        Set<ConnectionTrigger> all = EnumSet.copyOf(some);
        Collections.addAll(all, more);
        return all;
    }

    private static Set<ConnectionState> in(ConnectionState... states) {
        return EnumSet.copyOf(Arrays.asList(states));
    }

    /** A row after which the state is as before, also after a failure. */
    private static void row(Set<ConnectionTrigger> on, Set<ConnectionState> in, Action action) {
        in.forEach(state -> row(on, EnumSet.of(state), action, state));
    }

    /** A row whose action releases everything, as a failure does; or whose action says. */
    private static void row(
            Set<ConnectionTrigger> on,
            Set<ConnectionState> in,
            Action action,
            ConnectionState next) {
        row(on, in, action, next, UNCONNECTED.contains(next) ? next : null);
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

    /** Rows for all pairs that the rows above leave. */
    private static void elsewhere(Set<ConnectionTrigger> on, Action action) {
        on.forEach(trigger -> row(EnumSet.of(trigger), left(trigger), action));
    }

    private static Set<ConnectionState> left(ConnectionTrigger trigger) {
        Set<ConnectionState> left = EnumSet.allOf(ConnectionState.class);
        left.removeAll(cells(trigger).keySet());
        return left;
    }

    private static Map<ConnectionState, Transition> cells(ConnectionTrigger trigger) {
        return CELLS.computeIfAbsent(trigger, t -> new EnumMap<>(ConnectionState.class));
    }
}
