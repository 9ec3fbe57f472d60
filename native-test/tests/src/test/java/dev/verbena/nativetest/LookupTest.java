package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Adapter;
import dev.verbena.Gid;
import dev.verbena.MemoryRegion;
import dev.verbena.Port;
import dev.verbena.PortCounters;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** Several devices in one machine: by which address each is found, how fast, how busy it is. */
@NeedsDevices
@Timeout(120)
class LookupTest {
    private static InetAddress address(String text) {
        return InetAddress.ofLiteral(text);
    }

    @Test
    void eachAddressLeadsToItsDevice() {
        for (String name : RdmaDevices.active()) {
            InetAddress own;
            try (Adapter adapter = Adapter.open(name)) {
                own = adapter.gid().gid().gid().toInetAddress();
            }
            try (Adapter found = Adapter.forAddress(own)) {
                assertThat(found.name()).isEqualTo(name);
                assertThat(found.gid().gid().gid()).isEqualTo(Gid.of(own));
                assertThat(found.gid().gid().type()).isEqualTo(Port.GidType.ROCE_V2);
            }
            // A peer on this machine is where its address is.
            try (Adapter found = Adapter.forPeer(own)) {
                assertThat(found.name()).isEqualTo(name);
            }
        }
    }

    @Test
    void addressesOfNoDeviceAreExplained() {
        String first = RdmaDevices.active().getFirst();
        for (String loopback : new String[] {"127.0.0.1", "::1"}) {
            assertThatThrownBy(() -> Adapter.forAddress(address(loopback)))
                    .isInstanceOf(VerbenaException.class)
                    .hasMessageContaining("loopback interface, which no RDMA device uses")
                    .hasMessageContaining(first + " is on ");
            assertThatThrownBy(() -> Adapter.forPeer(address(loopback)))
                    .hasMessageContaining("loopback interface, which no RDMA device uses");
        }
        assertThatThrownBy(() -> Adapter.forAddress(address("240.0.0.1")))
                .hasMessageContaining("240.0.0.1 is not an address of this machine")
                .hasMessageContaining(first + " is on ");
    }

    @Test
    void addressesOfOtherInterfacesAreExplained() throws Exception {
        try (var _ = new OwnDevices()) {
            try (Adapter found = Adapter.forAddress(address(OwnDevices.SECOND_ADDRESS))) {
                assertThat(found.name()).isEqualTo(OwnDevices.SECOND);
            }
            try (Adapter found = Adapter.forAddress(linkLocal(OwnDevices.FIRST_LINK))) {
                assertThat(found.name()).isEqualTo(OwnDevices.FIRST);
            }
            assertThatThrownBy(() -> Adapter.forAddress(address(OwnDevices.BARE_ADDRESS)))
                    .hasMessageContaining(
                            "198.19.80.1 is an address of vbare0, which no RDMA device uses; ")
                    .hasMessageContaining("flap0 is on vflap0 (198.19.77.1)");
        }
    }

    /** In a process of its own: librdmacm keeps each device open until its process ends. */
    @Test
    void routesLeadToDevicesAndSayWhereTheyLeadElse() throws Exception {
        try (var _ = new OwnDevices();
                ChildProgram program =
                        ChildProgram.start(
                                RouteLookups.class,
                                OwnDevices.NEIGHBOUR,
                                OwnDevices.BARE_NEIGHBOUR,
                                "198.19.77.60", // where nobody is
                                "240.0.0.1")) {
            assertThat(program.line()).isEqualTo(OwnDevices.FIRST);
            assertThat(program.line())
                    .startsWith(
                            "INVALID_ADDRESS: The route to 198.19.80.5 leads through vbare0 (198.19.80.1), which no RDMA device uses; ")
                    .contains("flap0 is on vflap0 (198.19.77.1)");
            assertThat(program.line())
                    .startsWith("HOST_UNREACHABLE: 198.19.77.60 cannot be reached by RDMA");
            assertThat(program.line()).startsWith("NETWORK_UNREACHABLE: ").contains("240.0.0.1");
            assertThat(program.line()).isNull();
            assertThat(program.exitCode()).isZero();
        }
    }

    private static InetAddress linkLocal(String link) throws Exception {
        return NetworkInterface.getByName(link)
                .inetAddresses()
                .filter(a -> a instanceof Inet6Address && a.isLinkLocalAddress())
                .findFirst()
                .orElseThrow();
    }

    /** The kernel prints it as in "100 Gb/sec (4X EDR)". */
    @Test
    void theRateIsTheKernels() throws IOException {
        for (String name : RdmaDevices.active()) {
            try (Adapter adapter = Adapter.open(name)) {
                Port port = adapter.ports().getFirst();
                String rate =
                        Files.readString(
                                        Path.of(
                                                "/sys/class/infiniband",
                                                name,
                                                "ports",
                                                "1",
                                                "rate"))
                                .strip();
                assertThat(rate)
                        .startsWith(
                                String.format(Locale.ROOT, "%.1f", port.bitsPerSecond() / 1e9)
                                        .replace(".0", ""))
                        .contains("(" + port.width() + "X");
                if (port.speed() != Port.Speed.SDR) { // which the kernel does not name
                    assertThat(rate).endsWith(" " + port.speed() + ")");
                }
            }
        }
    }

    @Test
    void trafficIsCounted() {
        try (Pair pair = Pair.connected(1)) {
            if (!RdmaDevices.isSoftRoce(pair.left.adapter.name())) {
                return; // other drivers have other counters
            }
            PortCounters sentBefore = pair.left.adapter.counters(1);
            PortCounters receivedBefore = pair.right.adapter.counters(1);
            MemoryRegion source = pair.left.memory(8);
            for (int i = 0; i < 10; i++) {
                pair.right.queuePair.receive(i, Pair.whole(pair.right.memory(8))).orThrow();
                pair.left.queuePair.send(i, Pair.whole(source)).orThrow();
                pair.right.completion();
                pair.left.completion();
            }
            PortCounters sent = pair.left.adapter.counters(1).since(sentBefore);
            PortCounters received = pair.right.adapter.counters(1).since(receivedBefore);
            assertThat(sent.value("sent_pkts").orElseThrow()).isGreaterThanOrEqualTo(10);
            assertThat(received.value("rcvd_pkts").orElseThrow()).isGreaterThanOrEqualTo(10);
            assertThat(sent.elapsed()).isPositive();
        }
    }
}
