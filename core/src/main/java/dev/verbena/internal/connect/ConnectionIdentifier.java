package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.ConnectionParameters;
import dev.verbena.internal.verbs.IdentifierInfo;
import dev.verbena.internal.verbs.StateChange;

import java.net.InetSocketAddress;

/**
 * An {@code rdma_cm_id}, and the calls of librdmacm that take one.
 *
 * <p>{@link ConnectionEvents} makes them. Those that fail with a {@link Failure} name the call.
 */
final class ConnectionIdentifier {
    private final ConnectionEvents events;
    private final ConnectionControl control;
    private final long id;
    private final long key;

    /** Wraps one. */
    ConnectionIdentifier(ConnectionEvents events, long id, long key) {
        this.events = events;
        this.control = events.control();
        this.id = id;
        this.key = key;
    }

    long id() {
        return id;
    }

    long key() {
        return key;
    }

    /** Whether an event is about this identifier, and not about one before it. */
    boolean isSubjectOf(ConnectionEvent event) {
        return event.key() == key;
    }

    IdentifierInfo describe() {
        return control.describe(id);
    }

    void shareAddress() throws Failure {
        Failure.check(control.shareAddress(id), "rdma_set_option(REUSEADDR)", "");
    }

    void trafficClass(int value) throws Failure {
        Failure.check(control.trafficClass(id, value), "rdma_set_option", "TOS " + value, "");
    }

    void resolveRoute(int milliseconds) throws Failure {
        Failure.check(control.resolveRoute(id, milliseconds), "rdma_resolve_route", "");
    }

    void connect(ConnectionParameters parameters, InetSocketAddress peer) throws Failure {
        Failure.check(control.connect(id, parameters), "rdma_connect", peer, "");
    }

    void accept(ConnectionParameters parameters) throws Failure {
        Failure.check(control.accept(id, parameters), "rdma_accept", "");
    }

    void establish() throws Failure {
        Failure.check(control.establish(id), "rdma_establish", "");
    }

    /** Asks what a queue pair has to be given to reach a state. */
    void fillIn(StateChange change, String state) throws Failure {
        Failure.check(control.fillIn(id, change), "rdma_init_qp_attr", state, "");
    }

    /** Returns 0, or a negative errno where the peer gave up before. */
    int reject(byte[] data) {
        return control.reject(id, data);
    }

    /** Returns 0, or a negative errno where the peer was first or the device is gone. */
    int disconnect() {
        return control.disconnect(id);
    }

    void notifyData() {
        control.notifyEstablished(id);
    }

    /** Refuses or disconnects a peer that there is; no event comes any more. */
    void destroy() {
        events.destroy(this);
    }
}
