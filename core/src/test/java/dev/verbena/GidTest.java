package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import java.net.InetAddress;

/** GIDs as text, as bytes and as IP addresses. */
class GidTest {
    @Property(tries = 300)
    void textAndBytesComeBack(@ForAll long high, @ForAll long low) {
        Gid gid = new Gid(high, low);
        assertThat(Gid.parse(gid.toString())).isEqualTo(gid);
        assertThat(Gid.of(gid.bytes())).isEqualTo(gid);
    }

    @Test
    void ipAddressesOfEitherKind() {
        Gid mapped = Gid.of(InetAddress.ofLiteral("198.18.77.1"));
        assertThat(mapped.isIpv4()).isTrue();
        assertThat(mapped.toString()).isEqualTo("::ffff:198.18.77.1");
        assertThat(Gid.parse("::ffff:198.18.77.1")).isEqualTo(mapped);
        assertThat(Gid.parse("198.18.77.1")).isEqualTo(mapped);
        assertThat(mapped.toInetAddress().getHostAddress()).isEqualTo("198.18.77.1");
        // As ibv_devinfo and /sys print it.
        assertThat(Gid.parse("fe80:0000:0000:0000:b41c:c1ff:fec6:7040").isLinkLocal()).isTrue();
        assertThat(Gid.parse("0000:0000:0000:0000:0000:ffff:c612:4d01")).isEqualTo(mapped);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "x", "roce0", "::ffff:1.2.3.4.5"})
    void othersAreNone(String text) {
        assertThatThrownBy(() -> Gid.parse(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("is not a GID");
        assertThatThrownBy(() -> Gid.of(new byte[4])).hasMessageContaining("16 bytes");
    }
}
