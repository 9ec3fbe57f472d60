package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;

import org.junit.jupiter.api.Test;

import java.net.InetSocketAddress;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

/** How two sides connect, and what they learn of each other. */
class ConnectTest extends ConnectorRig {
    /** The first queue pair of an adapter looks at all of its device. */
    private static final int AFTER_PROBING = 1;

    @Test
    void acceptEndsNoEarlierThanCompleteConnect() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        Connector request = request();
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        assertThat(accepting).isNotDone();
        assertThat(near.connected()).isFalse();
        assertThat(far.connected()).isFalse();
        connector.completeConnect();
        assertThat(near.connected()).isTrue();
        get(accepting);
        assertThat(far.connected()).isTrue();
    }

    /** It is long, and of use only where the route leads through another device. */
    @Test
    void readsTheTableOfGidsOnlyWhereTheRouteIsAnothers() throws Exception {
        Connector[] both = connected();
        assertThat(device.gidQueries).isEqualTo(AFTER_PROBING);
        both[0].disconnect();
        network.routeBy = "fake1";
        CompletableFuture<Void> connecting =
                connector().connectAsync(keep(queuePair()), lastListener.localAddress(), DEFAULTS);
        request().acceptAsync(keep(queuePair()), DEFAULTS);
        get(connecting);
        assertThat(device.gidQueries).isEqualTo(AFTER_PROBING + 1);
    }

    @Test
    void carriesPrivateDataWithTheirLength() throws Exception {
        Listener listener = listener();
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(
                        near, listener.localAddress(), DEFAULTS.withPrivateData(HELLO));
        Connector request = request();
        assertThat(request.connectionData().privateData()).isEqualTo(HELLO);
        assertThat(request.connectionData().exact()).isTrue();
        request.acceptAsync(far, DEFAULTS.withPrivateData(new byte[184]));
        get(connecting);
        assertThat(connector.connectionData().privateData()).isEqualTo(new byte[184]);
        assertThat(connector.connectionData().invalidatable()).isTrue();
    }

    /** NDK caps what is more than the adapter has, silently. */
    @Test
    void thePeersReadsAreAtMostTheDevices() throws Exception {
        network.request(listener().localAddress(), new byte[56], 200);
        ConnectionData data = request().connectionData();
        assertThat(data.inboundReads()).isEqualTo(adapter.info().maxInboundReads()).isEqualTo(8);
        assertThat(data.outboundReads()).isEqualTo(adapter.info().maxOutboundReads()).isEqualTo(4);
    }

    /** As in NDK. */
    @Test
    void aLimitOfNoInboundReadsLetsNoReadIn() throws Exception {
        QueuePair closed =
                keep(
                        domain.createQueuePair(
                                queue, queue, QueuePairLimits.depths(4, 4).withReads(0, 2)));
        connecting(connector());
        request().acceptAsync(closed, DEFAULTS);
        assertThat(device.changes.getFirst().get(Attribute.ACCESS)).isEqualTo(Rights.REMOTE_WRITE);
        assertThat(device.changes.get(1).get(Attribute.INBOUND_READS))
                .as("whatever the peer asked for")
                .isZero();
    }

    /** A probe of the device takes 10 ms, and leaves refused queue pairs in the kernel's log. */
    @Test
    void thePeersDataAreReadWithoutAProbeOfTheDevice() throws Exception {
        FakeDevice fresh = new FakeDevice();
        try (Adapter accepting = FakeAdapters.open("fake1", fresh, network);
                Listener listener =
                        accepting.listen(
                                new InetSocketAddress(OTHER_DEVICE, 0), 0, requests::add)) {
            connector().connectAsync(near, listener.localAddress(), DEFAULTS);
            try (Connector request = requests.take()) {
                assertThat(request.connectionData().inboundReads()).isEqualTo(2);
                assertThat(fresh.destroys).isEmpty();
            }
        }
        fresh.dispose();
    }

    @Test
    void aPeerWithoutAnnouncementIsAnsweredWithoutOne() throws Exception {
        Listener listener = listener();
        Connector connector = connector();
        CompletableFuture<Void> connecting =
                connector.connectAsync(
                        near,
                        listener.localAddress(),
                        DEFAULTS.withPrivateData(HELLO).withoutAnnouncement());
        Connector request = request();
        assertThat(network.lastConnect.data()).isEqualTo(HELLO);
        assertThat(request.connectionData().privateData()).startsWith(HELLO).hasSize(56);
        assertThat(request.connectionData().exact()).isFalse();
        request.acceptAsync(far, DEFAULTS.withPrivateData(HELLO));
        get(connecting);
        assertThat(network.lastAccept.data()).isEqualTo(HELLO);
        assertThat(connector.connectionData().invalidatable()).isFalse();
        connector.completeConnect();
        BufferList none = new BufferList(1);
        assertThat(near.sendAndInvalidate(1, none, 5, OpFlags.NONE).status())
                .isEqualTo(Status.NOT_SUPPORTED);
    }

    @Test
    void theCallerMayKnowThatAPeerIsInvalidatable() throws Exception {
        Listener listener = listener();
        Connector connector = connector();
        ConnectionOptions plain = DEFAULTS.withoutAnnouncement();
        CompletableFuture<Void> connecting =
                connector.connectAsync(near, listener.localAddress(), plain);
        CompletableFuture<Void> accepting = request().acceptAsync(far, plain);
        get(connecting);
        connector.completeConnect(plain.assumingInvalidatablePeer());
        get(accepting);
        device.running = false;
        assertThat(near.sendAndInvalidate(1, new BufferList(1), 5, OpFlags.NONE).status())
                .isEqualTo(Status.SUCCESS);
    }

    @Test
    void capsReadsSilently() throws Exception {
        Connector[] both = connected();
        assertThat(network.lastConnect.inboundReads()).isEqualTo(3);
        assertThat(network.lastConnect.outboundReads()).isEqualTo(2);
        assertThat(network.lastAccept.inboundReads()).isEqualTo(2);
        assertThat(network.lastAccept.outboundReads()).isEqualTo(2);
        assertThat(both[0].connectionData().outboundReads()).isEqualTo(2);
        for (StateChange change : device.changes) {
            switch (change.state()) {
                case StateChange.READY_TO_RECEIVE ->
                        assertThat(change.get(Attribute.INBOUND_READS)).isEqualTo(2);
                case StateChange.READY_TO_SEND -> {
                    assertThat(change.get(Attribute.OUTBOUND_READS)).isEqualTo(2);
                    assertThat(change.get(Attribute.RETRIES)).isEqualTo(6);
                }
                default -> assertThat(change.get(Attribute.ACCESS)).isNotZero();
            }
        }
    }

    @Test
    void retriesForAReceiveAreFiniteForAQueueOfItsOwnAndEndlessForASharedOne() throws Exception {
        connected();
        assertThat(network.lastConnect.rnrRetries()).isEqualTo(6);
        assertThat(network.lastConnect.sharedReceives()).isFalse();
        SharedReceiveQueue receives = domain.createSharedReceiveQueue(4, 1, s -> {});
        QueuePair shared =
                domain.createQueuePair(queue, queue, receives, QueuePairLimits.depths(1, 1));
        try (shared;
                receives;
                Connector connector = adapter.createConnector()) {
            connector.connectAsync(shared, listener().localAddress(), DEFAULTS);
            request();
            assertThat(network.lastConnect.rnrRetries()).isEqualTo(7);
            assertThat(network.lastConnect.sharedReceives()).isTrue();
        }
    }

    @Test
    void dataThatComeFirstEstablishTheConnection() throws Exception {
        Connector connector = connector();
        network.silent.add("establish"); // lost on the way
        CompletableFuture<Void> connecting = connecting(connector);
        CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
        get(connecting);
        connector.completeConnect();
        assertThat(accepting).isNotDone();
        device.raise(AdapterEvent.Type.COMMUNICATION_ESTABLISHED, far.handle().address());
        get(accepting);
    }

    @Test
    void knowsItsAddresses() throws Exception {
        Connector[] both = connected();
        assertThat(both[0].localAddress()).isEqualTo(both[1].peerAddress());
        assertThat(both[0].peerAddress()).isEqualTo(both[1].localAddress());
        assertThat(both[0].toString()).contains("ESTABLISHED", "10.0.0.1");
        assertThat(failure(() -> connector().localAddress()).status())
                .isEqualTo(Status.CONNECTION_INVALID);
        assertThat(failure(() -> connector().peerAddress()).status())
                .isEqualTo(Status.CONNECTION_INVALID);
    }

    @Test
    void theQueuePairSaysHowFarItIsAndWhomItServes() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        assertThat(near.state()).isEqualTo(QueuePairState.CONNECTING);
        Connector request = request();
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        assertThat(near.state()).isEqualTo(QueuePairState.CONNECTING);
        assertThat(near.peer()).isEmpty();
        assertThat(far.peer()).isEmpty();
        connector.completeConnect();
        get(accepting);
        assertThat(near.state()).isEqualTo(QueuePairState.CONNECTED);
        assertThat(far.state()).isEqualTo(QueuePairState.CONNECTED);
        assertThat(near.peer().orElseThrow().socketAddress()).contains(connector.peerAddress());
        assertThat(far.peer().orElseThrow().socketAddress()).contains(request.peerAddress());
        connector.disconnect();
        assertThat(near.state()).isEqualTo(QueuePairState.FLUSHED);
        Until.holds(() -> far.state() == QueuePairState.DISCONNECTED);
        request.disconnect();
        assertThat(far.state()).isEqualTo(QueuePairState.FLUSHED);
        assertThat(far.peer()).isPresent();
    }

    @Test
    void anAttemptThatFailsLeavesTheQueuePairInitialized() {
        assertThat(failure(() -> connector().connect(near, new InetSocketAddress(HERE, 1))))
                .isNotNull();
        assertThat(near.state()).isEqualTo(QueuePairState.INITIALIZED);
        assertThat(near.peer()).isEmpty();
    }

    @Test
    void plainCallsWaitOnVirtualThreads() throws Exception {
        CompletableFuture<Void> served = new CompletableFuture<>();
        Listener listener =
                keep(
                        adapter.listen(
                                new InetSocketAddress(HERE, 0),
                                0,
                                request -> {
                                    try (request) {
                                        request.accept(far);
                                        request.disconnect();
                                        served.complete(null);
                                    }
                                }));
        Connector connector = connector();
        CountDownLatch over = new CountDownLatch(1);
        connector.onDisconnect(status -> over.countDown());
        Thread client =
                Thread.ofVirtual()
                        .start(
                                () -> {
                                    connector.connect(near, listener.localAddress());
                                    connector.completeConnect();
                                });
        client.join();
        Until.reached(over);
        get(served);
        connector.disconnect();
        connector.disconnect(); // again does nothing
    }

    @Test
    void withoutTheConnectionManagerThereIsASentence() {
        network.errors.put("openChannel", Errno.ENOENT);
        assertThat(failure(adapter::createConnector))
                .hasMessageContaining("rdma_ucm")
                .hasMessageContaining("/dev/infiniband/rdma_cm");
    }

    @Test
    void choosesAGidAndSaysWhy() {
        assertThat(adapter.gid().toString()).contains("::ffff:10.0.0.1", "RoCE v2 before v1");
        assertThat(adapter.toString()).contains("::ffff:10.0.0.1");
        adapter.useGid(1, 0);
        assertThat(adapter.toString()).contains("chosen by useGid");
        assertThat(failure(() -> adapter.useGid(1, 9)).status())
                .isEqualTo(Status.INVALID_PARAMETER);
    }
}
