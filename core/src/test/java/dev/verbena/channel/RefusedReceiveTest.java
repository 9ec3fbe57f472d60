package dev.verbena.channel;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.FakeDevice;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.util.concurrent.atomic.AtomicReference;

/** A provider that refuses a receive of a channel that stands. */
@Timeout(60)
class RefusedReceiveTest {
    /** A receive that the provider refuses would be missing for ever. */
    @Test
    void aReceiveThatIsRefusedEndsTheChannel() {
        AtomicReference<FakeDevice> device = new AtomicReference<>();
        try (OneThread two =
                new OneThread(
                        ChannelOptions.DEFAULTS,
                        (channel, message) -> {
                            device.get().refused = 0;
                            device.get().answer = Errno.ENOMEM; // of the next post
                        })) {
            device.set(two.device);
            assertThat(two.a.trySend(OneThread.text("hello")).isSuccess()).isTrue();
            two.run();
            assertThat(two.b.closeReason())
                    .hasMessageContaining("a receive was refused with INSUFFICIENT_RESOURCES")
                    .extracting(VerbenaException::status)
                    .isEqualTo(Status.INSUFFICIENT_RESOURCES);
            assertThat(two.b.closed()).isDone();
        }
    }
}
