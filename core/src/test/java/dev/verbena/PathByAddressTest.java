package dev.verbena;

import static dev.verbena.PathSteps.ALL;
import static dev.verbena.PathSteps.NONE;
import static dev.verbena.PathSteps.SMALL;
import static dev.verbena.PathSteps.changed;
import static dev.verbena.PathSteps.made;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_ah_attr;
import dev.verbena.bindings.ibv_gid;
import dev.verbena.bindings.ibv_global_route;
import dev.verbena.bindings.ibv_qp_attr;
import dev.verbena.internal.verbs.FakeDevice;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

import java.lang.foreign.MemorySegment;

/** Which attribute of a queue pair that connects to an address each path option changes. */
class PathByAddressTest {
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
                    ibv_gid.raw(ibv_global_route.dgid(route)).copyFrom(MemorySegment.ofArray(gid));
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
                .isEqualTo(PathSteps.MASK_TO_RECEIVE | alsoToReceive);
        assertThat(FakeDevice.mask(rig.device.changes.getLast())).isEqualTo(PathSteps.MASK_TO_SEND);
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
        assertThat(rig.device.changes.getLast().get(Attribute.RNR_RETRIES)).isEqualTo(1);
    }

    @Test
    void eachOptionIsInItsAttribute() {
        rig.a.connect(peer, ALL);
        assertThat(toReceive()).isEqualTo(changed(defaultToReceive(), PathSteps::allToReceive));
        assertThat(toSend()).isEqualTo(changed(defaultToSend(), PathSteps::allToSend));
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
                                    MemorySegment address = ibv_qp_attr.ah_attr(a).fill((byte) 0);
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
        // The device has no way from ready-to-receive back to where a connect begins.
        assertThat(rig.a.state()).isEqualTo(QueuePairState.FLUSHED);
    }
}
