package dev.verbena.messaging;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** When the peer is asked, and when its silence is too long; at ticks, which wrap around. */
class KeepAliveTest {
    private static final int INTERVAL = 5;
    private static final int TIMEOUT = 3;

    private final KeepAlive peer = new KeepAlive(INTERVAL, TIMEOUT, 0);

    @ParameterizedTest
    @ValueSource(ints = {100, Integer.MAX_VALUE - 4, -3})
    void asksOnceAndIsSilentAfterTheTimeout(int start) {
        peer.heard();
        for (int tick = 0; tick < INTERVAL; tick++) {
            assertThat(peer.asks(start + tick)).as("tick %d", tick).isFalse();
        }
        int asked = start + INTERVAL;
        assertThat(peer.asks(asked)).isTrue();
        for (int tick = 0; tick <= TIMEOUT; tick++) {
            assertThat(peer.asks(asked + tick)).as("again").isFalse();
            assertThat(peer.isSilent(asked + tick)).as("tick %d", tick).isFalse();
        }
        assertThat(peer.isSilent(asked + TIMEOUT + 1)).isTrue();
    }

    @ParameterizedTest
    @CsvSource({"0, 5", "1, 4", "2, 5", "3, 4", "2147483647, 4"})
    void asksEarlierByItsPlaceModuloHalfOfTheInterval(int place, int asked) {
        KeepAlive one = new KeepAlive(INTERVAL, TIMEOUT, place);
        one.heard();
        for (int tick = 0; tick < asked; tick++) {
            assertThat(one.asks(tick)).as("tick %d", tick).isFalse();
        }
        assertThat(one.asks(asked)).isTrue();
    }

    @Test
    void anyFrameIsAnAnswer() {
        peer.heard();
        assertThat(peer.asks(0)).isFalse();
        assertThat(peer.asks(INTERVAL)).isTrue();
        peer.heard();
        assertThat(peer.isSilent(INTERVAL + TIMEOUT + 1)).isFalse();
        assertThat(peer.asks(100)).as("it was heard since the tick before").isFalse();
        assertThat(peer.asks(100 + INTERVAL)).isTrue();
    }
}
