package dev.verbena.internal.connect;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.provider.Arguments;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * What NDK's pages and librdmacm's manual pages demand, state by state. A line reads: on these
 * triggers (if a call fails, or if nothing is outstanding) the next state, and what happens, in
 * this order. {@code fresh} is the release of a queue pair that may be connected again, {@code
 * used} of one that may not; {@code succeeds} and {@code fails} are about the step; {@code keeps}
 * is the reason for the next call, {@code shows why} one that only {@code toString} has; {@code
 * ends} is what the connection's end is reported to be. A trigger that is not named changes
 * nothing.
 */
final class ConnectionSpecification {
    private static final String SPECIFICATION =
            """
            IDLE
              CONNECT -> RESOLVING_ADDRESS: create, resolveAddress, step begins
              CONNECT if create fails -> IDLE: create, throws INSUFFICIENT_RESOURCES
              CONNECT if resolveAddress fails -> IDLE: create, resolveAddress, destroy, fresh, throws INSUFFICIENT_RESOURCES
              COMPLETE_CONNECT ACCEPT REJECT DISCONNECT -> IDLE: throws CONNECTION_INVALID
              CLOSE -> CLOSED: closed

            # rdma_resolve_addr(3), rdma_resolve_route(3), rdma_connect(3), one after the other. An
            # attempt that fails leaves connector and queue pair as they were: connect may come again.
            RESOLVING_ADDRESS
              ADDRESS_RESOLVED -> RESOLVING_ROUTE: resolveRoute
              ADDRESS_RESOLVED if resolveRoute fails -> IDLE: resolveRoute, destroy, fresh, fails INSUFFICIENT_RESOURCES
              ADDRESS_TIMEOUT -> RESOLVING_ADDRESS: resolveAddress
              ADDRESS_TIMEOUT if resolveAddress fails -> IDLE: resolveAddress, destroy, fresh, fails INSUFFICIENT_RESOURCES
            # From the next local address. An identifier keeps the address that it has once.
              ADDRESS_RESOLVED_ELSEWHERE ADDRESS_ERROR -> RESOLVING_ADDRESS: create, destroy, resolveAddress
              ADDRESS_RESOLVED_ELSEWHERE ADDRESS_ERROR if create fails -> IDLE: create, destroy, fresh, fails INSUFFICIENT_RESOURCES
              ADDRESS_RESOLVED_ELSEWHERE ADDRESS_ERROR if resolveAddress fails \
                -> IDLE: create, destroy, resolveAddress, destroy, fresh, fails INSUFFICIENT_RESOURCES
              REJECTED -> IDLE: destroy, fresh, fails CONNECTION_ABORTED
            RESOLVING_ROUTE
              ROUTE_RESOLVED -> CONNECTING: connect
              ROUTE_RESOLVED if connect fails -> IDLE: connect, destroy, fresh, fails INSUFFICIENT_RESOURCES
              REJECTED -> IDLE: destroy, fresh, fails CONNECTION_ABORTED
            CONNECTING
            # On iWARP the connection is established without a response.
              CONNECT_RESPONSE PEER_ESTABLISHED -> ACCEPTED_BY_PEER: succeeds
              REJECTED -> IDLE: destroy, fresh, fails CONNECTION_REFUSED
            RESOLVING_ADDRESS RESOLVING_ROUTE CONNECTING
              ROUTE_ERROR -> IDLE: destroy, fresh, fails HOST_UNREACHABLE
              UNREACHABLE DEADLINE -> IDLE: destroy, fresh, fails IO_TIMEOUT
              CONNECT_ERROR ADDRESS_CHANGED -> IDLE: destroy, fresh, fails CONNECTION_ABORTED
              CANCEL -> IDLE: destroy, fresh, fails CANCELLED
              EVENT_THREAD_ENDED -> IDLE: destroy, fresh, fails INTERNAL_ERROR
              DEVICE_REMOVED -> FAILED: destroy, used, fails DEVICE_REMOVED
              CONNECT COMPLETE_CONNECT ACCEPT -> same: throws CONNECTION_ACTIVE
              REJECT DISCONNECT -> same: throws CONNECTION_INVALID
              CLOSE -> CLOSED: destroy, fresh, fails CANCELLED, closed

            # NdkCompleteConnect: the queue pair is not librdmacm's, so RTS, then rdma_establish(3).
            ACCEPTED_BY_PEER
              COMPLETE_CONNECT -> ESTABLISHED: INIT, RTR, RTS, establish, open
              COMPLETE_CONNECT if establish fails \
                -> IDLE: INIT, RTR, RTS, establish, flush, destroy, used, throws INSUFFICIENT_RESOURCES
              REJECT -> IDLE: reject, destroy, fresh
              REJECT if reject fails -> IDLE: reject, destroy, fresh, throws CONNECTION_ABORTED
              REJECT if reject throws -> IDLE: destroy, fresh, throws StackOverflowError
              DEVICE_REMOVED -> ACCEPTANCE_LOST: keeps DEVICE_REMOVED
            # The peer's end comes while no step is outstanding: the next call gets it.
            ACCEPTANCE_LOST
              COMPLETE_CONNECT REJECT -> IDLE: destroy, fresh, throws DEVICE_REMOVED
            ACCEPTED_BY_PEER ACCEPTANCE_LOST
              REJECTED CONNECT_ERROR PEER_DISCONNECTED DISCONNECT_UNANSWERED \
                -> ACCEPTANCE_LOST: keeps CONNECTION_ABORTED
              ROUTE_ERROR -> ACCEPTANCE_LOST: keeps HOST_UNREACHABLE
              UNREACHABLE -> ACCEPTANCE_LOST: keeps IO_TIMEOUT
              EVENT_THREAD_ENDED -> ACCEPTANCE_LOST: keeps INTERNAL_ERROR
              CONNECT ACCEPT -> same: throws CONNECTION_ACTIVE
              DISCONNECT -> same: throws CONNECTION_INVALID
              CLOSE -> CLOSED: destroy, fresh, closed

            # NdkAccept: RTS before rdma_accept(3); it succeeds when the peer has completed.
            REQUESTED
              ACCEPT -> ACCEPTING: INIT, RTR, RTS, accept, step begins
              ACCEPT if accept fails \
                -> FAILED: INIT, RTR, RTS, accept, flush, destroy, used, throws INSUFFICIENT_RESOURCES
              REJECT -> FAILED: reject, destroy
              REJECT if reject fails -> FAILED: reject, destroy, throws CONNECTION_ABORTED
              REJECT if reject throws -> FAILED: destroy, throws StackOverflowError
              DEVICE_REMOVED -> REQUEST_LOST: keeps DEVICE_REMOVED
            REQUEST_LOST
              ACCEPT REJECT -> REQUEST_LOST: throws DEVICE_REMOVED
            REQUESTED REQUEST_LOST
              REJECTED CONNECT_ERROR PEER_DISCONNECTED DISCONNECT_UNANSWERED \
                -> REQUEST_LOST: keeps CONNECTION_ABORTED
              ROUTE_ERROR -> REQUEST_LOST: keeps HOST_UNREACHABLE
              UNREACHABLE -> REQUEST_LOST: keeps IO_TIMEOUT
              EVENT_THREAD_ENDED -> REQUEST_LOST: keeps INTERNAL_ERROR
              EXPIRE -> REQUEST_EXPIRED: destroy, expired, keeps IO_TIMEOUT
            # Closing a connector that was not accepted rejects: so does rdma_destroy_id(3).
              CLOSE -> CLOSED: destroy, closed
            REQUEST_EXPIRED
              ACCEPT REJECT -> REQUEST_EXPIRED: throws IO_TIMEOUT
              CLOSE -> CLOSED: closed
            REQUESTED REQUEST_LOST REQUEST_EXPIRED
              CONNECT COMPLETE_CONNECT DISCONNECT -> same: throws CONNECTION_INVALID

            ACCEPTING
              CONNECT_RESPONSE PEER_ESTABLISHED -> ESTABLISHED: open, succeeds
              CONNECT_RESPONSE PEER_ESTABLISHED if open throws \
                -> FAILED: open, flush, destroy, used, fails CONNECTION_ABORTED
            # rdma_notify(3): data may come before word that the peer has completed.
              DATA_ARRIVED -> ACCEPTING: notifyEstablished
              REJECTED CONNECT_ERROR PEER_DISCONNECTED DISCONNECT_UNANSWERED ADDRESS_CHANGED \
                -> FAILED: flush, destroy, used, fails CONNECTION_ABORTED
              ROUTE_ERROR -> FAILED: flush, destroy, used, fails HOST_UNREACHABLE
              UNREACHABLE DEADLINE -> FAILED: flush, destroy, used, fails IO_TIMEOUT
              CANCEL -> FAILED: flush, destroy, used, fails CANCELLED
              DEVICE_REMOVED -> FAILED: flush, destroy, used, fails DEVICE_REMOVED
              EVENT_THREAD_ENDED -> FAILED: flush, destroy, used, fails INTERNAL_ERROR
              CONNECT COMPLETE_CONNECT ACCEPT -> ACCEPTING: throws CONNECTION_ACTIVE
              REJECT DISCONNECT -> ACCEPTING: throws CONNECTION_INVALID
              CLOSE -> CLOSED: flush, destroy, used, fails CANCELLED, closed

            # NdkDisconnect is graceful and followed by a flush; the peer's disconnect by none.
            ESTABLISHED
              DISCONNECT -> DRAINING: drain, drained?, step begins
              DISCONNECT if drained -> DISCONNECTING: drain, drained?, flush, disconnect, step begins
            # It would neither drain nor refuse posts.
              DISCONNECT if drain throws \
                -> ENDED: drain, flush, destroy, used, throws StackOverflowError, ends LOCAL
              PEER_DISCONNECTED REJECTED -> PEER_LEFT: shut, disconnect, ends PEER
              PEER_DISCONNECTED REJECTED if shut throws -> PEER_LEFT: shut, ends PEER
            # The peer has not disconnected: the network has failed, or its machine.
              DISCONNECT_UNANSWERED TIMEWAIT_EXIT ROUTE_ERROR CONNECT_ERROR UNREACHABLE \
                -> PEER_LEFT: shut, disconnect, ends LOST
              WORK_REQUEST_FAILED -> PEER_LEFT: shut, disconnect, ends REQUEST_FAILED
              DEVICE_REMOVED -> ENDED: flush, destroy, used, ends DEVICE_REMOVED
              EVENT_THREAD_ENDED -> ESTABLISHED: ends EVENT_THREAD_ENDED, shows why
              CONNECT COMPLETE_CONNECT ACCEPT -> ESTABLISHED: throws CONNECTION_ACTIVE
              REJECT -> ESTABLISHED: throws CONNECTION_INVALID
              CLOSE -> CLOSING: flush, disconnect, ends LOCAL
              CLOSE if disconnect fails -> CLOSED: flush, disconnect, destroy, used, closed, ends LOCAL
            DRAINING
              DRAIN_TIMER -> DRAINING: drained?
              DRAIN_TIMER if drained -> DISCONNECTING: drained?, flush, disconnect
              DRAINED -> DISCONNECTING: flush, disconnect
              DRAINED if disconnect fails \
                -> ENDED: flush, disconnect, destroy, used, succeeds, ends LOCAL
              PEER_DISCONNECTED DISCONNECT_UNANSWERED TIMEWAIT_EXIT ROUTE_ERROR CONNECT_ERROR UNREACHABLE \
                REJECTED -> ENDED: flush, disconnect, destroy, used, succeeds, ends LOCAL
              CLOSE -> CLOSING: flush, disconnect, fails CANCELLED, ends LOCAL
              CLOSE if disconnect fails \
                -> CLOSED: flush, disconnect, destroy, used, fails CANCELLED, closed, ends LOCAL
            DISCONNECTING
              PEER_DISCONNECTED TIMEWAIT_EXIT ROUTE_ERROR CONNECT_ERROR UNREACHABLE REJECTED \
                NO_CONFIRMATION -> ENDED: destroy, used, succeeds, ends LOCAL
            # The kernel gave the peer up.
              DISCONNECT_UNANSWERED -> ENDED: flush, destroy, used, fails IO_TIMEOUT, ends LOCAL
              CLOSE -> CLOSING: flush, fails CANCELLED, ends LOCAL
            DRAINING DISCONNECTING
            # Another caller, which waits for the end of the same disconnect.
              DISCONNECT -> same: step begins
              DEADLINE -> ENDED: flush, destroy, used, fails IO_TIMEOUT, ends LOCAL
              CANCEL -> ENDED: flush, destroy, used, fails CANCELLED, ends LOCAL
              EVENT_THREAD_ENDED -> ENDED: flush, destroy, used, fails INTERNAL_ERROR, ends LOCAL
              DEVICE_REMOVED -> ENDED: flush, destroy, used, fails DEVICE_REMOVED, ends DEVICE_REMOVED
            PEER_LEFT
              EVENT_THREAD_ENDED -> PEER_LEFT: shows why
              DISCONNECT -> ENDED: flush, destroy, used, succeeds
              DEVICE_REMOVED -> ENDED: flush, destroy, used
              CLOSE -> CLOSED: flush, destroy, used, closed
            ENDED
              DISCONNECT -> ENDED: succeeds
            DRAINING DISCONNECTING PEER_LEFT ENDED
              CONNECT COMPLETE_CONNECT ACCEPT REJECT -> same: throws CONNECTION_INVALID
            FAILED
              CONNECT COMPLETE_CONNECT ACCEPT REJECT DISCONNECT -> FAILED: throws CONNECTION_INVALID
            ENDED FAILED
              CLOSE -> CLOSED: closed

            CLOSING
              PEER_DISCONNECTED DISCONNECT_UNANSWERED TIMEWAIT_EXIT ROUTE_ERROR CONNECT_ERROR UNREACHABLE \
                REJECTED NO_CONFIRMATION CLOSE_TIMEOUT DEVICE_REMOVED EVENT_THREAD_ENDED \
                -> CLOSED: destroy, used, closed
            CLOSING CLOSED
              CONNECT COMPLETE_CONNECT ACCEPT REJECT DISCONNECT -> same: throws CONNECTION_INVALID
              CLOSE -> same: throws IllegalStateException
            """;

