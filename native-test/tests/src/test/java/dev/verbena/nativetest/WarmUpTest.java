package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.WarmUp;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;

/** A real device connects to itself, by the connection manager. */
@NeedsDevices
@Timeout(180)
class WarmUpTest {
    @Test
    void eachDeviceIsConnectedToItself() {
        for (String name : RdmaDevices.active()) {
            try (Adapter adapter = Adapter.open(name)) {
                assertThat(WarmUp.run(adapter, Duration.ofSeconds(60))).as(name).isTrue();
            }
        }
    }
}
