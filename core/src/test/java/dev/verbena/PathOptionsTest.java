package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_gid;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Which attribute of which queue pair each path option changes, and nothing else. */
class PathOptionsTest {
    private static final PathOptions NONE = PathOptions.DEFAULTS;
    private static final QueuePairLimits SMALL = QueuePairLimits.depths(4, 4).withReads(3, 2);

    /** One of each, but for the partition. */
    private static final PathOptions ALL =
            NONE.withTrafficClass(0xFE)
                    .withServiceLevel(5)
                    .withFlowLabel(0xABCDE)
                    .withMinRnrTimer(Duration.ofMillis(1))
                    .withAckTimeout(Duration.ofMillis(60))
                    .withRetries(3)
                    .withRnrRetries(2);

    /** The same, on the struct of the step to ready-to-receive. */
    private static void allToReceive(MemorySegment a) {
        trafficClass(a, 0xFE);
        ibv_ah_attr.sl(ibv_qp_attr.ah_attr(a), (byte) 5);
        ibv_global_route.flow_label(ibv_ah_attr.grh(ibv_qp_attr.ah_attr(a)), 0xABCDE);
        ibv_qp_attr.min_rnr_timer(a, (byte) 14); // 1.28 ms
    }

    private static void allToSend(MemorySegment a) {
        ibv_qp_attr.timeout(a, (byte) 14); // 67 ms
        ibv_qp_attr.retry_cnt(a, (byte) 3);
        ibv_qp_attr.rnr_retry(a, (byte) 2);
    }

    private static void trafficClass(MemorySegment a, int value) {
        ibv_global_route.traffic_class(ibv_ah_attr.grh(ibv_qp_attr.ah_attr(a)), (byte) value);
    }

