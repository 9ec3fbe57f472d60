package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.verbena.internal.verbs.AsyncEvent;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** Connections on a device and a connection manager that do not exist. */
@Timeout(60)
class ConnectorTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
    private static final InetAddress OTHER_DEVICE = InetAddress.ofLiteral("10.0.0.2");
    private static final ConnectionOptions DEFAULTS = ConnectionOptions.DEFAULTS;
    private static final ConnectionOptions SOON =
            DEFAULTS.withDeadline(Duration.ofMillis(30)); // for what never comes
    private static final byte[] HELLO = {1, 2, 3, 0};

    private final FakeDevice device = new FakeDevice();
    private final FakeConnections network = new FakeConnections();
    private final Adapter adapter = new Adapter("fake0", device, device.open(), () -> network);
    private final ProtectionDomain domain = adapter.createProtectionDomain();
    private final CompletionQueue queue = adapter.createCompletionQueue(64);
    private final QueuePair near = queuePair();
    private final QueuePair far = queuePair();
    private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private final Arena arena = Arena.ofShared();
    private Listener lastListener;

    ConnectorTest() {
        network.devices.put(HERE, "fake0");
        network.devices.put(OTHER_DEVICE, "fake1");
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable object : opened.reversed()) {
            object.close();
        }
        near.close();
        far.close();
        queue.close();
        domain.close();
        adapter.close();
        arena.close();
        // A connection's end may still be on its way to the peer.
        until(() -> device.objects() == 0 && network.identifiers() == 0 && network.channels() == 0);
        device.dispose();
        Rig.nobodyThrew();
    }

    private QueuePair queuePair() {
        return domain.createQueuePair(queue, queue, QueuePairLimits.depths(4, 4).withReads(3, 2));
    }

    private <T extends AutoCloseable> T keep(T object) {
        opened.add(object);
        return object;
    }

    private Listener listener() {
        lastListener = keep(adapter.listen(new InetSocketAddress(HERE, 0), 0, requests::add));
        return lastListener;
    }

    private Connector connector() {
        return keep(adapter.createConnector());
    }

    private Connector request() throws InterruptedException {
        Connector request = requests.poll(30, TimeUnit.SECONDS);
        assertThat(request).as("a request").isNotNull();
        return keep(request);
    }

    /** On its way to a listener made for it, from the near queue pair. */
    private CompletableFuture<Void> connecting(Connector connector) {
        return connector.connectAsync(near, listener().localAddress(), DEFAULTS);
    }

    private static void get(CompletableFuture<?> future) throws Exception {
        future.get(30, TimeUnit.SECONDS);
    }

    private static VerbenaException failure(CompletableFuture<?> future) {
        return (VerbenaException)
                catchThrowableOfType(ExecutionException.class, () -> get(future)).getCause();
    }

    private static VerbenaException failure(ThrowingCallable call) {
        return catchThrowableOfType(VerbenaException.class, call);
    }

    /** A connection between the two queue pairs: the connecting side and the accepting one. */
    private Connector[] connected() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        Connector request = request();
        CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
        get(connecting);
        connector.completeConnect();
        get(accepting);
        return new Connector[] {connector, request};
    }

    private void waitFor(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
    }

    private static void until(java.util.function.BooleanSupplier fact) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!fact.getAsBoolean()) {
            assertThat(System.nanoTime() - end).as("30 s").isNegative();
            Thread.onSpinWait();
        }
    }

    @Nested
    class TheSequence {
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
            assertThat(near.sendAndInvalidate(1, none, 5, OpFlags.NONE))
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
            assertThat(near.sendAndInvalidate(1, new BufferList(1), 5, OpFlags.NONE))
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
                            assertThat(change.inboundReads()).isEqualTo(2);
                    case StateChange.READY_TO_SEND -> {
                        assertThat(change.outboundReads()).isEqualTo(2);
                        assertThat(change.retries()).isEqualTo(6);
                    }
                    default -> assertThat(change.access()).isNotZero();
                }
            }
        }

        @Test
        void retriesForAReceiveAreFiniteForAQueueOfItsOwnAndEndlessForASharedOne()
                throws Exception {
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
            device.raise(AsyncEvent.Kind.COMMUNICATION_ESTABLISHED, far.nativeAddress());
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
            until(() -> far.state() == QueuePairState.DISCONNECTED);
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
            waitFor(over);
            get(served);
            connector.disconnect();
            connector.disconnect(); // again does nothing
        }
    }

    @Nested
    class WhatGoesWrongWhileConnecting {
        @Test
        void nobodyListens() {
            Connector connector = connector();
            VerbenaException e =
                    failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7)));
            assertThat(e.status()).isEqualTo(Status.CONNECTION_REFUSED);
            assertThat(e).hasMessageContaining("nobody listens").hasMessageContaining("10.0.0.1:7");
        }

        @Test
        void theProgramRefusesAndSaysWhy() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            request().reject(HELLO);
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
            assertThat(connector.connectionData().privateData()).isEqualTo(HELLO);
        }

        @Test
        void connectorAndQueuePairMayTryAgain() throws Exception {
            Connector connector = connector();
            failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7)));
            CompletableFuture<Void> connecting =
                    connector.connectAsync(near, listener().localAddress(), DEFAULTS);
            CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
            get(connecting);
            connector.completeConnect();
            get(accepting);
        }

        @ParameterizedTest
        @CsvSource({
            "RESOLVING, ADDRESS_ERROR, -1, INVALID_ADDRESS, uverbs",
            "RESOLVING, ADDRESS_ERROR, -12, NETWORK_UNREACHABLE, ip route get",
            "RESOLVING, ADDRESS_ERROR, -113, HOST_UNREACHABLE, ip neighbour",
            "RESOLVING, ADDRESS_ERROR, -101, NETWORK_UNREACHABLE, ip route get",
            "RESOLVING, ADDRESS_ERROR, -19, INVALID_ADDRESS, rdma link",
            "ROUTING, ROUTE_ERROR, -22, HOST_UNREACHABLE, no RDMA path",
            "CONNECTING, UNREACHABLE, -110, IO_TIMEOUT, firewall",
            "CONNECTING, CONNECT_ERROR, 0, CONNECTION_ABORTED, broke off",
            "CONNECTING, REJECTED, 10, CONNECTION_REFUSED, older connection",
            "CONNECTING, REJECTED, 4, CONNECTION_REFUSED, gave up",
            "CONNECTING, REJECTED, 3, CONNECTION_REFUSED, reason 3",
            "CONNECTING, DEVICE_REMOVED, 0, DEVICE_REMOVED, gone",
            "CONNECTING, ADDRESS_CHANGED, 0, CONNECTION_ABORTED, failover"
        })
        void eachEventEndsItWithAStatusAndASentence(
                String state, ConnectionEvent.Kind kind, int code, Status status, String part) {
            network.silent.addAll(List.of("resolveAddress", "resolveRoute", "connect"));
            List<String> order = List.of("RESOLVING", "ROUTING", "CONNECTING");
            if (!state.equals("RESOLVING")) {
                network.silent.remove("resolveAddress");
            }
            if (state.equals("CONNECTING")) {
                network.silent.remove("resolveRoute");
            }
            assertThat(order).contains(state);
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectAsync(
                            near,
                            new InetSocketAddress(HERE, 7),
                            DEFAULTS.withLocalAddress(new InetSocketAddress(HERE, 0)));
            until(() -> network.emit(state, kind, code) > 0);
            VerbenaException e = failure(connecting);
            assertThat(e.status()).isEqualTo(status);
            assertThat(e).hasMessageContaining(part);
            assertThat(network.identifiers()).isZero();
        }

        @ParameterizedTest
        @ValueSource(
                strings = {"create", "resolveAddress", "resolveRoute", "connect", "shareAddress"})
        void eachCallMayFail(String call) {
            SharedEndpoint endpoint =
                    keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
            Connector connector = connector();
            network.errors.put(call, Errno.ENOMEM);
            VerbenaException e =
                    failure(
                            () ->
                                    connector.connectWithSharedEndpoint(
                                            near,
                                            endpoint,
                                            new InetSocketAddress(HERE, 7),
                                            DEFAULTS));
            assertThat(e.status()).isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(e.errno()).isEqualTo(Errno.ENOMEM);
            assertThat(e.verb()).startsWith("rdma_");
            assertThat(network.identifiers()).as("the endpoint's").isEqualTo(1);
        }

        @ParameterizedTest
        @CsvSource({
            "101, NETWORK_UNREACHABLE",
            "113, HOST_UNREACHABLE",
            "110, IO_TIMEOUT",
            "19, INVALID_ADDRESS",
            "98, ADDRESS_ALREADY_EXISTS",
            "99, TOO_MANY_ADDRESSES",
            "22, INVALID_PARAMETER"
        })
        void theErrnoOfTheFirstCallSaysWhatIsWrong(int errno, Status status) {
            network.errors.put("resolveAddress", errno);
            assertThat(
                            failure(() -> connector().connect(near, new InetSocketAddress(HERE, 7)))
                                    .status())
                    .isEqualTo(status);
        }

        @ParameterizedTest
        @ValueSource(strings = {"resolveAddress", "resolveRoute", "connect"})
        void theDeadlineComes(String unanswered) {
            network.silent.add(unanswered);
            Connector connector = connector();
            VerbenaException e =
                    failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7), SOON));
            assertThat(e.status()).isEqualTo(Status.IO_TIMEOUT);
            assertThat(e).hasMessageContaining("within 0.03 s");
            assertThat(network.identifiers()).isZero();
        }

        @Test
        void aLateAnswerOfTheKernelIsAskedForAgain() throws Exception {
            network.lateAnswers = 3;
            CompletableFuture<Void> connecting = connecting(connector());
            request().acceptAsync(far, DEFAULTS);
            get(connecting);
        }

        @Test
        void theNamedDeviceWinsOverTheRoute() throws Exception {
            network.routeBy = "fake1";
            CompletableFuture<Void> connecting = connecting(connector());
            request().acceptAsync(far, DEFAULTS);
            get(connecting);
        }

        @Test
        void theChosenGidIsTheLocalAddress() {
            adapter.useGid(1, 0);
            network.routeBy = "nobody asks for the route";
            network.silent.add("connect");
            Connector connector = connector();
            connector.connectAsync(near, new InetSocketAddress(HERE, 7), DEFAULTS);
            until(() -> network.calls.contains("connect"));
            assertThat(connector.localAddress().getAddress()).isEqualTo(HERE);
            VerbenaException e =
                    failure(() -> connector().connect(far, new InetSocketAddress("fd00::1", 7)));
            assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
            assertThat(e).hasMessageContaining("one is IPv4, the other IPv6");
        }

        @Test
        void anAddressOfAnotherDeviceIsExplained() {
            ConnectionOptions from =
                    DEFAULTS.withLocalAddress(new InetSocketAddress(OTHER_DEVICE, 0));
            VerbenaException e =
                    failure(() -> connector().connect(near, new InetSocketAddress(HERE, 7), from));
            assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
            assertThat(e).hasMessageContaining("fake1").hasMessageContaining("fake0");
        }

        @ParameterizedTest
        @ValueSource(strings = {"127.0.0.1", "::1"})
        void loopbackIsExplained(String loopback) {
            InetSocketAddress address = new InetSocketAddress(loopback, 7);
            VerbenaException e = failure(() -> connector().connect(near, address));
            assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
            assertThat(e).hasMessageContaining("loopback").hasMessageContaining("10.0.0.1");
            assertThat(failure(() -> adapter.listen(address, 0, c -> {})).status())
                    .isEqualTo(Status.INVALID_ADDRESS);
        }

        @Test
        void theAdviceIsForTheWayThatWasAskedFor() {
            InetSocketAddress to = new InetSocketAddress(HERE, 7);
            network.errors.put("resolveAddress", Errno.EINVAL);
            assertThat(failure(() -> connector().connect(near, to)))
                    .hasMessageContaining("ip route get");
            network.errors.put("resolveAddress", Errno.EINVAL);
            ConnectionOptions named = DEFAULTS.withLocalAddress(new InetSocketAddress(HERE, 0));
            assertThat(failure(() -> connector().connect(near, to, named)))
                    .hasMessageContaining("Is /10.0.0.1 an address of device fake0");
        }

        @Test
        void anotherAttemptGoesFromItsOwnAddress() {
            Connector connector = connector();
            InetSocketAddress to = new InetSocketAddress(HERE, 7);
            ConnectionOptions from = DEFAULTS.withLocalAddress(new InetSocketAddress(HERE, 0));
            assertThat(failure(() -> connector.connect(near, to, from)))
                    .hasMessageContaining("nobody listens");
            ConnectionOptions elsewhere =
                    DEFAULTS.withLocalAddress(new InetSocketAddress(OTHER_DEVICE, 0));
            assertThat(failure(() -> connector.connect(near, to, elsewhere)).status())
                    .isEqualTo(Status.INVALID_ADDRESS);
        }

        @Test
        void addressesThatAreNoneAreExplained() {
            Connector connector = connector();
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress("fe80::1", 7))))
                    .hasMessageContaining("needs its network interface");
            assertThat(
                            failure(
                                    () ->
                                            connector.connect(
                                                    near,
                                                    InetSocketAddress.createUnresolved("x", 7))))
                    .hasMessageContaining("name was not found");
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(7))))
                    .hasMessageContaining("an address and a port");
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 0))))
                    .hasMessageContaining("and a port");
        }

        @ParameterizedTest
        @CsvSource({"45, true", "57, false"})
        void tooMuchPrivateData(int bytes, boolean announced) {
            ConnectionOptions options = DEFAULTS.withPrivateData(new byte[bytes]);
            ConnectionOptions all = announced ? options : options.withoutAnnouncement();
            VerbenaException e =
                    failure(() -> connector().connect(near, new InetSocketAddress(HERE, 7), all));
            assertThat(e.status()).isEqualTo(Status.INVALID_BUFFER_SIZE);
            assertThat(e).hasMessageContaining("room for " + (bytes - 1));
            assertThat(e.getMessage().contains("this layer's header")).isEqualTo(announced);
        }

        @Test
        void interruptsGiveTheStepUp() throws Exception {
            network.silent.add("connect");
            AtomicReference<VerbenaException> thrown = new AtomicReference<>();
            AtomicReference<Boolean> interrupted = new AtomicReference<>();
            Connector connector = connector();
            InetSocketAddress nobody = new InetSocketAddress(HERE, 7);
            Thread waiting =
                    Thread.ofVirtual()
                            .start(
                                    () -> {
                                        thrown.set(failure(() -> connector.connect(near, nobody)));
                                        interrupted.set(Thread.interrupted());
                                    });
            until(() -> network.calls.contains("connect"));
            waiting.interrupt();
            waiting.join();
            assertThat(thrown.get().status()).isEqualTo(Status.CANCELLED);
            assertThat(interrupted.get()).isTrue();
            assertThat(network.identifiers()).isZero();
        }

        @Test
        void cancellingTheFutureGivesTheStepUp() {
            network.silent.add("connect");
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectAsync(near, new InetSocketAddress(HERE, 7), DEFAULTS);
            until(() -> network.calls.contains("connect"));
            connecting.cancel(true);
            assertThatThrownBy(connecting::join).isInstanceOf(CancellationException.class);
            assertThat(network.identifiers()).isZero();
        }

        @Test
        void aStageThatDependsOnAFutureMayWait() throws Exception {
            Listener listener = listener();
            Connector connector = connector();
            CompletableFuture<Void> whole =
                    connector
                            .connectAsync(near, listener.localAddress(), DEFAULTS)
                            .thenRun(connector::completeConnect)
                            .thenRun(connector::disconnect);
            Connector request = request();
            CountDownLatch ended = new CountDownLatch(1);
            request.onDisconnect(
                    status -> {
                        request.disconnect();
                        ended.countDown();
                    });
            request.accept(far);
            get(whole);
            waitFor(ended); // the test closes the connector
        }

        @Test
        void aUsedConnectorIsActive() throws Exception {
            Connector[] both = connected();
            InetSocketAddress peer = both[0].peerAddress();
            QueuePair third = keep(queuePair());
            assertThat(failure(() -> both[0].connect(third, peer)).status())
                    .isEqualTo(Status.CONNECTION_ACTIVE);
            assertThat(failure(() -> both[0].connect(third, peer)))
                    .hasMessageContaining("this connector is established");
            assertThat(failure(() -> both[1].accept(third)).status())
                    .isEqualTo(Status.CONNECTION_ACTIVE);
            assertThat(failure(() -> connector().connect(near, peer)).status())
                    .isEqualTo(Status.CONNECTION_ACTIVE);
            both[0].disconnect();
            assertThat(failure(() -> connector().connect(near, peer)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            // The third was let go of each time.
            failure(() -> connector().connect(third, new InetSocketAddress(HERE, 7)));
        }

        @Test
        void stepsOutOfOrderAreRefused() throws Exception {
            Connector connector = connector();
            assertThat(failure(() -> connector.completeConnect()).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(failure(() -> connector.accept(near)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(failure(() -> connector.reject(HELLO)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(failure(() -> connector.disconnect()).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
            assertThat(failure(() -> connected()[0].reject(HELLO)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
        }

        @Test
        void aQueuePairOfAnotherAdapterIsRefused() {
            FakeDevice another = new FakeDevice();
            try (Adapter elsewhere = new Adapter("fake9", another, another.open());
                    ProtectionDomain pd = elsewhere.createProtectionDomain();
                    CompletionQueue cq = elsewhere.createCompletionQueue(8);
                    QueuePair stranger = pd.createQueuePair(cq, cq, QueuePairLimits.depths(1, 1))) {
                assertThat(
                                failure(
                                                () ->
                                                        connector()
                                                                .connect(
                                                                        stranger,
                                                                        new InetSocketAddress(
                                                                                HERE, 7)))
                                        .status())
                        .isEqualTo(Status.INVALID_PARAMETER_MIX);
            }
            another.dispose();
        }
    }

    @Nested
    class WhatGoesWrongWhileAccepting {
        private Connector asked() throws InterruptedException {
            Connector connector = connector();
            connector.connectAsync(near, listener().localAddress(), DEFAULTS);
            return request();
        }

        @ParameterizedTest
        @CsvSource({
            "UNREACHABLE, -110, IO_TIMEOUT",
            "REJECTED, 28, CONNECTION_ABORTED",
            "CONNECT_ERROR, 0, CONNECTION_ABORTED",
            "DISCONNECTED, 0, CONNECTION_ABORTED",
            "DEVICE_REMOVED, 0, DEVICE_REMOVED"
        })
        void eachEventEndsItWithAStatus(ConnectionEvent.Kind kind, int code, Status status)
                throws Exception {
            network.silent.add("accept");
            CompletableFuture<Void> accepting = asked().acceptAsync(far, DEFAULTS);
            assertThat(network.emit("ACCEPTED", kind, code)).isEqualTo(1);
            assertThat(failure(accepting).status()).isEqualTo(status);
            assertThat(far.connected()).isFalse();
            assertThat(device.inError(far.nativeAddress())).isTrue();
        }

        @Test
        void thePeerRefusesLate() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            Connector request = request();
            CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
            get(connecting);
            connector.reject(HELLO);
            assertThat(failure(accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(request.connectionData().privateData()).isEqualTo(HELLO);
            // Nothing was done to the queue pair of the side that refused.
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                    .hasMessageContaining("nobody listens");
            assertThat(failure(() -> request.accept(far)).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
        }

        @Test
        void aPeerThatGaveUpCostsNoQueuePair() throws Exception {
            Connector request = asked();
            network.errors.put("fillIn 1", Errno.EINVAL); // how the kernel says so
            VerbenaException e = failure(() -> request.accept(far));
            assertThat(e.status()).isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(e).hasMessageContaining("gave up meanwhile");
            assertThat(device.inError(far.nativeAddress())).isFalse();
            CompletableFuture<Void> connecting =
                    connector().connectAsync(far, lastListener.localAddress(), DEFAULTS);
            assertThat(connecting).isNotCompletedExceptionally();
            request();
        }

        @Test
        void aDeviceThatIsGoneIsReportedAsSuch() throws Exception {
            Connector request = asked();
            network.errors.put("fillIn 1", Errno.ENXIO);
            assertThat(failure(() -> request.accept(far)).status())
                    .isEqualTo(Status.DEVICE_REMOVED);
        }

        @Test
        void aQueuePairThatWasClosedMeanwhileIsNotConnected() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
            get(connecting);
            near.close();
            VerbenaException e = failure(() -> connector.completeConnect());
            assertThat(e.status()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(e).hasMessageContaining("closed or flushed");
            assertThat(failure(accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
        }

        @Test
        void thePeerGaveUpBefore() throws Exception {
            Connector request = asked();
            network.emit("REQUESTED", ConnectionEvent.Kind.REJECTED, 4);
            until(() -> request.toString().contains("gave up"));
            VerbenaException e = failure(() -> request.accept(far));
            assertThat(e.status()).isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(e).hasMessageContaining("gave up");
            assertThat(failure(() -> request.reject(HELLO)).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
        }

        @Test
        void theServerGaveUpBeforeTheConnectionWasCompleted() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            Connector request = request();
            assertThat(failure(request.acceptAsync(far, SOON)).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            get(connecting);
            until(() -> connector.toString().contains("accepted, and gave up"));
            assertThat(failure(() -> connector.completeConnect()).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
            // The queue pair was not touched.
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                    .hasMessageContaining("nobody listens");
        }

        @Test
        void theServerGaveUpBeforeTheConnectionWasRefused() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            assertThat(failure(request().acceptAsync(far, SOON)).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            get(connecting);
            until(() -> connector.toString().contains("accepted, and gave up"));
            assertThat(failure(() -> connector.reject(HELLO)).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                    .hasMessageContaining("nobody listens");
        }

        @ParameterizedTest
        @ValueSource(strings = {"fillIn 2", "fillIn 3", "accept", "change"})
        void eachCallMayFail(String call) throws Exception {
            Connector request = asked();
            if (call.equals("change")) {
                device.changeError = Errno.EINVAL;
            } else {
                network.errors.put(call, Errno.EINVAL);
            }
            assertThat(failure(request.acceptAsync(far, DEFAULTS)).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(device.inError(far.nativeAddress())).isTrue();
        }

        @ParameterizedTest
        @ValueSource(strings = {"fillIn 1", "fillIn 3", "establish"})
        void eachCallMayFailWhileCompleting(String call) throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting = connecting(connector);
            CompletableFuture<Void> accepting = request().acceptAsync(far, DEFAULTS);
            get(connecting);
            network.errors.put(call, Errno.EINVAL);
            assertThat(failure(() -> connector.completeConnect()).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(failure(accepting).status()).isEqualTo(Status.CONNECTION_ABORTED);
        }

        @Test
        void theDeadlineComes() throws Exception {
            Connector request = asked();
            network.silent.add("accept");
            assertThat(failure(() -> request.accept(far, SOON)).status())
                    .isEqualTo(Status.IO_TIMEOUT);
        }

        @Test
        void tooMuchPrivateDataLeavesTheRequestAsItIs() throws Exception {
            Connector request = asked();
            ConnectionOptions much = DEFAULTS.withPrivateData(new byte[185]);
            assertThat(failure(() -> request.accept(far, much)).status())
                    .isEqualTo(Status.INVALID_BUFFER_SIZE);
            assertThat(failure(() -> request.reject(new byte[137])).status())
                    .isEqualTo(Status.INVALID_BUFFER_SIZE);
            request.acceptAsync(far, DEFAULTS);
        }
    }

    @Nested
    class TheEnd {
        @Test
        void eachSideIsNotifiedOnce() throws Exception {
            Connector[] both = connected();
            BlockingQueue<String> callbacks = new LinkedBlockingQueue<>();
            both[0].onDisconnect(status -> callbacks.add("near " + status.name()));
            both[1].onDisconnect(status -> callbacks.add("far " + status.name()));
            both[0].disconnect();
            both[1].disconnect();
            assertThat(Set.of(callbacks.take(), callbacks.take()))
                    .isEqualTo(Set.of("near SUCCESS", "far CONNECTION_INVALID"));
            both[0].close();
            both[1].close();
            assertThat(callbacks).isEmpty();
            both[0].onDisconnect(status -> callbacks.add("late " + status.name()));
            assertThat(callbacks.take()).isEqualTo("late SUCCESS");
        }

        @Test
        void thePeersDisconnectCancelsNothing() throws Exception {
            Connector[] both = connected();
            CountDownLatch over = new CountDownLatch(1);
            both[1].onDisconnect(status -> over.countDown());
            MemoryRegion memory = keep(domain.register(arena.allocate(64), Access.LOCAL_WRITE));
            far.receive(7, new BufferList(1).add(memory, 0, 64)).orThrow();
            both[0].disconnect();
            waitFor(over);
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isZero();
            assertThat(far.connected()).isFalse();
            assertThat(far.send(1, new BufferList(1))).isEqualTo(Status.CONNECTION_INVALID);
            both[1].disconnect();
            assertThat(queue.poll(completions)).isEqualTo(1);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
        }

        @Test
        void outstandingRequestsMayEnd() throws Exception {
            Connector[] both = connected();
            device.running = false;
            for (int i = 0; i < 3; i++) {
                near.write(i, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
            }
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            assertThat(near.send(1, new BufferList(1))).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(ending).isNotDone();
            assertThat(network.calls).doesNotContain("disconnect");
            device.running = true;
            device.run();
            get(ending);
            assertThat(queue.poll(new Completions(4))).as("silent ones succeeded").isZero();
        }

        @Test
        void requestsThatDoNotEndAreCancelled() throws Exception {
            Connector[] both = connected();
            device.running = false;
            near.write(5, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
            get(both[0].disconnectAsync(DEFAULTS.withDeadline(Duration.ofSeconds(1))));
            Completions completions = new Completions(4);
            assertThat(queue.poll(completions)).isEqualTo(1);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
            assertThat(completions.context(0)).isEqualTo(5);
        }

        @Test
        void aPeerThatDoesNotConfirm() throws Exception {
            Connector[] both = connected();
            network.silent.addAll(List.of("confirm", "disconnect"));
            assertThat(failure(both[0].disconnectAsync(SOON)).status())
                    .isEqualTo(Status.IO_TIMEOUT);
            both[0].disconnect(); // it is over here all the same
        }

        @Test
        void bothAtOnce() throws Exception {
            for (int i = 0; i < 20; i++) {
                try (QueuePair one = queuePair();
                        QueuePair two = queuePair();
                        Listener listener =
                                adapter.listen(new InetSocketAddress(HERE, 0), 0, requests::add);
                        Connector connector = adapter.createConnector()) {
                    CompletableFuture<Void> connecting =
                            connector.connectAsync(one, listener.localAddress(), DEFAULTS);
                    try (Connector request = requests.take()) {
                        CompletableFuture<Void> accepting = request.acceptAsync(two, DEFAULTS);
                        get(connecting);
                        connector.completeConnect();
                        get(accepting);
                        AtomicInteger callbacks = new AtomicInteger();
                        CountDownLatch all = new CountDownLatch(2);
                        for (Connector side : List.of(connector, request)) {
                            side.onDisconnect(
                                    s -> {
                                        callbacks.incrementAndGet();
                                        all.countDown();
                                    });
                        }
                        CompletableFuture<Void> here = connector.disconnectAsync(DEFAULTS);
                        CompletableFuture<Void> there = request.disconnectAsync(DEFAULTS);
                        get(here);
                        get(there);
                        waitFor(all);
                        assertThat(callbacks).hasValue(2);
                    }
                }
            }
        }

        @Test
        void theDeviceGoes() throws Exception {
            Connector[] both = connected();
            BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
            both[0].onDisconnect(callbacks::add);
            network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
            assertThat(callbacks.take()).isEqualTo(Status.DEVICE_REMOVED);
            until(() -> !far.connected());
        }

        @Test
        void theDeviceGoesWhileARequestOrAnAnswerWaits() throws Exception {
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectAsync(near, listener().localAddress(), DEFAULTS);
            Connector request = request();
            network.emit("REQUESTED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
            until(() -> request.toString().contains("gone"));
            assertThat(failure(() -> request.accept(far)).status())
                    .isEqualTo(Status.DEVICE_REMOVED);
            request.close();
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
        }

        @Test
        void theDeviceGoesDuringAStepOrAClose() throws Exception {
            Connector[] both = connected();
            network.silent.addAll(List.of("confirm", "disconnect"));
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            both[1].close();
            until(() -> network.calls.stream().filter("disconnect"::equals).count() == 2);
            network.emit("ESTABLISHED", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
            assertThat(failure(ending).status()).isEqualTo(Status.DEVICE_REMOVED);
            until(() -> network.identifiers() == 1); // the listener's
        }

        @Test
        void thePeerDisconnectsFirstWhileThisSideDrains() throws Exception {
            Connector[] both = connected();
            device.running = false;
            near.send(1, new BufferList(1)).orThrow();
            CompletableFuture<Void> here = both[0].disconnectAsync(DEFAULTS);
            CompletableFuture<Void> there = both[1].disconnectAsync(DEFAULTS);
            get(here);
            get(there);
            assertThat(cancelled()).containsExactly(1L);
        }

        /** The contexts of all completions that are there: each was cancelled. */
        private List<Long> cancelled() {
            Completions completions = new Completions(8);
            List<Long> contexts = new ArrayList<>();
            while (queue.poll(completions) > 0) {
                for (int i = 0; i < completions.size(); i++) {
                    assertThat(completions.status(i)).isEqualTo(Status.CANCELLED);
                    contexts.add(completions.context(i));
                }
            }
            return contexts;
        }

        @Test
        void aCloseCancelsOutstandingRequestsAtOnce() throws Exception {
            Connector[] both = connected();
            device.running = false;
            near.send(1, new BufferList(1)).orThrow();
            near.receive(2, new BufferList(1)).orThrow();
            both[0].close();
            assertThat(cancelled()).containsExactlyInAnyOrder(1L, 2L);
        }

        @Test
        void aCloseAfterThePeerLeftCancelsWhatItsLeavingDidNot() throws Exception {
            Connector[] both = connected();
            near.receive(2, new BufferList(1)).orThrow();
            both[1].disconnect();
            until(() -> !near.connected());
            assertThat(cancelled()).isEmpty();
            both[0].close();
            assertThat(cancelled()).containsExactly(2L);
        }

        @Test
        void aCloseWhileAcceptingCancelsWhatWasPosted() throws Exception {
            network.silent.add("accept");
            connecting(connector());
            far.receive(2, new BufferList(1)).orThrow();
            Connector request = request();
            request.acceptAsync(far, DEFAULTS);
            request.close();
            assertThat(cancelled()).containsExactly(2L);
        }

        @Test
        void aDisconnectPostsAWriteOfNothingBehindSilentRequests() throws Exception {
            Connector[] both = connected();
            device.running = false;
            near.write(1, new BufferList(1), 0x1000, 7, OpFlags.SILENT_SUCCESS).orThrow();
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            until(() -> device.chains.size() == 2);
            FakeDevice.Posted last = device.sends.getLast();
            assertThat(last.opcode()).isZero(); // IBV_WR_RDMA_WRITE
            assertThat(last.flags()).isEqualTo(2); // IBV_SEND_SIGNALED
            assertThat(last.sges()).isEmpty();
            assertThat(Arrays.copyOfRange(last.request(), 40, 52)).containsOnly(0); // remote
            device.running = true;
            device.run();
            get(ending);
            near.close();
            assertThat(device.chains).containsExactly(1, 1);
        }

        @Test
        void aDisconnectPostsNothingBehindOneThatReportsItsEnd() throws Exception {
            Connector[] both = connected();
            device.running = false;
            near.write(1, new BufferList(1), 0x1000, 7, OpFlags.NONE).orThrow();
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            device.running = true;
            device.run();
            get(ending);
            near.close();
            assertThat(device.chains).containsExactly(1);
        }

        @Test
        void aCloseEndsADisconnectThatWaitsAndNotifiesThePeer() throws Exception {
            Connector[] both = connected();
            BlockingQueue<Status> peer = new LinkedBlockingQueue<>();
            both[1].onDisconnect(peer::add);
            device.running = false;
            near.send(1, new BufferList(1)).orThrow();
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            both[0].close();
            assertThat(failure(ending).status()).isEqualTo(Status.CANCELLED);
            assertThat(peer.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(cancelled()).containsExactly(1L);
        }

        @Test
        void aCloseAfterADisconnectNotifiesThePeerOnce() throws Exception {
            Connector[] both = connected();
            network.silent.addAll(List.of("confirm", "disconnect"));
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            until(() -> network.calls.contains("disconnect"));
            both[0].close();
            assertThat(failure(ending).status()).isEqualTo(Status.CANCELLED);
            assertThat(network.calls).containsOnlyOnce("disconnect");
            // The last event that an identifier has reports its end, if no other does.
            network.emit("ESTABLISHED", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
            until(() -> network.identifiers() == 2); // the listener's, and the peer's
        }

        @Test
        void theLastEventOfAnIdentifierEndsAConnectionThatMissedTheOthers() throws Exception {
            Connector[] both = connected();
            BlockingQueue<Status> here = new LinkedBlockingQueue<>();
            both[0].onDisconnect(here::add);
            network.emit("ESTABLISHED", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
            assertThat(here.poll(30, TimeUnit.SECONDS)).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(near.connected()).isFalse();
        }

        @Test
        void aDisconnectThatTheKernelRefusesIsOver() throws Exception {
            Connector[] both = connected();
            network.errors.put("disconnect", Errno.EINVAL);
            both[0].disconnect();
            network.errors.put("disconnect", Errno.EINVAL);
            both[1].close();
            until(() -> network.identifiers() == 1); // the listener's
        }

        @Test
        void aRejectThatTheKernelRefusesWasTooLate() throws Exception {
            connecting(connector());
            Connector request = request();
            network.errors.put("reject", Errno.EINVAL);
            assertThat(failure(() -> request.reject(HELLO)).status())
                    .isEqualTo(Status.CONNECTION_ABORTED);
        }

        @ParameterizedTest
        @EnumSource(names = {"REJECTED", "UNREACHABLE", "TIMEWAIT_EXIT"})
        void thePeerGaveUpBeforeItKnewThatTheConnectionWasEstablished(ConnectionEvent.Kind kind)
                throws Exception {
            Connector[] both = connected();
            BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
            both[0].onDisconnect(callbacks::add);
            network.emit("ESTABLISHED", kind, 4);
            assertThat(callbacks.take()).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(near.connected()).isFalse();
            both[0].disconnect();
            assertThat(callbacks).isEmpty();
        }

        @Test
        void aRequestThatFailsIsTheEnd() throws Exception {
            Connector[] both = connected();
            BlockingQueue<Status> callbacks = new LinkedBlockingQueue<>();
            both[0].onDisconnect(callbacks::add);
            device.failAt = device.sends.size();
            device.failStatus = 12; // IBV_WC_RETRY_EXC_ERR
            near.send(1, new BufferList(1)).orThrow();
            Completions completions = new Completions(1);
            until(() -> queue.poll(completions) == 1);
            assertThat(completions.status(0)).isEqualTo(Status.IO_TIMEOUT);
            assertThat(callbacks.take()).isEqualTo(Status.CONNECTION_ABORTED);
            assertThat(near.connected()).isFalse();
            both[0].disconnect();
            assertThat(callbacks).isEmpty();
        }

        /** Only a disconnect notifies the peer: its own queue pair may be as it was. */
        @ParameterizedTest
        @ValueSource(booleans = {true, false})
        void thePeerIsDisconnectedWhenARequestFails(boolean ofTheConnectingSide) throws Exception {
            Connector[] both = connected();
            int failing = ofTheConnectingSide ? 0 : 1;
            QueuePair here = ofTheConnectingSide ? near : far;
            QueuePair there = ofTheConnectingSide ? far : near;
            BlockingQueue<String> callbacks = new LinkedBlockingQueue<>();
            both[failing].onDisconnect(status -> callbacks.add("here " + status.name()));
            both[1 - failing].onDisconnect(status -> callbacks.add("there " + status.name()));
            there.receive(7, new BufferList(1)).orThrow();
            device.failAt = 0;
            device.failStatus = 10; // IBV_WC_REM_ACCESS_ERR
            here.write(1, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS).orThrow();
            Completions completions = new Completions(1);
            until(() -> queue.poll(completions) == 1);
            assertThat(completions.status(0)).isEqualTo(Status.ACCESS_VIOLATION);
            assertThat(Set.of(next(callbacks), next(callbacks)))
                    .isEqualTo(Set.of("here CONNECTION_ABORTED", "there CONNECTION_INVALID"));
            assertThat(there.connected()).isFalse();
            assertThat(there.send(2, new BufferList(1))).isEqualTo(Status.CONNECTION_INVALID);
            assertThat(queue.poll(completions)).as("nothing is flushed there").isZero();
            both[1 - failing].disconnect();
            assertThat(queue.poll(completions)).isEqualTo(1);
            assertThat(completions.context(0)).isEqualTo(7);
            assertThat(completions.status(0)).isEqualTo(Status.CANCELLED);
            both[failing].disconnect();
            assertThat(callbacks).isEmpty();
        }

        private static String next(BlockingQueue<String> callbacks) throws InterruptedException {
            String next = callbacks.poll(20, TimeUnit.SECONDS);
            assertThat(next).as("a callback within 20 s").isNotNull();
            return next;
        }

        @Test
        void aPeerThatTheKernelGivesUpDidNotConfirm() throws Exception {
            Connector[] both = connected();
            network.silent.addAll(List.of("confirm", "disconnect"));
            CompletableFuture<Void> ending = both[0].disconnectAsync(DEFAULTS);
            CompletableFuture<Void> again = both[0].disconnectAsync(DEFAULTS);
            until(() -> network.calls.contains("disconnect"));
            network.emit("ESTABLISHED", ConnectionEvent.Kind.DISCONNECTED, -Errno.ETIMEDOUT);
            assertThat(failure(ending).status()).isEqualTo(Status.IO_TIMEOUT);
            assertThat(failure(again).status()).isEqualTo(Status.IO_TIMEOUT);
        }

        @Test
        void whatWasNeverConnectedCannotBeDisconnected() throws Exception {
            connecting(connector());
            Connector request = request();
            request.reject(HELLO);
            assertThat(failure(() -> request.disconnect()).status())
                    .isEqualTo(Status.CONNECTION_INVALID);
        }

        @Test
        void aDeviceThatComplainsOfADestroyHoldsUpNobody() throws Exception {
            network.silent.add("connect");
            QueuePair third = queuePair();
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectAsync(third, new InetSocketAddress(HERE, 7), DEFAULTS);
            until(() -> network.calls.contains("connect"));
            third.close(); // pends on the connector
            device.destroyError = Errno.EIO;
            CountDownLatch reported = new CountDownLatch(1);
            Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
            Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.countDown());
            try {
                network.emit("CONNECTING", ConnectionEvent.Kind.REJECTED, 28);
                assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
                waitFor(reported);
            } finally {
                Thread.setDefaultUncaughtExceptionHandler(usual);
            }
            network.silent.clear();
            connected(); // the event thread lives
        }

        @Test
        void aClosedConnectorTouchesNothing() throws Exception {
            Connector connector = connector();
            connector.close();
            assertThatThrownBy(connector::connectionData).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> connector.connect(near, new InetSocketAddress(HERE, 7)))
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> connector.accept(near))
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(connector::completeConnect)
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(connector::disconnect).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> connector.reject(HELLO))
                    .isInstanceOf(IllegalStateException.class);
        }

        @Test
        void theQueuePairMayBeUsedAgainWhenACloseEndsTheStep() throws Exception {
            network.silent.add("connect");
            InetSocketAddress nobody = new InetSocketAddress(HERE, 7);
            for (int i = 0; i < 200; i++) {
                Connector connector = adapter.createConnector();
                CompletableFuture<Void> connecting = connector.connectAsync(near, nobody, DEFAULTS);
                CompletableFuture<Void> next =
                        connecting.handle(
                                (nothing, thrown) -> {
                                    try (Connector other = adapter.createConnector()) {
                                        other.connectAsync(near, nobody, DEFAULTS)
                                                .completeOnTimeout(null, 0, TimeUnit.SECONDS);
                                    }
                                    return null;
                                });
                connector.close();
                get(next);
                until(() -> network.identifiers() == 0);
            }
        }

        @Test
        void aFlushDuringAnAttemptIsForGood() throws Exception {
            network.silent.add("connect");
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectAsync(near, new InetSocketAddress(HERE, 7), DEFAULTS);
            until(() -> network.calls.contains("connect"));
            near.flush();
            network.emit("CONNECTING", ConnectionEvent.Kind.REJECTED, 28);
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
            assertThat(failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))))
                    .hasMessageContaining("flushed")
                    .extracting(VerbenaException::status)
                    .isEqualTo(Status.CONNECTION_INVALID);
        }

        @Test
        void aSharedQueuesCallbackMayWaitForAConnection() throws Exception {
            Listener listener = listener();
            CompletableFuture<Void> connected = new CompletableFuture<>();
            Connector connector = connector();
            SharedReceiveQueue receives =
                    keep(
                            domain.createSharedReceiveQueue(
                                    4,
                                    1,
                                    status -> {
                                        connector.connect(near, listener.localAddress());
                                        connected.complete(null);
                                    }));
            receives.notifyBelow(2);
            request().acceptAsync(far, DEFAULTS);
            get(connected);
        }

        @Test
        void anAddressThatChangesDoesNotEndIt() throws Exception {
            Connector[] both = connected();
            assertThat(network.emit("ESTABLISHED", ConnectionEvent.Kind.ADDRESS_CHANGED, 0))
                    .isEqualTo(2);
            QueuePair third = keep(queuePair());
            // Its events are handled after those.
            failure(() -> connector().connect(third, new InetSocketAddress(HERE, 7)));
            assertThat(near.connected()).isTrue();
            assertThat(far.connected()).isTrue();
            both[0].disconnect();
        }

        @Test
        void closesInAnyOrderAtAnyMoment() throws Exception {
            ThreadLocalRandom random = ThreadLocalRandom.current();
            for (int round = 0; round < 200; round++) {
                List<AutoCloseable> objects = new ArrayList<>();
                CompletionQueue cq = adapter.createCompletionQueue(32);
                ProtectionDomain pd = adapter.createProtectionDomain();
                QueuePair one = pd.createQueuePair(cq, cq, QueuePairLimits.depths(2, 2));
                QueuePair two = pd.createQueuePair(cq, cq, QueuePairLimits.depths(2, 2));
                BlockingQueue<Connector> asked = new LinkedBlockingQueue<>();
                Listener listener =
                        adapter.listen(
                                new InetSocketAddress(HERE, 0),
                                0,
                                r -> {
                                    asked.add(r);
                                    requests.add(r);
                                });
                Connector connector = adapter.createConnector();
                objects.addAll(List.of(cq, pd, one, two, listener, connector));
                int stop = random.nextInt(5);
                CompletableFuture<Void> connecting =
                        connector.connectAsync(one, listener.localAddress(), DEFAULTS);
                if (stop > 0) {
                    Connector request = asked.take();
                    objects.add(request);
                    if (stop > 1) {
                        CompletableFuture<Void> accepting = request.acceptAsync(two, DEFAULTS);
                        if (stop > 2) {
                            get(connecting);
                            connector.completeConnect();
                            get(accepting);
                        }
                        if (stop > 3) {
                            connector.disconnectAsync(DEFAULTS);
                        }
                    }
                }
                java.util.Collections.shuffle(objects, new java.util.Random(random.nextLong()));
                for (AutoCloseable object : objects) {
                    object.close();
                    object.close(); // again does nothing
                }
                for (Connector late = requests.poll(); late != null; late = requests.poll()) {
                    late.close();
                }
            }
            // What came too late for the loop is refused when the listener is gone.
            until(
                    () -> {
                        Connector late = requests.poll();
                        if (late != null) {
                            late.close();
                        }
                        return network.identifiers() == 0;
                    });
        }

        @ParameterizedTest
        @EnumSource
        void closingEndsTheOutstandingStep(Moment moment) throws Exception {
            network.silent.addAll(moment.unanswered);
            Listener listener = listener();
            Connector connector = connector();
            CompletableFuture<Void> step =
                    connector.connectAsync(near, listener.localAddress(), DEFAULTS);
            if (moment == Moment.ACCEPTING) {
                Connector request = request();
                CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
                request.close();
                assertThat(failure(accepting).status()).isEqualTo(Status.CANCELLED);
            } else {
                connector.close();
                assertThat(failure(step).status()).isEqualTo(Status.CANCELLED);
            }
            QueuePair third = keep(queuePair());
            Class<?> expected =
                    moment == Moment.ACCEPTING // the request was closed, not the connector
                            ? VerbenaException.class
                            : IllegalStateException.class;
            assertThatThrownBy(() -> connector.connect(third, listener.localAddress(), SOON))
                    .isInstanceOf(expected);
        }

        enum Moment {
            RESOLVING("resolveAddress"),
            CONNECTING("connect"),
            ACCEPTING("establish");

            final List<String> unanswered;

            Moment(String unanswered) {
                this.unanswered = List.of(unanswered);
            }
        }

        @Test
        void closingAnUnansweredRequestRefusesIt() throws Exception {
            CompletableFuture<Void> connecting = connecting(connector());
            request().close();
            assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
        }

        @Test
        void callbacksMayCloseEverything() throws Exception {
            Connector[] both = connected();
            CountDownLatch closed = new CountDownLatch(1);
            both[1].onDisconnect(
                    status -> {
                        both[1].close();
                        far.close();
                        queue.close();
                        domain.close();
                        closed.countDown();
                    });
            both[0].disconnect();
            waitFor(closed);
        }

        @Test
        void whenTheEventThreadDiesEverythingFailsAtOnce() throws Exception {
            Connector[] stood = connected();
            network.silent.addAll(List.of("connect", "disconnect", "confirm"));
            Connector connector = connector();
            QueuePair third = keep(queuePair());
            CompletableFuture<Void> connecting =
                    connector.connectAsync(third, new InetSocketAddress(HERE, 7), DEFAULTS);
            until(() -> network.calls.stream().filter("connect"::equals).count() == 2);
            network.failure = new IllegalStateException("out of luck");
            Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
            CountDownLatch reported = new CountDownLatch(1);
            Thread.setDefaultUncaughtExceptionHandler(
                    (thread, thrown) -> {
                        if (thrown == network.failure) {
                            reported.countDown();
                        }
                    });
            CompletableFuture<Status> over = new CompletableFuture<>();
            stood[0].onDisconnect(over::complete);
            stood[1].close(); // its message to the peer will never be answered
            try {
                network.emit("CONNECTING", ConnectionEvent.Kind.TIMEWAIT_EXIT, 0);
                VerbenaException e = failure(connecting);
                assertThat(e.status()).isEqualTo(Status.INTERNAL_ERROR);
                assertThat(e).hasMessageContaining("out of luck").hasRootCause(network.failure);
                assertThat(over.get(30, TimeUnit.SECONDS)).isEqualTo(Status.INTERNAL_ERROR);
                assertThat(failure(stood[0].disconnectAsync(DEFAULTS)).status())
                        .isEqualTo(Status.INTERNAL_ERROR);
                assertThat(failure(lastListener::resume).status()).isEqualTo(Status.INTERNAL_ERROR);
                // Its queue pairs are of no use either: an overrun would not be reported.
                assertThat(failure(ConnectorTest.this::listener).status())
                        .isEqualTo(Status.INTERNAL_ERROR);
                waitFor(reported); // at last: until then the handler has to stay
            } finally {
                Thread.setDefaultUncaughtExceptionHandler(usual);
            }
        }
    }

    @Nested
    class Listening {
        @Test
        void givesAnEphemeralPort() {
            assertThat(listener().localAddress().getPort()).isGreaterThanOrEqualTo(49152);
        }

        @Test
        void anAddressInUse() {
            InetSocketAddress taken = listener().localAddress();
            VerbenaException e = failure(() -> adapter.listen(taken, 0, c -> {}));
            assertThat(e.status()).isEqualTo(Status.SHARING_VIOLATION);
            assertThat(e).hasMessageContaining("10.0.0.1");
        }

        @Test
        void noPortIsLeftOrSomebodyHasItOnAllAddresses() {
            network.errors.put("bind", Errno.EADDRNOTAVAIL);
            assertThat(failure(ConnectorTest.this::listener).status())
                    .isEqualTo(Status.TOO_MANY_ADDRESSES);
            network.errors.put("bind", Errno.EADDRNOTAVAIL);
            InetSocketAddress one = new InetSocketAddress(HERE, 7);
            assertThat(failure(() -> adapter.listen(one, 0, c -> {})).status())
                    .isEqualTo(Status.SHARING_VIOLATION);
        }

        @Test
        void anAddressOfNobodyOrAnother() {
            InetAddress elsewhere = InetAddress.ofLiteral("192.0.2.1");
            for (int port : new int[] {0, 7}) {
                InetSocketAddress nobody = new InetSocketAddress(elsewhere, port);
                for (ThrowingCallable call :
                        List.<ThrowingCallable>of(
                                () -> adapter.listen(nobody, 0, c -> {}),
                                () -> adapter.createSharedEndpoint(nobody),
                                () ->
                                        connector()
                                                .connect(
                                                        near,
                                                        new InetSocketAddress(HERE, 7),
                                                        DEFAULTS.withLocalAddress(nobody)))) {
                    VerbenaException e = failure(call);
                    assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
                    assertThat(e)
                            .hasMessageContaining("192.0.2.1 is not an address of this machine");
                }
            }
            assertThat(
                            failure(
                                    () ->
                                            adapter.listen(
                                                    new InetSocketAddress(OTHER_DEVICE, 0),
                                                    0,
                                                    c -> {})))
                    .hasMessageContaining("fake1");
            assertThatThrownBy(() -> adapter.listen(new InetSocketAddress(HERE, 0), -1, c -> {}))
                    .isInstanceOf(IllegalArgumentException.class);
            assertThat(network.identifiers()).isZero();
        }

        @Test
        void pausesAsIfNobodyListenedAndKeepsTheAddress() throws Exception {
            Listener listener = listener();
            InetSocketAddress address = listener.localAddress();
            listener.pause();
            listener.pause();
            assertThat(failure(() -> connector().connect(near, address)))
                    .hasMessageContaining("nobody listens");
            assertThat(failure(() -> adapter.listen(address, 0, c -> {})).status())
                    .isEqualTo(Status.SHARING_VIOLATION);
            listener.resume();
            listener.resume();
            CompletableFuture<Void> connecting = connector().connectAsync(near, address, DEFAULTS);
            request().acceptAsync(far, DEFAULTS);
            get(connecting);
        }

        @Test
        void itsCloseKeepsTheAddressWhileConnectorsLive() throws Exception {
            Connector[] both = connected();
            InetSocketAddress address = both[1].localAddress();
            lastListener.close();
            assertThat(failure(() -> adapter.listen(address, 0, c -> {})).status())
                    .isEqualTo(Status.SHARING_VIOLATION);
            both[0].disconnect();
            both[1].close();
            until(() -> network.identifiers() == 0);
            keep(adapter.listen(address, 0, c -> {}));
            assertThatThrownBy(lastListener::pause).isInstanceOf(IllegalStateException.class);
        }

        @Test
        void aHandlerThatThrowsRefuses() {
            Thread.UncaughtExceptionHandler usual = Thread.getDefaultUncaughtExceptionHandler();
            CountDownLatch reported = new CountDownLatch(1);
            Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> reported.countDown());
            try {
                Listener listener =
                        keep(
                                adapter.listen(
                                        new InetSocketAddress(HERE, 0),
                                        0,
                                        request -> {
                                            throw new IllegalArgumentException("no");
                                        }));
                assertThat(
                                failure(() -> connector().connect(near, listener.localAddress()))
                                        .status())
                        .isEqualTo(Status.CONNECTION_REFUSED);
                waitFor(reported);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            } finally {
                Thread.setDefaultUncaughtExceptionHandler(usual);
            }
        }

        @Test
        void refusesBeyondItsBacklogUntilSomeAreAnswered() throws Exception {
            Listener listener =
                    keep(adapter.listen(new InetSocketAddress(HERE, 0), 2, requests::add));
            for (int i = 0; i < 3; i++) {
                network.request(listener.localAddress(), new byte[56], 1);
            }
            Connector first = request();
            request();
            until(() -> network.calls.stream().filter("destroy"::equals).count() == 1);
            first.close();
            network.request(listener.localAddress(), new byte[56], 1);
            Connector third = request();
            network.silent.add("accept");
            third.acceptAsync(far, DEFAULTS); // answered, although the peer has not completed it
            network.request(listener.localAddress(), new byte[56], 1);
            request();
        }

        @Test
        void onAllAddressesGetsRequestsForItsOwnDeviceOnly() throws Exception {
            Listener all = keep(adapter.listen(new InetSocketAddress(0), 0, requests::add));
            network.devices.put(all.localAddress().getAddress(), "fake1");
            network.request(all.localAddress(), new byte[56], 1);
            until(() -> network.calls.contains("destroy"));
            network.devices.put(all.localAddress().getAddress(), "fake0");
            network.request(all.localAddress(), new byte[56], 1);
            request();
        }

        @Test
        void theDeviceGoes() {
            Listener listener = listener();
            network.emit("IDLE", ConnectionEvent.Kind.DEVICE_REMOVED, 0);
            until(() -> network.identifiers() == 0);
            assertThat(failure(listener::resume).status()).isEqualTo(Status.DEVICE_REMOVED);
            assertThat(listener.toString()).contains("closed");
        }
    }

    @Nested
    class SharedEndpoints {
        @Test
        void connectorsHaveTheSameAddressAndOtherPeers() throws Exception {
            SharedEndpoint endpoint =
                    keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
            InetSocketAddress one = listener().localAddress();
            InetSocketAddress two = listener().localAddress();
            Connector first = connector();
            CompletableFuture<Void> connecting =
                    first.connectWithSharedEndpointAsync(near, endpoint, one, DEFAULTS);
            Connector request = request();
            assertThat(request.peerAddress()).isEqualTo(endpoint.localAddress());
            CompletableFuture<Void> accepting = request.acceptAsync(far, DEFAULTS);
            get(connecting);
            first.completeConnect();
            get(accepting);
            QueuePair third = keep(queuePair());
            assertThat(
                            failure(
                                            () ->
                                                    connector()
                                                            .connectWithSharedEndpoint(
                                                                    third, endpoint, one, DEFAULTS))
                                    .status())
                    .isEqualTo(Status.ADDRESS_ALREADY_EXISTS);
            Connector second = connector();
            second.connectWithSharedEndpointAsync(third, endpoint, two, DEFAULTS);
            assertThat(request().peerAddress()).isEqualTo(endpoint.localAddress());
            assertThat(endpoint.toString()).contains("10.0.0.1");
        }

        @Test
        void itsClosePendsOnItsConnections() throws Exception {
            SharedEndpoint endpoint = adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0));
            Connector connector = connector();
            CompletableFuture<Void> connecting =
                    connector.connectWithSharedEndpointAsync(
                            near, endpoint, listener().localAddress(), DEFAULTS);
            request();
            endpoint.close();
            assertThat(
                            failure(() -> adapter.createSharedEndpoint(endpoint.localAddress()))
                                    .status())
                    .isEqualTo(Status.SHARING_VIOLATION);
            connector.close();
            assertThat(failure(connecting).status()).isEqualTo(Status.CANCELLED);
        }
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
