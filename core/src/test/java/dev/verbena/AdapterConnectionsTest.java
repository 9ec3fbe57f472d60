package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;

import org.junit.jupiter.api.Test;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

/** What an adapter counts of its connections, and which of them it lists. */
class AdapterConnectionsTest extends ConnectorRig {
    private static ConnectionCounters counters(
            long connects, long accepts, long failures, long errors, int active, int listeners) {
        return new ConnectionCounters(connects, accepts, failures, errors, active, listeners);
    }

    private List<ConnectionInfo.State> states(boolean inbound) {
        return adapter.connections().stream()
                .filter(connection -> connection.inbound() == inbound)
                .map(ConnectionInfo::state)
                .toList();
    }

    /** The end of a connection is counted before the program is notified of it. */
    private void untilEnded(Connector connector) {
        CountDownLatch over = new CountDownLatch(1);
        connector.onDisconnect(status -> over.countDown());
        Until.reached(over);
    }

    @Test
    void anAdapterWithoutConnectionsOpensNoConnectionManager() {
        assertThat(adapter.connectionCounters()).isEqualTo(counters(0, 0, 0, 0, 0, 0));
        assertThat(adapter.connections()).isEmpty();
        assertThat(adapter.localEndpoints()).isEmpty();
        assertThat(network.channels()).isZero();
    }

    @Test
    void bothSidesOfAConnectionAreCountedAndListed() throws Exception {
        Connector[] both = connected();
        assertThat(adapter.connectionCounters()).isEqualTo(counters(1, 1, 0, 0, 2, 1));
        InetSocketAddress here = both[0].localAddress();
        InetSocketAddress there = lastListener.localAddress();
        assertThat(adapter.connections())
                .containsExactlyInAnyOrder(
                        new ConnectionInfo(
                                here,
                                there,
                                ConnectionInfo.State.ESTABLISHED,
                                false,
                                near.address().queuePairNumber()),
                        new ConnectionInfo(
                                there,
                                here,
                                ConnectionInfo.State.ESTABLISHED,
                                true,
                                far.address().queuePairNumber()));
        CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
        untilEnded(both[1]);
        get(ending);
        assertThat(states(true)).containsExactly(ConnectionInfo.State.DISCONNECTED);
        assertThat(states(false)).isEmpty();
        assertThat(adapter.connectionCounters()).isEqualTo(counters(1, 1, 0, 0, 0, 1));
        both[1].disconnect();
        assertThat(adapter.connections()).isEmpty();
        lastListener.close();
        assertThat(adapter.connectionCounters()).isEqualTo(counters(1, 1, 0, 0, 0, 0));
    }

