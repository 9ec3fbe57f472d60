package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Port.GidEntry;
import dev.verbena.Port.GidType;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.util.List;

class PortTest {
    private static final Gid LINK_LOCAL = new Gid(0xFE80_0000_0000_0000L, 1);
    private static final Gid IPV4 = new Gid(0, 0xFFFF_C000_0201L);
    private static final Gid IPV6 = new Gid(0x2001_0DB8_0000_0000L, 5);

    @Test
    void gidsPrintAsAddresses() {
        assertThat(IPV4).hasToString("::ffff:192.0.2.1");
        assertThat(LINK_LOCAL).hasToString("fe80:0:0:0:0:0:0:1");
        assertThat(IPV6).hasToString("2001:db8:0:0:0:0:0:5");
    }

    @Test
    void roceV2OverIpv4IsPreferredThenIpv6ThenLinkLocalThenV1() {
        GidEntry v1 = new GidEntry(1, 0, IPV4, GidType.ROCE_V1, 0);
        GidEntry local = new GidEntry(1, 1, LINK_LOCAL, GidType.ROCE_V2, 0);
        GidEntry six = new GidEntry(1, 2, IPV6, GidType.ROCE_V2, 0);
        GidEntry four = new GidEntry(1, 3, IPV4, GidType.ROCE_V2, 0);
        assertThat(port(v1, local, six, four).preferredGid()).isEqualTo(four);
        assertThat(port(v1, local, six).preferredGid()).isEqualTo(six);
        assertThat(port(v1, local).preferredGid()).isEqualTo(local);
        assertThat(port(v1).preferredGid()).isEqualTo(v1);
    }

    @Test
    void aPortWithoutGidSaysWhyThatMayBe() {
        assertThatThrownBy(() -> port().preferredGid())
                .isInstanceOf(VerbenaException.class)
                .hasMessageContaining("ip address");
    }

    /** Queue pairs whose port and GID are equal share them; the next gets what there is then. */
    @Test
    void aQueuePairHasThePortAndTheGidOfItsTime() {
        try (Rig rig = Rig.confined(QueuePairLimits.depths(2, 2))) {
            Gid first = gidOfAnother(rig);
            assertThat(gidOfAnother(rig)).isSameAs(first);
            rig.device.gids = List.of(new GidEntry(1, 0, IPV4, GidType.ROCE_V2, 0));
            assertThat(gidOfAnother(rig)).isEqualTo(IPV4);
            rig.device.ethernet = false;
            assertThat(gidOfAnother(rig)).isEqualTo(new Gid(0, 0));
            rig.device.ethernet = true;
            assertThat(gidOfAnother(rig)).isEqualTo(IPV4);
        }
    }

    private static Gid gidOfAnother(Rig rig) {
        try (QueuePair pair =
                rig.domain.createQueuePair(rig.queue, rig.queue, QueuePairLimits.depths(2, 2))) {
            return pair.address().gid();
        }
    }

    @Test
    void speedAndWidthAreNames() {
        Port port = port(32, 2);
        assertThat(port.speed()).isEqualTo(Port.Speed.EDR);
        assertThat(port.width()).isEqualTo(4);
        assertThat(port.bitsPerSecond()).isEqualTo(100_000_000_000L);
        assertThat(port).hasToString("Port 1 (active, ETHERNET, EDR x4, MTU 1024, GIDs [])");
    }

    @ParameterizedTest
    @CsvSource({
        "1, 1, SDR, 1, 2.5", "2, 1, DDR, 1, 5", "4, 1, QDR, 1, 10", "8, 2, FDR10, 4, 40",
        "16, 2, FDR, 4, 56", "32, 16, EDR, 2, 50", "64, 2, HDR, 4, 200", "128, 4, NDR, 8, 800",
        "256, 8, XDR, 12, 2400", "0, 2, UNKNOWN, 4, 0", "512, 2, UNKNOWN, 4, 0", "4, 3, QDR, 0, 0"
    })
    void everyCodeOfVerbsHasItsRate(
            int speed, int width, Port.Speed name, int lanes, double gigabits) {
        Port port = port(speed, width);
        assertThat(port.speed()).isEqualTo(name);
        assertThat(port.width()).isEqualTo(lanes);
        assertThat(port.bitsPerSecond()).isEqualTo((long) (gigabits * 1e9));
    }

    private static Port port(GidEntry... gids) {
        return new Port(
                1,
                true,
                Port.LinkLayer.ETHERNET,
                4096,
                1024,
                1 << 23,
                0,
                Port.Speed.EDR,
                4,
                List.of(gids));
    }

    private static Port port(int speed, int width) {
        FakeDevice device = new FakeDevice();
        device.gids = List.of();
        device.speed = speed;
        device.width = width;
        try (Adapter adapter = FakeAdapters.open(device)) {
            return adapter.ports().getFirst();
        } finally {
            device.dispose();
        }
    }
}