    /** What a trigger leads to. */
    record Row(ConnectionState next, String effects) {}

    record Cell(ConnectionState state, ConnectionTrigger trigger, String condition) {}

    private static final Map<Cell, Row> ROWS = rows();

    private static Map<Cell, Row> rows() {
        Map<Cell, Row> rows = new LinkedHashMap<>();
        List<ConnectionState> states = List.of();
        for (String line : SPECIFICATION.lines().toList()) {
            String[] sides = line.strip().split("\\s*-> ");
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            if (sides.length == 1) {
                states = names(ConnectionState.class, line);
                continue;
            }
            String[] condition = sides[0].split(" if ");
            String[] result = sides[1].split(": ");
            for (ConnectionState state : states) {
                for (ConnectionTrigger trigger : names(ConnectionTrigger.class, condition[0])) {
                    ConnectionState next =
                            result[0].equals("same") ? state : ConnectionState.valueOf(result[0]);
                    Cell cell = new Cell(state, trigger, condition.length < 2 ? "" : condition[1]);
                    Row before = rows.put(cell, new Row(next, result[1]));
                    assertThat(before).as("another line for " + cell).isNull();
                }
            }
        }
        return rows;
    }

    private static <E extends Enum<E>> List<E> names(Class<E> type, String names) {
        return Arrays.stream(names.strip().split("\\s+")).map(n -> Enum.valueOf(type, n)).toList();
    }

