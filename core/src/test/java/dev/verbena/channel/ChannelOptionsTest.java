package dev.verbena.channel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.util.concurrent.TimeUnit;

/** Options that the device cannot fulfil, on one that sends at most 8 MiB at once. */
@Timeout(60)
class ChannelOptionsTest {
    private static final int PORT = 7473;
    private static final int LONGEST = (1 << 23) - 32; // 32 of each frame are its own
    private static final ChannelOptions FITTING =
            ChannelOptions.DEFAULTS
                    .withMaxMessage(LONGEST)
                    .withOutstanding(1)
                    .withReceives(1)
                    .withExposures(1);
    private static final ChannelOptions TOO_LONG = FITTING.withMaxMessage(LONGEST + 1);

    private static void assertRefused(Runnable what) {
        assertThatThrownBy(what::run)
                .isInstanceOf(ChannelException.class)
                .hasMessage(
                        "Messages of up to 8,388,577 bytes are too long for fake0: it sends at most 8,388,608 bytes at once, and a channel adds up to 32 to a message. Use ChannelOptions.withMaxMessage(8388576) or less")
                .extracting(thrown -> ((VerbenaException) thrown).status())
                .isEqualTo(Status.INVALID_PARAMETER);
    }

    @Test
    void messagesThatAreTooLongForTheDeviceAreRefusedAtOnce() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            assertRefused(
                    () ->
                            ChannelServer.listen(
                                            poller,
                                            FakeFabric.port(PORT),
                                            TOO_LONG,
                                            1,
                                            null,
                                            channel -> {})
                                    .close());
            assertRefused(
                    () -> Channel.connect(poller, FakeFabric.port(PORT), TOO_LONG, null).close());
            assertRefused(
                    () ->
                            ChannelClient.start(
                                            poller,
                                            FakeFabric.port(PORT),
                                            TOO_LONG,
                                            ReconnectOptions.DEFAULTS,
                                            null,
                                            channel -> {})
                                    .close());
        }
    }

    /** The longest that is not refused: it can be sent, with all that a frame may carry. */
    @Test
    void theLongestMessageThatIsNotRefusedCanBeSent() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                ChannelServer server =
                        ChannelServer.listen(
                                poller,
                                FakeFabric.port(PORT),
                                FITTING,
                                1,
                                (channel, message) -> {
                                    assertThat(message.data().byteSize()).isEqualTo(LONGEST);
                                },
                                channel -> {});
                Channel channel = Channel.connect(poller, FakeFabric.port(PORT), FITTING, null)) {
            MemorySegment most = MemorySegment.ofArray(new byte[LONGEST]);
            channel.sendAsync(most).get(30, TimeUnit.SECONDS);
            assertThat(channel.isOpen()).isTrue();
            assertThat(server.channelCount()).isEqualTo(1);
        }
    }
}
