package dev.verbena.channel;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.FakeAdapters;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.time.Duration;

/** A poller of the caller's own thread. */
@Timeout(60)
class PollerTest {
    /** Such as the end of a channel, which the caller may wait for. */
    @Test
    void awaitReturnsWhenATaskHasRun() {
        FakeDevice device = new FakeDevice();
        try (Adapter adapter = FakeAdapters.open(device);
                Poller poller = Poller.onThisThread(adapter, IdleStrategy.events())) {
            boolean[] done = new boolean[1];
            poller.execute(() -> done[0] = true);
            assertThat(poller.await(Duration.ofHours(1))).isZero();
            assertThat(done[0]).isTrue();
        }
        device.dispose();
    }
}