    /** The calls of librdmacm that may fail. */
    private static final Set<String> CALLS =
            Set.of(
                    "create",
                    "resolveAddress",
                    "resolveRoute",
                    "connect",
                    "establish",
                    "accept",
                    "reject",
                    "disconnect",
                    "notifyEstablished");

    private ConnectionSpecification() {}

    /** The calls of a queue pair. */
    private static final Set<String> QUEUE_PAIR_CALLS =
            Set.of("INIT", "RTR", "RTS", "open", "shut", "drain", "drained?", "flush");

    /** Every trigger that does something, with each call that it makes. */
    static Stream<Arguments> everyCall() {
        return ROWS.entrySet().stream()
                .filter(row -> Set.of("", "drained").contains(row.getKey().condition))
                .flatMap(
                        row ->
                                Arrays.stream(row.getValue().effects.split(", "))
                                        .filter(
                                                e ->
                                                        CALLS.contains(e)
                                                                || QUEUE_PAIR_CALLS.contains(e))
                                        .map(call -> Arguments.of(row.getKey(), call)));
    }

    /** Every state with every trigger, and with each call that fails meanwhile. */
    static Stream<Arguments> everyCell() {
        return Arrays.stream(ConnectionState.values())
                .flatMap(
                        state ->
                                Arrays.stream(ConnectionTrigger.values())
                                        .flatMap(trigger -> cells(state, trigger)));
    }

    private static Stream<Arguments> cells(ConnectionState state, ConnectionTrigger trigger) {
        Cell plain = new Cell(state, trigger, "");
        Row usual = ROWS.getOrDefault(plain, new Row(state, ""));
        Stream<Cell> named =
                ROWS.keySet().stream().filter(c -> c.state == state && c.trigger == trigger);
        Stream<Cell> failing =
                Arrays.stream(usual.effects.split(", "))
                        .filter(CALLS::contains)
                        .map(call -> new Cell(state, trigger, call + " fails"));
        return Stream.concat(Stream.of(plain), Stream.concat(named, failing))
                .distinct()
                .map(cell -> Arguments.of(cell, ROWS.getOrDefault(cell, usual)));
    }
}
