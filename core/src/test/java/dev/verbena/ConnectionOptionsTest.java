package dev.verbena;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

import java.net.InetSocketAddress;
import java.time.Duration;

/** What a step of a connection may be told. */
class ConnectionOptionsTest {
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
        assertThat(ConnectionOptions.DEFAULTS.withAckTimeout(timeout).ackTimeout())
                .isEqualTo(exponent);
        assertThat(ConnectionOptions.DEFAULTS.ackTimeout()).isZero();
    }

    @Test
    void refusesTimesThatAreOver() {
        assertThatThrownBy(() -> ConnectionOptions.DEFAULTS.withDeadline(Duration.ZERO))
                .hasMessageContaining("longer than zero");
        assertThatThrownBy(() -> ConnectionOptions.DEFAULTS.withAckTimeout(Duration.ofNanos(1)))
                .hasMessageContaining("or longer");
    }

    @Test
    void keepsItsPrivateDataToItself() {
        byte[] data = {1};
        ConnectionOptions options = ConnectionOptions.DEFAULTS.withPrivateData(data);
        data[0] = 2;
        assertThat(options.privateData()).containsExactly(1);
    }

    @Test
    void saysWhatItIs() {
        assertThat(
                        ConnectionOptions.DEFAULTS
                                .withoutAnnouncement()
                                .assumingInvalidatablePeer()
                                .withLocalAddress(new InetSocketAddress("10.0.0.1", 5))
                                .withAckTimeout(Duration.ofMillis(60))
                                .withDeadline(Duration.ofSeconds(3))
                                .toString())
                .contains("PT3S", "not announced", "invalidatable", "10.0.0.1:5", "PT0.06S");
    }
}
