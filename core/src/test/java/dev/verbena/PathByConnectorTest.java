package dev.verbena;

import static dev.verbena.PathSteps.ALL;
import static dev.verbena.PathSteps.NONE;
import static dev.verbena.PathSteps.SMALL;
import static dev.verbena.PathSteps.changed;
import static dev.verbena.PathSteps.made;
import static dev.verbena.PathSteps.trafficClass;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;

import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Which attribute of which side's queue pair each path option of a connector changes. */
class PathByConnectorTest extends ConnectorRig {
    private final List<StateChange> nearSteps = new ArrayList<>(); // of the connecting side
    private final List<StateChange> farSteps = new ArrayList<>();

    @Override
    QueuePair queuePair() {
        return domain.createQueuePair(queue, queue, SMALL);
    }

    /** Connects two queue pairs, and notes the steps of each. */
    private void connect(PathOptions here, PathOptions there) throws Exception {
        Connector connector = connector();
        CompletableFuture<Void> connected =
                connector.connectAsync(near, listener().localAddress(), DEFAULTS.withPath(here));
        Connector request = request();
        CompletableFuture<Void> accepted = request.acceptAsync(far, DEFAULTS.withPath(there));
        get(connected);
        farSteps.addAll(device.changes);
        device.changes.clear();
        connector.completeConnect();
        get(accepted);
        nearSteps.addAll(device.changes);
        device.changes.clear();
        assertThat(nearSteps).hasSize(3);
        assertThat(farSteps).hasSize(3);
    }

    private static byte[] toReceive(List<StateChange> side) {
        return FakeDevice.bytes(side.get(1));
    }

    private static byte[] toSend(List<StateChange> side) {
        return FakeDevice.bytes(side.get(2));
    }

    /** What the fake connection manager says, with what this library always changes. */
    private byte[] defaultToReceive(List<StateChange> side) {
        QueuePair peer = side == nearSteps ? far : near;
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
        for (List<StateChange> side : List.of(nearSteps, farSteps)) {
            assertThat(side)
                    .extracting(FakeDevice::mask)
                    .containsExactly(
                            Verbs.IBV_QP_STATE
                                    | Verbs.IBV_QP_PKEY_INDEX
                                    | Verbs.IBV_QP_PORT
                                    | Verbs.IBV_QP_ACCESS_FLAGS,
                            PathSteps.MASK_TO_RECEIVE,
                            PathSteps.MASK_TO_SEND);
        }
    }

    @Test
    void defaultsLeaveItToTheConnectionManager() throws Exception {
        connect(NONE, NONE);
        assertThat(network.calls).noneMatch(call -> call.startsWith("trafficClass"));
        for (List<StateChange> side : List.of(nearSteps, farSteps)) {
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
        assertThat(toReceive(nearSteps))
                .isEqualTo(changed(defaultToReceive(nearSteps), PathSteps::allToReceive));
        assertThat(toSend(nearSteps)).isEqualTo(changed(defaultToSend(), PathSteps::allToSend));
        // The other has the traffic class of the request, and nothing else.
        assertThat(toReceive(farSteps))
                .isEqualTo(changed(defaultToReceive(farSteps), a -> trafficClass(a, 0xFE)));
        assertThat(toSend(farSteps)).isEqualTo(defaultToSend());
        masksAreThoseOfTheConnectionManager();
        assertThat(network.lastConnect.retries()).isEqualTo(3);
        // How often the peer waits for receives of this side is no option of this side's.
        assertThat(network.lastConnect.rnrRetries()).isEqualTo(6);
    }

    @Test
    void optionsOfTheAcceptingSideAreOnItsQueuePair() throws Exception {
        connect(NONE, ALL);
        assertThat(network.calls).noneMatch(call -> call.startsWith("trafficClass"));
        assertThat(toReceive(nearSteps)).isEqualTo(defaultToReceive(nearSteps));
        assertThat(toSend(nearSteps)).isEqualTo(defaultToSend());
        assertThat(toReceive(farSteps))
                .isEqualTo(changed(defaultToReceive(farSteps), PathSteps::allToReceive));
        assertThat(toSend(farSteps)).isEqualTo(changed(defaultToSend(), PathSteps::allToSend));
        masksAreThoseOfTheConnectionManager();
    }

    @Test
    void eachSideMayHaveATrafficClassOfItsOwn() throws Exception {
        connect(NONE.withDscp(26), NONE.withTrafficClass(0));
        assertThat(toReceive(nearSteps))
                .isEqualTo(changed(defaultToReceive(nearSteps), a -> trafficClass(a, 104)));
        assertThat(toReceive(farSteps)).isEqualTo(defaultToReceive(farSteps));
    }

    @Test
    void theTrafficClassIsSetBeforeTheRouteIsResolvedFromEachAddress() throws Exception {
        // The route leads by another device: the device's own address is tried next, which
        // takes another identifier.
        network.routeBy = "fake1";
        connect(NONE.withTrafficClass(104), NONE);
        assertThat(network.calls)
                .filteredOn(call -> call.startsWith("trafficClass") || call.startsWith("resolve"))
                .containsExactly(
                        "trafficClass 104",
                        "resolveAddress",
                        "trafficClass 104",
                        "resolveAddress",
                        "resolveRoute");
        assertThat(toReceive(farSteps))
                .isEqualTo(changed(defaultToReceive(farSteps), a -> trafficClass(a, 104)));
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
        Connector connector = connector();
        assertThatThrownBy(
                        () ->
                                connector.connect(
                                        near,
                                        new InetSocketAddress(HERE, 1),
                                        DEFAULTS.withPath(NONE.withDscp(26))))
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining("rdma_set_option(TOS 104)")
                .hasMessageContaining("EINVAL");
        assertThat(near.state()).isEqualTo(QueuePairState.INITIALIZED);
        assertThat(network.identifiers()).isZero();
    }

    @Test
    void sevenRetriesAreSevenIfAskedFor() throws Exception {
        connect(NONE.withRetries(7), NONE);
        assertThat(network.lastConnect.retries()).isEqualTo(7);
        assertThat(nearSteps.getLast().get(Attribute.RETRIES)).isEqualTo(7);
        assertThat(farSteps.getLast().get(Attribute.RETRIES)).isEqualTo(6);
    }
}
