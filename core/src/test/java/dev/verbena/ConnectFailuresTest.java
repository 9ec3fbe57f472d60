package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** What goes wrong while a side connects. */
class ConnectFailuresTest extends ConnectorRig {
    @Test
    void nobodyListens() {
        Connector connector = connector();
        VerbenaException e = failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7)));
        assertThat(e.status()).isEqualTo(Status.CONNECTION_REFUSED);
        assertThat(e).hasMessageContaining("nobody listens").hasMessageContaining("10.0.0.1:7");
        // The bytes of a rejection that no program has made are nobody's.
        assertThat(connector.connectionData().privateData()).isEmpty();
    }

    @Test
    void theProgramRefusesAndSaysWhy() throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connecting = connecting(connector);
        request().reject(HELLO);
        assertThat(failure(connecting).status()).isEqualTo(Status.CONNECTION_REFUSED);
        assertThat(connector.connectionData().privateData()).isEqualTo(HELLO);
        assertThat(failure(() -> connector.localAddress()).status())
                .as("it has none any more")
                .isEqualTo(Status.CONNECTION_INVALID);
        failure(() -> connector.connect(near, new InetSocketAddress(HERE, 7))); // nobody listens
        assertThat(connector.connectionData().privateData()).isEmpty();
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
        "RESOLVING, ADDRESS_ERROR, -12, NETWORK_UNREACHABLE, no route from device fake0 (ip route get)",
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
        network.until(() -> network.emit(state, kind, code) > 0);
        VerbenaException e = failure(connecting);
        assertThat(e.status()).isEqualTo(status);
        assertThat(e).hasMessageContaining(part);
        assertThat(network.identifiers()).isZero();
    }

    @ParameterizedTest
    @ValueSource(strings = {"create", "resolveAddress", "resolveRoute", "connect", "shareAddress"})
    void eachCallMayFail(String call) {
        SharedEndpoint endpoint =
                keep(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
        Connector connector = connector();
        network.errors.put(call, Errno.ENOMEM);
        VerbenaException e =
                failure(
                        () ->
                                connector.connect(
                                        near,
                                        new InetSocketAddress(HERE, 7),
                                        DEFAULTS.withSharedEndpoint(endpoint)));
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
        assertThat(e).hasMessageContaining("within 30 ms");
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
        network.until(() -> network.calls.contains("connect"));
        assertThat(connector.localAddress().getAddress()).isEqualTo(HERE);
        VerbenaException e =
                failure(() -> connector().connect(far, new InetSocketAddress("fd00::1", 7)));
        assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
        assertThat(e).hasMessageContaining("one is IPv4, the other IPv6");
    }

    /** A GID of InfiniBand is no IP address. */
    @Test
    void aChosenGidOfInfiniBandIsNoLocalAddress() throws Exception {
        device.gids =
                List.of(
                        new Port.GidEntry(
                                1,
                                0,
                                new Gid(0xFE80_0000_0000_0000L, 7),
                                Port.GidType.INFINIBAND,
                                0));
        adapter.useGid(1, 0);
        CompletableFuture<Void> connecting = connecting(connector());
        request().acceptAsync(far, DEFAULTS);
        get(connecting);
    }

    @Test
    void anAddressOfAnotherDeviceIsExplained() {
        ConnectionOptions from = DEFAULTS.withLocalAddress(new InetSocketAddress(OTHER_DEVICE, 0));
        VerbenaException e =
                failure(() -> connector().connect(near, new InetSocketAddress(HERE, 7), from));
        assertThat(e.status()).isEqualTo(Status.INVALID_ADDRESS);
        assertThat(e).hasMessageContaining("fake1").hasMessageContaining("fake0");
    }

    @Test
    void anAttemptThatCannotAskWhichDeviceItLeadsByFailsAtOnce() {
        OutOfMemoryError error = new OutOfMemoryError("test");
        network.beforeStep =
                step -> {
                    if (step.equals("describe")) {
                        throw error;
                    }
                };
        ConnectionOptions from = DEFAULTS.withLocalAddress(new InetSocketAddress(HERE, 0));
        VerbenaException e =
                failure(() -> connector().connect(near, new InetSocketAddress(HERE, 7), from));
        assertThat(e.status()).isEqualTo(Status.CONNECTION_ABORTED); // and no timeout
        assertThat(e).hasRootCause(error);
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
                                                near, InetSocketAddress.createUnresolved("x", 7))))
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
        network.until(() -> network.calls.contains("connect"));
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
        network.until(() -> network.calls.contains("connect"));
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
        Until.reached(ended); // the test closes the connector
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
        try (Adapter elsewhere = FakeAdapters.open("fake9", another);
                ProtectionDomain pd = elsewhere.createProtectionDomain();
                CompletionQueue cq = elsewhere.createCompletionQueue(8);
                QueuePair stranger = pd.createQueuePair(cq, cq, QueuePairLimits.depths(1, 1))) {
            assertThat(
                            failure(
                                            () ->
                                                    connector()
                                                            .connect(
                                                                    stranger,
                                                                    new InetSocketAddress(HERE, 7)))
                                    .status())
                    .isEqualTo(Status.INVALID_PARAMETER_MIX);
        }
        another.dispose();
    }
}
