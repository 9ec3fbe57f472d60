package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.examples.KeyValueClient;
import dev.verbena.messaging.FakeFabric;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Poller;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What the examples do when something fails; on a device that does not exist. */
@Timeout(120)
class ExampleFailuresTest {
    private static final int LONG = 60; // seconds

    @Test
    void aCallToAPortWhereNobodyListensFailsInTime() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                KeyValueClient client = new KeyValueClient(poller, FakeFabric.port(9))) {
            assertThatThrownBy(() -> client.get("key").get(LONG, TimeUnit.SECONDS))
                    .hasCauseInstanceOf(TimeoutException.class);
        }
    }
}