    @Test
    void eachStepShowsAnotherState() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        Connector request = request();
        assertThat(states(true)).containsExactly(ConnectionInfo.State.REQUESTED);
        assertThat(states(false)).containsExactly(ConnectionInfo.State.CONNECTING);
        assertThat(adapter.connections().stream().mapToInt(ConnectionInfo::queuePairNumber))
                .containsExactlyInAnyOrder(0, near.address().queuePairNumber());
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        assertThat(states(true)).containsExactly(ConnectionInfo.State.CONNECTING);
        assertThat(states(false)).containsExactly(ConnectionInfo.State.CONNECTING);
        connector.completeConnect();
        get(accepting);
        network.silent.add("disconnect");
        CompletableFuture<Void> ending = connector.disconnectAsync(DEFAULTS);
        assertThat(states(false)).containsExactly(ConnectionInfo.State.DISCONNECTING);
        assertThat(adapter.connectionCounters().active()).as("not confirmed").isEqualTo(2);
        network.until(() -> network.emit("ESTABLISHED", ConnectionEvent.Kind.DISCONNECTED, 0) > 0);
        get(ending);
    }

    @Test
    void anAttemptThatFailsIsCountedOnceAndListedNoMore() throws Exception {
        InetSocketAddress nobody = new InetSocketAddress(HERE, 7);
        Connector connector = connector();
        failure(() -> connector.connect(near, nobody));
        assertThat(adapter.connectionCounters()).isEqualTo(counters(0, 0, 1, 0, 0, 0));
        network.errors.put("resolveAddress", Errno.ENOMEM);
        failure(() -> connector.connect(near, nobody));
        network.errors.clear();
        assertThat(adapter.connectionCounters().connectFailures()).as("a call").isEqualTo(2);
        network.silent.add("resolveAddress");
        failure(() -> connector.connect(near, nobody, SOON));
        network.silent.clear();
        assertThat(adapter.connectionCounters().connectFailures()).as("deadline").isEqualTo(3);
        assertThat(adapter.connections()).isEmpty();
    }

    @Test
    void aRejectionIsAFailedAttemptOfTheSideThatConnects() throws Exception {
        CompletableFuture<Void> connecting = connecting(connector());
        request().reject(HELLO);
        failure(connecting);
        assertThat(adapter.connectionCounters()).isEqualTo(counters(0, 0, 1, 0, 0, 1));
        Connector connector = connector();
        CompletableFuture<Void> second = connecting(connector);
        CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
        get(second);
        connector.reject(HELLO);
        failure(accepting);
        assertThat(adapter.connectionCounters()).isEqualTo(counters(0, 0, 3, 0, 0, 2));
        assertThat(adapter.connections()).isEmpty();
    }

    @Test
    void anAcceptThatFailsIsCountedOnBothSides() throws Exception {
        CompletableFuture<Void> connecting = connecting(connector());
        Connector request = request();
        network.errors.put("accept", Errno.ENOMEM);
        failure(() -> request.accept(far));
        failure(connecting);
        assertThat(adapter.connectionCounters()).isEqualTo(counters(0, 0, 2, 0, 0, 1));
        failure(() -> request.accept(far));
        assertThat(adapter.connectionCounters().connectFailures()).as("refused").isEqualTo(2);
    }

    @Test
    void aFailedRequestIsAnErrorOfItsConnection() throws Exception {
        Connector[] both = connected();
        device.failStatus = 12; // IBV_WC_RETRY_EXC_ERR
        device.failAt = 0;
        near.send(1, new BufferList(1)).orThrow();
        Completions completions = new Completions(4);
        assertThat(queue.poll(completions)).isEqualTo(1);
        untilEnded(both[0]);
        untilEnded(both[1]);
        assertThat(adapter.connectionCounters()).isEqualTo(counters(1, 1, 0, 1, 0, 1));
    }

    @Test
    void aRemovedDeviceIsAnErrorOfEachConnection() throws Exception {
        Connector[] both = connected();
        network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
        untilEnded(both[0]);
        untilEnded(both[1]);
        assertThat(adapter.connectionCounters()).isEqualTo(counters(1, 1, 0, 2, 0, 1));
    }

    @Test
    void listenersAndSharedEndpointsAreListed() throws Exception {
        Listener listener = keep(adapter.listen(new InetSocketAddress(HERE, 0), 5, requests::add));
        SharedEndpoint shared = keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
        CompletableFuture<Void> connecting =
                connector().connectAsync(near, listener.localAddress(), DEFAULTS);
        Connector request = request();
        assertThat(adapter.localEndpoints())
                .containsExactlyInAnyOrder(
                        new LocalEndpoint(
                                listener.localAddress(), LocalEndpoint.Use.LISTENING, 5, 1),
                        new LocalEndpoint(shared.localAddress(), LocalEndpoint.Use.SHARED, 0, 0));
        request.close();
        failure(connecting);
        listener.pause();
        shared.close();
        assertThat(adapter.localEndpoints())
                .containsExactly(
                        new LocalEndpoint(listener.localAddress(), LocalEndpoint.Use.PAUSED, 5, 0));
        assertThat(adapter.connectionCounters().listeners()).isZero();
        listener.resume();
        assertThat(adapter.connectionCounters().listeners()).isEqualTo(1);
    }
}
