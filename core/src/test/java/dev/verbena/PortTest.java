package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Port.GidEntry;
import dev.verbena.Port.GidType;

import org.junit.jupiter.api.Test;

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
        GidEntry v1 = new GidEntry(0, IPV4, GidType.ROCE_V1);
        GidEntry local = new GidEntry(1, LINK_LOCAL, GidType.ROCE_V2);
        GidEntry six = new GidEntry(2, IPV6, GidType.ROCE_V2);
        GidEntry four = new GidEntry(3, IPV4, GidType.ROCE_V2);
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

    private static Port port(GidEntry... gids) {
        return new Port(1, true, Port.LinkLayer.ETHERNET, 1024, 1 << 23, 0, List.of(gids));
    }
}
