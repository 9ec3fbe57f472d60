package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.lang.foreign.MemorySegment;
import java.util.function.Consumer;

class AdapterInfoTest {
    private static final QueuePairLimits SMALL = QueuePairLimits.depths(1, 1);

    private static Rig rig(Consumer<FakeDevice> habits) {
        return new Rig(SMALL, habits, null);
    }

    @Test
    void everyMaximumAtOnceWorksAndOneMoreDoesNot() {
        for (int product : new int[] {Integer.MAX_VALUE, 10_000, 500}) {
            try (Rig rig = rig(device -> device.maxProduct = product)) {
                AdapterInfo info = rig.adapter.info();
                assertThat(rig.adapter.info()).isSameAs(info); // found out once
                QueuePairLimits all =
                        QueuePairLimits.depths(info.maxInitiatorDepth(), info.maxReceiveDepth())
                                .withBuffers(info.maxInitiatorBuffers(), info.maxReceiveBuffers())
                                .withInlineBytes(info.maxInlineBytes());
                CompletionQueue queue =
                        rig.adapter.createCompletionQueue(info.maxCompletionQueueDepth());
                rig.domain.createQueuePair(queue, queue, all).close();
                assertThat(info.maxCompletionQueueDepth())
                        .isGreaterThanOrEqualTo(info.maxInitiatorDepth() + info.maxReceiveDepth());
                refused(rig, queue, all.withInlineBytes(info.maxInlineBytes() + 1));
                refused(
                        rig,
                        queue,
                        all.withBuffers(info.maxInitiatorBuffers() + 1, info.maxReceiveBuffers()));
                refused(
                        rig,
                        queue,
                        all.withBuffers(info.maxInitiatorBuffers(), info.maxReceiveBuffers() + 1));
                refused(
                        rig,
                        queue,
                        QueuePairLimits.depths(
                                info.maxInitiatorDepth() + 1, info.maxReceiveDepth()));
                refused(
                        rig,
                        queue,
                        QueuePairLimits.depths(
                                info.maxInitiatorDepth(), info.maxReceiveDepth() + 1));
                queue.close();
                assertThatThrownBy(
                                () ->
                                        rig.adapter.createCompletionQueue(
                                                info.maxCompletionQueueDepth() + 1))
                        .isInstanceOfSatisfying(
                                VerbenaException.class,
                                e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER));
            }
        }
    }

    private static void refused(Rig rig, CompletionQueue queue, QueuePairLimits limits) {
        assertThatThrownBy(() -> rig.domain.createQueuePair(queue, queue, limits))
                .isInstanceOfSatisfying(
                        VerbenaException.class,
                        e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER));
    }

    @ParameterizedTest
    @ValueSource(strings = {"createQp", "createSrq"})
    void aShortageDuringTheFirstProbeIsNoLimit(String call) {
        try (Rig rig = rig(device -> {})) {
            Adapter adapter = FakeAdapters.open(rig.device);
            rig.device.beforeStep =
                    step -> rig.device.controlError = step.equals(call) ? Errno.ENOMEM : 0;
            assertThatThrownBy(adapter::info)
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.errno()).isEqualTo(Errno.ENOMEM));
            rig.device.beforeStep = step -> {};
            assertThat(adapter.info()).isEqualTo(rig.adapter.info());
        }
    }

    @Test
    void whatADeviceHasIsFoundOut() {
        try (Rig rig = rig(device -> device.maxInline = 220)) {
            AdapterInfo info = rig.adapter.info();
            assertThat(info.maxInlineBytes()).isEqualTo(220);
            assertThat(info.maxInitiatorBuffers()).isEqualTo(8);
            assertThat(info.maxReadBuffers()).isEqualTo(4);
            assertThat(info.maxInboundReads()).isEqualTo(8);
            assertThat(info.maxOutboundReads()).isEqualTo(4);
            assertThat(info.maxTransferBytes()).isEqualTo(1 << 23);
            assertThat(info.sendsWithInvalidate()).isTrue();
            assertThat(info.invalidatableWindows()).isTrue();
            assertThat(info.atomics()).isTrue();
            assertThat(info.immediateData()).isTrue();
            assertThat(info.flags()).isEqualTo(0x2 | 0x100 | 0x10000);
            assertThat(info.fastRegistrationPages()).isZero();
        }
    }

    @Test
    void whatTheDeviceIsComesFromItsAttributes() {
        try (Rig rig = rig(device -> device.vendorId = FakeDevice.RXE)) {
            AdapterInfo info = rig.adapter.info();
            assertThat(info.name()).isEqualTo("fake0");
            assertThat(info.vendorId()).isEqualTo(FakeDevice.RXE);
            assertThat(info.vendorPartId()).isEqualTo(rig.device.vendorPartId);
            assertThat(info.hardwareVersion()).isEqualTo(3);
            assertThat(info.firmwareVersion()).isEqualTo("1.0");
            assertThat(info.nodeGuid()).isEqualTo(FakeDevice.NODE_GUID);
            assertThat(info.technology()).isEqualTo(AdapterInfo.Technology.ROCE);
            assertThat(info.providerName()).isEqualTo("rxe");
            assertThat(info.portCount()).isEqualTo(1);
            assertThat(info.maxQueuePairs()).isEqualTo(100);
            assertThat(info.maxCompletionQueues()).isEqualTo(101);
            assertThat(info.maxMemoryRegions()).isEqualTo(102);
            assertThat(info.maxProtectionDomains()).isEqualTo(103);
            assertThat(info.maxMemoryWindows()).isEqualTo(104);
            assertThat(info.maxSharedReceiveQueues()).isEqualTo(105);
            assertThat(info.maxRegistrationBytes()).isEqualTo(Long.MAX_VALUE);
            assertThat(info.toString())
                    .contains(
                            "fake0: ROCE, provider rxe, vendor 0xffffff",
                            "firmware 1.0",
                            "GUID 0200:5eff:fe00:5301",
                            "1 port;",
                            "windows yes",
                            "atomics DEVICE")
                    .doesNotContain("\n");
        }
        try (Rig rig =
                rig(
                        device -> {
                            device.windows = false;
                            device.sharedQueues = false;
                        })) {
            assertThat(rig.adapter.info().maxMemoryWindows()).isZero();
            assertThat(rig.adapter.info().maxSharedReceiveQueues()).isZero();
            assertThat(rig.adapter.info().maxSharedReceiveBuffers()).isZero();
            assertThat(rig.adapter.info().providerName()).isEqualTo("other");
        }
    }

    @Test
    void theTechnologyIsThatOfTheTransportAndOfTheLink() {
        technology(AdapterInfo.Technology.ROCE, device -> {});
        technology(AdapterInfo.Technology.IWARP, device -> device.iwarp = true);
        technology(AdapterInfo.Technology.INFINIBAND, device -> device.ethernet = false);
        technology(AdapterInfo.Technology.OTHER, device -> device.transport = 5); // usNIC, over UDP
    }

    private static void technology(AdapterInfo.Technology expected, Consumer<FakeDevice> habits) {
        try (Rig rig = rig(habits)) {
            assertThat(rig.adapter.info().technology()).isEqualTo(expected);
        }
    }

    @Test
    void atomicsHaveALevel() {
        atomics(AdapterInfo.AtomicsLevel.NONE, device -> device.atomics = false);
        atomics(AdapterInfo.AtomicsLevel.DEVICE, device -> {});
        atomics(AdapterInfo.AtomicsLevel.GLOBAL, device -> device.globalAtomics = true);
    }

    private static void atomics(AdapterInfo.AtomicsLevel expected, Consumer<FakeDevice> habits) {
        try (Rig rig = rig(habits)) {
            assertThat(rig.adapter.info().atomicsLevel()).isEqualTo(expected);
            assertThat(rig.adapter.info().atomics())
                    .isEqualTo(expected != AdapterInfo.AtomicsLevel.NONE);
        }
    }

    /** ConnectTest sends as much. */
    @Test
    void privateDataFitBehindTheAnnouncement() {
        try (Rig rig = rig(device -> {})) {
            AdapterInfo info = rig.adapter.info();
            assertThat(info.maxCallerDataBytes()).isEqualTo(44);
            assertThat(info.maxCalleeDataBytes()).isEqualTo(184);
            assertThat(info.maxRejectDataBytes()).isEqualTo(136);
            assertThat(info.announcementBytes()).isEqualTo(12);
        }
    }

    @Test
    void flagsHaveNames() {
        try (Rig rig = rig(device -> {})) {
            assertThat(rig.adapter.info().flags())
                    .isEqualTo(
                            AdapterInfo.RDMA_READ_SINK_NOT_REQUIRED
                                    | AdapterInfo.CQ_RESIZE
                                    | AdapterInfo.LOOPBACK_CONNECTIONS);
        }
        try (Rig rig =
                rig(
                        device -> {
                            device.iwarp = true;
                            device.resizeError = 95; // EOPNOTSUPP
                        })) {
            assertThat(rig.adapter.info().flags()).isEqualTo(AdapterInfo.LOOPBACK_CONNECTIONS);
            assertThat(rig.adapter.info().completionQueueResize()).isFalse();
        }
    }

    @Test
    void whatIsSaidOfTheSameDeviceIsEqual() {
        try (Rig one = rig(device -> {});
                Rig same = rig(device -> {});
                Rig other = rig(device -> device.maxInline = 8);
                Rig without = rig(device -> device.atomics = false)) {
            AdapterInfo info = one.adapter.info();
            assertThat(info)
                    .isEqualTo(same.adapter.info())
                    .hasSameHashCodeAs(same.adapter.info())
                    .isNotEqualTo(other.adapter.info())
                    .isNotEqualTo(without.adapter.info())
                    .isNotEqualTo(null);
        }
    }

    /** By what the library says of the device: cxgb4 and irdma are iWARP as well, or can be. */
    @Test
    void iwarpHasNoImmediateDataAndNeedsItsReadSinksRegistered() {
        int remoteWrite = 1 << 1;
        int localWrite = 1;
        for (boolean iwarp : new boolean[] {false, true}) {
            try (Rig rig = rig(device -> device.iwarp = iwarp)) {
                AdapterInfo info = rig.adapter.info();
                assertThat(info.immediateData()).isEqualTo(!iwarp);
                assertThat(info.readSinkRequired()).isEqualTo(iwarp);
                assertThat(info.flags() & 0x2).isEqualTo(iwarp ? 0 : 0x2);
                rig.domain
                        .register(rig.memory.memory().asSlice(0, 8), Access.RDMA_READ_SINK)
                        .close();
                assertThat(rig.device.registeredFor.getLast() & (localWrite | remoteWrite))
                        .isEqualTo(iwarp ? localWrite | remoteWrite : localWrite);
                rig.domain.register(rig.memory.memory().asSlice(0, 8), Access.LOCAL_WRITE).close();
                assertThat(rig.device.registeredFor.getLast() & (localWrite | remoteWrite))
                        .isEqualTo(localWrite);
            }
        }
    }

    @Test
    void sendingWithInvalidateAndBeingInvalidatedAreTwoThings() {
        try (Rig rig = rig(device -> device.windows = false)) {
            assertThat(rig.adapter.info().sendsWithInvalidate()).isTrue();
            assertThat(rig.adapter.info().invalidatableWindows()).isFalse();
            assertThat(rig.adapter.info().maxWindowBytes()).isZero();
            assertThat(rig.a.address().invalidatable()).isFalse();
        }
        try (Rig rig = rig(device -> device.invalidates = false)) {
            assertThat(rig.adapter.info().sendsWithInvalidate()).isFalse();
            assertThat(rig.adapter.info().invalidatableWindows()).isTrue();
            rig.connect();
            assertThat(rig.a.sendAndInvalidate(1, rig.bytes(8), 1, OpFlags.NONE).status())
                    .isEqualTo(Status.NOT_SUPPORTED);
        }
    }

    @Test
    void aDeviceThatTakesNothingMoreLeavesNothingBehind() {
        try (Rig rig = rig(device -> {})) {
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.adapter.createCompletionQueue(1))
                    .hasMessageContaining("ibv_create_comp_channel");
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.domain.createQueuePair(rig.queue, rig.queue, SMALL))
                    .hasMessageContaining("ibv_create_qp");
            rig.device.controlError = 12;
            assertThatThrownBy(rig.adapter::createProtectionDomain)
                    .hasMessageContaining("ibv_alloc_pd");
            rig.device.controlError = 12;
            assertThatThrownBy(rig.domain::createMemoryWindow).hasMessageContaining("ibv_alloc_mw");
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.domain.register(rig.arena.allocate(8)))
                    .hasMessageContaining("ulimit -l");
        }
    }

    @Test
    @SuppressWarnings("restricted") // as many bytes as nobody allocates for a test
    void theAdviceForALargeRegionNamesTheLimitOfSoftRoce() {
        MemorySegment large = MemorySegment.ofAddress(4096).reinterpret((1L << 30) + 1);
        try (Rig rig = rig(device -> device.vendorId = FakeDevice.RXE)) {
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.domain.register(large))
                    .hasMessageContaining("limit of 1 GiB")
                    .hasMessageNotContaining("ulimit");
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.domain.register(large.asSlice(0, 1L << 30)))
                    .hasMessageContaining("ulimit -l");
            rig.device.controlError = 14;
            assertThatThrownBy(() -> rig.domain.register(large)).hasMessageContaining("ulimit -l");
        }
        try (Rig rig = rig(device -> {})) {
            rig.device.controlError = 12;
            assertThatThrownBy(() -> rig.domain.register(large)).hasMessageContaining("ulimit -l");
        }
    }

    @Test
    void objectsOfTwoAdaptersDoNotMix() {
        try (Rig one = rig(device -> {});
                Rig two = rig(device -> {})) {
            assertThatThrownBy(() -> one.domain.createQueuePair(two.queue, one.queue, SMALL))
                    .isInstanceOfSatisfying(
                            VerbenaException.class,
                            e -> assertThat(e.status()).isEqualTo(Status.INVALID_PARAMETER_MIX));
        }
    }

    @Test
    void aCompletionQueueCanGrow() {
        try (Rig rig = rig(device -> {})) {
            rig.queue.resize(100);
            assertThatThrownBy(() -> rig.queue.resize(0)).isInstanceOf(VerbenaException.class);
        }
    }

    @Test
    void withoutAnActivePortThereIsNoQueuePair() {
        try (Rig rig = rig(device -> {})) {
            rig.device.portUp = false;
            assertThatThrownBy(() -> rig.domain.createQueuePair(rig.queue, rig.queue, SMALL))
                    .hasMessageContaining("no port whose link is up");
        }
    }
}
