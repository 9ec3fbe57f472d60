package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

import java.net.InetSocketAddress;
import java.time.Duration;

/** Which options each step of a connection accepts. */
class ConnectionOptionsTest {
    @Test
    void refusesADeadlineThatIsOver() {
        assertThatThrownBy(() -> ConnectionOptions.DEFAULTS.withDeadline(Duration.ZERO))
                .hasMessageContaining("longer than zero");
    }

    @Test
    void keepsItsPrivateDataToItself() {
        byte[] data = {1};
        ConnectionOptions options = ConnectionOptions.DEFAULTS.withPrivateData(data);
        data[0] = 2;
        assertThat(options.privateData).containsExactly(1);
    }

    @Test
    void refusesAPartitionThatTheConnectionManagerChooses() {
        PathOptions partition = PathOptions.DEFAULTS.withPkeyIndex(2);
        assertThatThrownBy(() -> ConnectionOptions.DEFAULTS.withPath(partition))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("IP interface")
                .hasMessageContaining("P_Key index 2");
    }

    @Test
    void saysWhatItIs() {
        assertThat(
                        ConnectionOptions.DEFAULTS
                                .withoutAnnouncement()
                                .assumingInvalidatablePeer()
                                .withLocalAddress(new InetSocketAddress("10.0.0.1", 5))
                                .withPath(PathOptions.DEFAULTS.withDscp(26))
                                .withDeadline(Duration.ofSeconds(3))
                                .toString())
                .contains(
                        "within 3 s",
                        "not announced",
                        "invalidatable",
                        "10.0.0.1:5",
                        ", PathOptions(traffic class 104)");
    }
}
