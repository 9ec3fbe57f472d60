package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.internal.verbs.FakeConnections;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;

@Timeout(60)
class ToStringTest {
    private static final InetAddress HERE = InetAddress.ofLiteral("10.0.0.1");

    @Test
    void saysThatAnObjectIsClosed() {
        FakeDevice device = new FakeDevice();
        FakeConnections network = new FakeConnections();
        network.devices.put(HERE, "fake0");
        Arena arena = Arena.ofShared();
        List<NativeObject> all = new ArrayList<>();
        Adapter adapter = FakeAdapters.open(device, network);
        all.add(adapter);
        ProtectionDomain domain = adapter.createProtectionDomain();
        all.add(domain);
        CompletionQueue queue = adapter.createCompletionQueue(16);
        all.add(queue);
        QueuePairLimits limits = QueuePairLimits.depths(2, 2);
        all.add(domain.createQueuePair(queue, queue, limits));
        all.add(domain.register(arena.allocate(64)));
        all.add(domain.createMemoryWindow());
        all.add(domain.createSharedReceiveQueue(8, 1, status -> {}));
        all.add(adapter.createConnector());
        all.add(adapter.createSharedEndpoint(new InetSocketAddress(HERE, 0)));
        all.add(adapter.listen(new InetSocketAddress(HERE, 0), 0, request -> {}));
        for (NativeObject object : all) {
            assertThat(object.toString())
                    .startsWith(object.getClass().getSimpleName() + " ")
                    .doesNotContain("closed");
        }
        for (NativeObject object : all.reversed()) {
            String before = object.toString();
            object.close();
            assertThat(object.toString()).endsWith(", closed").doesNotContain("paused");
            assertThat(object.toString()).startsWith(object.getClass().getSimpleName() + " ");
            if (!(object instanceof Connector)) { // which says more of its state
                assertThat(object).hasToString(before + ", closed");
            }
        }
        arena.close();
        assertThat(device.objects()).isZero();
        device.dispose();
    }

    /** Values have one line each, with their names; what may be a secret is left out. */
    @Test
    void valuesPrintInOneLineWithTheirNames() {
        try (Rig rig = Rig.connected(QueuePairLimits.depths(2, 2))) {
            List<Object> values =
                    List.of(
                            rig.adapter.info(),
                            rig.a.limits(),
                            rig.a.address(),
                            rig.adapter.ports().getFirst(),
                            ConnectionOptions.DEFAULTS,
                            new ConnectionData(new byte[3], true, true, 1, 1));
            for (Object value : values) {
                assertThat(value.toString())
                        .startsWith(value.getClass().getSimpleName())
                        .doesNotContain("\n", "@", "null");
            }
            assertThat(rig.a.peer().orElseThrow())
                    .hasToString(
                            "queue pair %d at ::ffff:10.0.0.1"
                                    .formatted(rig.b.address().queuePairNumber()));
            assertThat(rig.memory.remoteMemory().toString()).startsWith("4096 bytes at 0x");
            assertThat(OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER))
                    .hasToString("SILENT_SUCCESS|DEFER");
        }
    }
}