    /** The bytes of a step: those of another, changed. */
    private static byte[] changed(byte[] bytes, Consumer<MemorySegment> change) {
        byte[] copy = bytes.clone();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = ibv_qp_attr.allocate(arena);
            MemorySegment.copy(copy, 0, a, ValueLayout.JAVA_BYTE, 0, copy.length);
            change.accept(a);
            return a.toArray(ValueLayout.JAVA_BYTE);
        }
    }

    private static byte[] made(Consumer<MemorySegment> change) {
        return changed(new byte[(int) ibv_qp_attr.sizeof()], change);
    }

    @Nested
    class ByAddress {
        private final Rig rig = new Rig(SMALL);
        private final QueuePairAddress peer =
                QueuePairAddress.of(0xABCDEF, 0x123456, Gid.parse("fe80::1:2:3:4"), 1024)
                        .withInboundReads(1);

        @AfterEach
        void close() {
            rig.close();
        }

        private byte[] toReceive() {
            assertThat(rig.device.changes).hasSize(2);
            return FakeDevice.bytes(rig.device.changes.getFirst());
        }

        private byte[] toSend() {
            return FakeDevice.bytes(rig.device.changes.getLast());
        }

        private byte[] defaultToReceive() {
            return made(
                    a -> {
                        ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTR);
                        ibv_qp_attr.path_mtu(a, Verbs.IBV_MTU_1024);
                        ibv_qp_attr.dest_qp_num(a, 0xABCDEF);
                        ibv_qp_attr.rq_psn(a, 0x123456);
                        ibv_qp_attr.max_dest_rd_atomic(a, (byte) 3);
                        ibv_qp_attr.min_rnr_timer(a, (byte) 0);
                        MemorySegment address = ibv_qp_attr.ah_attr(a);
                        ibv_ah_attr.port_num(address, (byte) 1);
                        ibv_ah_attr.is_global(address, (byte) 1);
                        MemorySegment route = ibv_ah_attr.grh(address);
                        ibv_global_route.sgid_index(route, (byte) 0);
                        ibv_global_route.hop_limit(route, (byte) 64);
                        byte[] gid = {
                            (byte) 0xFE, (byte) 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4
                        };
                        ibv_gid.raw(ibv_global_route.dgid(route))
                                .copyFrom(MemorySegment.ofArray(gid));
                    });
        }

        private byte[] defaultToSend() {
            return made(
                    a -> {
                        ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTS);
                        ibv_qp_attr.timeout(a, (byte) 14);
                        ibv_qp_attr.retry_cnt(a, (byte) 6);
                        ibv_qp_attr.rnr_retry(a, (byte) 6);
                        ibv_qp_attr.sq_psn(a, rig.a.address().firstSequenceNumber());
                        ibv_qp_attr.max_rd_atomic(a, (byte) 1);
                    });
        }

        private void masksAreThoseOfTheDefaults(int alsoToReceive) {
            assertThat(FakeDevice.mask(rig.device.changes.getFirst()))
                    .isEqualTo(
                            Verbs.IBV_QP_STATE
                                    | Verbs.IBV_QP_AV
                                    | Verbs.IBV_QP_PATH_MTU
                                    | Verbs.IBV_QP_DEST_QPN
                                    | Verbs.IBV_QP_RQ_PSN
                                    | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                                    | Verbs.IBV_QP_MIN_RNR_TIMER
                                    | alsoToReceive);
            assertThat(FakeDevice.mask(rig.device.changes.getLast()))
                    .isEqualTo(
                            Verbs.IBV_QP_STATE
                                    | Verbs.IBV_QP_TIMEOUT
                                    | Verbs.IBV_QP_RETRY_CNT
                                    | Verbs.IBV_QP_RNR_RETRY
                                    | Verbs.IBV_QP_SQ_PSN
                                    | Verbs.IBV_QP_MAX_QP_RD_ATOMIC);
        }

        @Test
        void defaultsChangeNothing() {
            rig.a.connect(peer);
            assertThat(toReceive()).isEqualTo(defaultToReceive());
            assertThat(toSend()).isEqualTo(defaultToSend());
            masksAreThoseOfTheDefaults(0);
        }

        @Test
        void aPeerWithSharedReceivesIsWaitedForWithoutLimitUnlessRetriesAreGiven() {
            rig.a.connect(peer.withSharedReceives(true));
            assertThat(toSend())
                    .isEqualTo(changed(defaultToSend(), a -> ibv_qp_attr.rnr_retry(a, (byte) 7)));
            rig.device.changes.clear();
            rig.b.connect(peer.withSharedReceives(true), NONE.withRnrRetries(1));
            assertThat(rig.device.changes.getLast().rnrRetries()).isEqualTo(1);
        }

        @Test
        void eachOptionIsInItsAttribute() {
            rig.a.connect(peer, ALL);
            assertThat(toReceive())
                    .isEqualTo(changed(defaultToReceive(), PathOptionsTest::allToReceive));
            assertThat(toSend()).isEqualTo(changed(defaultToSend(), PathOptionsTest::allToSend));
            masksAreThoseOfTheDefaults(0);
        }

        @Test
        void aPartitionIsSetOnlyWhenAskedFor() {
            rig.a.connect(peer, NONE.withPkeyIndex(0xFFFE));
            assertThat(toReceive())
                    .isEqualTo(
                            changed(
                                    defaultToReceive(),
                                    a -> ibv_qp_attr.pkey_index(a, (short) 0xFFFE)));
            assertThat(toSend()).isEqualTo(defaultToSend());
            masksAreThoseOfTheDefaults(Verbs.IBV_QP_PKEY_INDEX);
        }

        @Test
        void infiniBandHasTheLid() {
            rig.device.ethernet = false;
            try (QueuePair other = rig.domain.createQueuePair(rig.queue, rig.queue, SMALL)) {
                other.connect(peer.withLid(0xFEDC), NONE.withServiceLevel(9));
            }
            assertThat(toReceive())
                    .isEqualTo(
                            changed(
                                    defaultToReceive(),
                                    a -> {
                                        MemorySegment address =
                                                ibv_qp_attr.ah_attr(a).fill((byte) 0);
                                        ibv_ah_attr.dlid(address, (short) 0xFEDC);
                                        ibv_ah_attr.sl(address, (byte) 9);
                                        ibv_ah_attr.port_num(address, (byte) 1);
                                    }));
        }

        @Test
        void whatTheDeviceRefusesIsInTheMessage() {
            rig.device.reachError = 22; // EINVAL
            assertThatThrownBy(() -> rig.a.connect(peer, NONE.withServiceLevel(15)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("service level 15");
            assertThatThrownBy(() -> rig.a.connect(peer))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageNotContaining("PathOptions");
            rig.device.reachError = 0;
            rig.device.changes.clear();
            rig.device.changeError = 22;
            rig.device.changeErrorAt = StateChange.READY_TO_SEND;
            assertThatThrownBy(() -> rig.a.connect(peer, NONE.withRetries(7)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("RTS")
                    .hasMessageContaining("retries 7");
        }
    }

    @Nested
    class ByIpAddress {
        private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");
        private static final ConnectionOptions DEFAULTS = ConnectionOptions.DEFAULTS;

        private final FakeDevice device = new FakeDevice();
        private final FakeConnections network = new FakeConnections();
        private final Adapter adapter = new Adapter("fake0", device, device.open(), () -> network);
        private final ProtectionDomain domain = adapter.createProtectionDomain();
        private final CompletionQueue queue = adapter.createCompletionQueue(64);
        private final BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        private final Deque<AutoCloseable> opened = new ArrayDeque<>();
        private final List<StateChange> near = new ArrayList<>(); // of the connecting side
        private final List<StateChange> far = new ArrayList<>();
        private final QueuePair connecting = queuePair();
        private final QueuePair accepting = queuePair();

        ByIpAddress() {
            network.devices.put(HERE, "fake0");
            network.devices.put(InetAddress.ofLiteral("10.0.0.2"), "fake1");
        }

        @AfterEach
        void close() throws Exception {
            for (AutoCloseable object : opened) {
                object.close();
            }
            queue.close();
            domain.close();
            adapter.close();
            device.dispose();
            Rig.nobodyThrew();
        }

        private <T extends AutoCloseable> T keep(T object) {
            opened.push(object);
            return object;
        }

        private QueuePair queuePair() {
            return keep(domain.createQueuePair(queue, queue, SMALL));
        }

        /** Connects two queue pairs, and notes the steps of each. */
        private void connect(PathOptions here, PathOptions there) throws Exception {
            Listener listener =
                    keep(adapter.listen(new InetSocketAddress(HERE, 0), 0, requests::add));
            Connector connector = keep(adapter.createConnector());
            CompletableFuture<Void> connected =
                    connector.connectAsync(
                            connecting, listener.localAddress(), DEFAULTS.withPath(here));
            Connector request = requests.poll(30, TimeUnit.SECONDS);
            assertThat(request).as("a request").isNotNull();
            keep(request);
            CompletableFuture<Void> accepted =
                    request.acceptAsync(accepting, DEFAULTS.withPath(there));
            connected.get(30, TimeUnit.SECONDS);
            far.addAll(device.changes);
            device.changes.clear();
            connector.completeConnect();
            accepted.get(30, TimeUnit.SECONDS);
            near.addAll(device.changes);
            device.changes.clear();
            assertThat(near).hasSize(3);
            assertThat(far).hasSize(3);
        }

        private static byte[] toReceive(List<StateChange> side) {
            return FakeDevice.bytes(side.get(1));
        }

        private static byte[] toSend(List<StateChange> side) {
            return FakeDevice.bytes(side.get(2));
        }

        /** What the fake connection manager says, with what this library always changes. */
        private byte[] defaultToReceive(List<StateChange> side) {
            QueuePair peer = side == near ? accepting : connecting;
            return changed(
                    made(a -> ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTR)),
                    a -> {
                        MemorySegment address = ibv_qp_attr.ah_attr(a);
                        ibv_ah_attr.is_global(address, (byte) 1);
                        ibv_ah_attr.sl(address, FakeConnections.PATH_SERVICE_LEVEL);
                        ibv_global_route.flow_label(
                                ibv_ah_attr.grh(address), FakeConnections.PATH_FLOW_LABEL);
                        ibv_qp_attr.max_dest_rd_atomic(a, (byte) 2);
                        ibv_qp_attr.dest_qp_num(a, peer.address().queuePairNumber());
                    });
        }

        private static byte[] defaultToSend() {
            return made(
                    a -> {
                        ibv_qp_attr.qp_state(a, Verbs.IBV_QPS_RTS);
                        ibv_qp_attr.timeout(a, (byte) FakeConnections.PATH_ACK_TIMEOUT);
                        ibv_qp_attr.retry_cnt(a, (byte) 6);
                        ibv_qp_attr.rnr_retry(a, (byte) 6);
                        ibv_qp_attr.max_rd_atomic(a, (byte) 2);
                    });
        }

        private void masksAreThoseOfTheConnectionManager() {
            for (List<StateChange> side : List.of(near, far)) {
                assertThat(side)
                        .extracting(FakeDevice::mask)
                        .containsExactly(
                                Verbs.IBV_QP_STATE
                                        | Verbs.IBV_QP_PKEY_INDEX
                                        | Verbs.IBV_QP_PORT
                                        | Verbs.IBV_QP_ACCESS_FLAGS,
                                Verbs.IBV_QP_STATE
                                        | Verbs.IBV_QP_AV
                                        | Verbs.IBV_QP_PATH_MTU
                                        | Verbs.IBV_QP_DEST_QPN
                                        | Verbs.IBV_QP_RQ_PSN
                                        | Verbs.IBV_QP_MAX_DEST_RD_ATOMIC
                                        | Verbs.IBV_QP_MIN_RNR_TIMER,
                                Verbs.IBV_QP_STATE
                                        | Verbs.IBV_QP_TIMEOUT
                                        | Verbs.IBV_QP_RETRY_CNT
                                        | Verbs.IBV_QP_RNR_RETRY
                                        | Verbs.IBV_QP_SQ_PSN
                                        | Verbs.IBV_QP_MAX_QP_RD_ATOMIC);
            }
        }

        @Test
        void defaultsLeaveItToTheConnectionManager() throws Exception {
            connect(NONE, NONE);
            assertThat(network.calls).noneMatch(call -> call.startsWith("trafficClass"));
            for (List<StateChange> side : List.of(near, far)) {
                assertThat(toReceive(side)).isEqualTo(defaultToReceive(side));
                assertThat(toSend(side)).isEqualTo(defaultToSend());
            }
            masksAreThoseOfTheConnectionManager();
            assertThat(network.lastConnect.retries()).isEqualTo(6);
            assertThat(network.lastConnect.rnrRetries()).isEqualTo(6);
            assertThat(network.lastAccept.retries()).isEqualTo(6);
            assertThat(network.lastAccept.rnrRetries()).isEqualTo(6);
        }

        @Test
        void optionsOfTheConnectingSideAreOnItsQueuePairAndInItsRequest() throws Exception {
            connect(ALL, NONE);
            assertThat(toReceive(near))
                    .isEqualTo(changed(defaultToReceive(near), PathOptionsTest::allToReceive));
            assertThat(toSend(near))
                    .isEqualTo(changed(defaultToSend(), PathOptionsTest::allToSend));
            // The other has the traffic class of the request, and nothing else.
            assertThat(toReceive(far))
                    .isEqualTo(changed(defaultToReceive(far), a -> trafficClass(a, 0xFE)));
            assertThat(toSend(far)).isEqualTo(defaultToSend());
            masksAreThoseOfTheConnectionManager();
            assertThat(network.lastConnect.retries()).isEqualTo(3);
            // How often the peer waits for receives of this side is no option of this side's.
            assertThat(network.lastConnect.rnrRetries()).isEqualTo(6);
        }

        @Test
        void optionsOfTheAcceptingSideAreOnItsQueuePair() throws Exception {
            connect(NONE, ALL);
            assertThat(network.calls).noneMatch(call -> call.startsWith("trafficClass"));
            assertThat(toReceive(near)).isEqualTo(defaultToReceive(near));
            assertThat(toSend(near)).isEqualTo(defaultToSend());
            assertThat(toReceive(far))
                    .isEqualTo(changed(defaultToReceive(far), PathOptionsTest::allToReceive));
            assertThat(toSend(far)).isEqualTo(changed(defaultToSend(), PathOptionsTest::allToSend));
            masksAreThoseOfTheConnectionManager();
        }

        @Test
        void eachSideMayHaveATrafficClassOfItsOwn() throws Exception {
            connect(NONE.withDscp(26), NONE.withTrafficClass(0));
            assertThat(toReceive(near))
                    .isEqualTo(changed(defaultToReceive(near), a -> trafficClass(a, 104)));
            assertThat(toReceive(far)).isEqualTo(defaultToReceive(far));
        }

        @Test
        void theTrafficClassIsSetBeforeTheRouteIsResolvedFromEachAddress() throws Exception {
            // The route leads by another device: the device's own address is tried next, which
            // takes another identifier.
            network.routeBy = "fake1";
            connect(NONE.withTrafficClass(104), NONE);
            assertThat(network.calls)
                    .filteredOn(
                            call -> call.startsWith("trafficClass") || call.startsWith("resolve"))
                    .containsExactly(
                            "trafficClass 104",
                            "resolveAddress",
                            "trafficClass 104",
                            "resolveAddress",
                            "resolveRoute");
            assertThat(toReceive(far))
                    .isEqualTo(changed(defaultToReceive(far), a -> trafficClass(a, 104)));
        }

        /** The kernel may have another default for the device. */
        @Test
        void theTrafficClassOfZeroIsOneToo() throws Exception {
            connect(NONE.withTrafficClass(0), NONE);
            assertThat(network.calls).contains("trafficClass 0");
        }

        @Test
        void aRefusedTrafficClassFailsTheConnectAndLeavesTheQueuePairFresh() throws Exception {
            network.errors.put("trafficClass 104", 22); // EINVAL
            Connector connector = keep(adapter.createConnector());
            assertThatThrownBy(
                            () ->
                                    connector.connect(
                                            connecting,
                                            new InetSocketAddress(HERE, 1),
                                            DEFAULTS.withPath(NONE.withDscp(26))))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("rdma_set_option(TOS 104)")
                    .hasMessageContaining("EINVAL");
            assertThat(connecting.state()).isEqualTo(QueuePairState.INITIALIZED);
            assertThat(network.identifiers()).isZero();
        }

        @Test
        void sevenRetriesAreSevenIfAskedFor() throws Exception {
            connect(NONE.withRetries(7), NONE);
            assertThat(network.lastConnect.retries()).isEqualTo(7);
            assertThat(near.getLast().retries()).isEqualTo(7);
            assertThat(far.getLast().retries()).isEqualTo(6);
        }
    }

    @Nested
    class Values {
        private static void refused(ThrowingCallable call, String... parts) {
            assertThatThrownBy(call)
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContainingAll(parts);
        }

        @ParameterizedTest
        @ValueSource(ints = {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 1 << 20})
        void outOfRangeAreRefused(int value) {
            String number = String.valueOf(value);
            refused(() -> NONE.withTrafficClass(value), "traffic class", "0 to 255", number);
            refused(() -> NONE.withDscp(value), "DSCP", "0 to 63", number, "withTrafficClass");
            refused(() -> NONE.withServiceLevel(value), "service level", "0 to 15", number);
            refused(() -> NONE.withFlowLabel(value), "flow label", "0 to 1048575", number);
            refused(() -> NONE.withPkeyIndex(value), "P_Key index", "0 to 65535", number);
            refused(() -> NONE.withRetries(value), "retries", "0 to 7", number);
            refused(() -> NONE.withRnrRetries(value), "RNR retries", "0 to 7", number);
        }

        @Test
        void oneTooManyIsRefusedAndTheMostIsNot() {
            refused(() -> NONE.withTrafficClass(256), "not 256");
            refused(() -> NONE.withDscp(64), "not 64");
            refused(() -> NONE.withServiceLevel(16), "not 16");
            refused(() -> NONE.withPkeyIndex(65536), "not 65536");
            refused(() -> NONE.withRetries(8), "not 8");
            refused(() -> NONE.withRnrRetries(8), "not 8");
            assertThat(
                            NONE.withTrafficClass(255)
                                    .withServiceLevel(15)
                                    .withFlowLabel(0xFFFFF)
                                    .withPkeyIndex(65535)
                                    .withRetries(7)
                                    .withRnrRetries(7))
                    .hasToString(
                            "PathOptions(traffic class 255, service level 15, flow label 1048575, P_Key index 65535, retries 7, RNR retries unlimited)");
            assertThat(NONE.withDscp(63)).isEqualTo(NONE.withTrafficClass(252));
        }

        @ParameterizedTest
        @CsvSource({
            "PT0.000008192S, 1",
            "PT0.000008193S, 2",
            "PT0.0671S, 14",
            "PT0.0672S, 15",
            "PT1S, 18",
            "PT2H, 31",
            "PT9999999H, 31"
        })
        void ackTimeoutsAreStepsOfTwo(Duration timeout, int exponent) {
            StateChange change = new StateChange(StateChange.READY_TO_SEND);
            NONE.withAckTimeout(timeout).applyTo(change);
            assertThat(change.ackTimeout()).isEqualTo(exponent);
        }

        @Test
        void timesOutOfRangeAreRefused() {
            refused(() -> NONE.withAckTimeout(Duration.ofNanos(8191)), "PT0.000008192S or longer");
            refused(() -> NONE.withMinRnrTimer(Duration.ZERO), "longer than zero");
            refused(() -> NONE.withMinRnrTimer(Duration.ofNanos(-1)), "PT-0.000000001S");
            refused(
                    () -> NONE.withMinRnrTimer(Duration.ofNanos(655_360_001)),
                    "at most PT0.65536S");
        }

        /** The table of the InfiniBand specification, also in rdma/ib_verbs.h. */
        @Test
        void rnrTimersAreThoseOfTheTable() {
            int[] hundredths = { // of a millisecond, by their code
                65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
                1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152
            };
            for (int code = 0; code < 32; code++) {
                Duration time = Duration.ofNanos(10_000L * hundredths[code]);
                assertThat(timer(time)).isEqualTo(code);
                assertThat(timer(time.minusNanos(1))).isEqualTo(code);
                if (code != 0) {
                    assertThat(timer(time.plusNanos(1))).isEqualTo((code + 1) % 32);
                }
                assertThat(NONE.withMinRnrTimer(time))
                        .hasToString("PathOptions(minimum RNR timer %s)".formatted(time));
            }
        }

        private static int timer(Duration time) {
            StateChange change = new StateChange(StateChange.READY_TO_RECEIVE);
            NONE.withMinRnrTimer(time).applyTo(change);
            assertThat(FakeDevice.mask(change)).isEqualTo(Verbs.IBV_QP_MIN_RNR_TIMER);
            return FakeDevice.bytes(change)[(int) ibv_qp_attr.min_rnr_timer$offset()];
        }

        @Test
        void areEqualByWhatTheyAskFor() {
            List<PathOptions> all =
                    List.of(
                            NONE,
                            NONE.withTrafficClass(1),
                            NONE.withTrafficClass(0),
                            NONE.withServiceLevel(1),
                            NONE.withFlowLabel(1),
                            NONE.withPkeyIndex(1),
                            NONE.withRetries(1),
                            NONE.withRnrRetries(1),
                            NONE.withMinRnrTimer(Duration.ofMillis(1)),
                            NONE.withAckTimeout(Duration.ofMillis(1)));
            Set<PathOptions> set = new HashSet<>(all);
            assertThat(set).hasSize(all.size());
            assertThat(set).contains(NONE.withTrafficClass(2).withTrafficClass(1));
            assertThat(NONE.withAckTimeout(Duration.ofMillis(60)))
                    .isEqualTo(NONE.withAckTimeout(Duration.ofMillis(50))) // both are 67 ms
                    .hasSameHashCodeAs(NONE.withAckTimeout(Duration.ofMillis(50)))
                    .isNotEqualTo("67 ms")
                    .hasToString("PathOptions(acknowledged within PT0.067108864S)");
            assertThat(NONE).hasToString("PathOptions()");
        }

        @Test
        void aChangedCopyLeavesTheOriginal() {
            PathOptions one = NONE.withRetries(1);
            assertThat(one.withRetries(2)).isNotEqualTo(one);
            assertThat(one).hasToString("PathOptions(retries 1)");
            assertThat(NONE).hasToString("PathOptions()");
        }
    }
}
