package dev.verbena.messaging;

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
class MessagingOptionsTest {
    private static final int PORT = 7473;
    private static final int LONGEST = (1 << 23) - 32; // 32 of each frame are its own
    private static final MessagingOptions FITTING =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(LONGEST)
                    .withEagerLimit(LONGEST + 1)
                    .withOutstanding(1)
                    .withReceives(1)
                    .withExposures(1);
    private static final MessagingOptions TOO_LONG = FITTING.withMaxMessage(LONGEST + 1);

    private static void assertRefused(Runnable what) {
        assertThatThrownBy(what::run)
                .isInstanceOf(MessagingException.class)
                .hasMessage(
                        "Messages of up to 8,388,577 bytes are too long for fake0: it sends at most 8,388,608 bytes at once, and a channel adds up to 32 to a message. Use MessagingOptions.withMaxMessage(8388576) or less")
                .extracting(thrown -> ((VerbenaException) thrown).status())
                .isEqualTo(Status.INVALID_PARAMETER);
    }

    private static void assertRefused(Poller poller, MessagingOptions options, String why) {
        assertThatThrownBy(
                        () ->
                                MessageChannel.connect(poller, FakeFabric.port(PORT), options, null)
                                        .close())
                .isInstanceOf(MessagingException.class)
                .hasMessage(why)
                .extracting(thrown -> ((VerbenaException) thrown).status())
                .isEqualTo(Status.INVALID_PARAMETER);
    }

    @Test
    void messagesThatAreTooLongForTheDeviceAreRefusedAtOnce() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            assertRefused(
                    () ->
                            MessageServer.listen(
                                            poller,
                                            FakeFabric.port(PORT),
                                            TOO_LONG,
                                            1,
                                            null,
                                            channel -> {})
                                    .close());
            assertRefused(
                    () ->
                            MessageChannel.connect(poller, FakeFabric.port(PORT), TOO_LONG, null)
                                    .close());
            assertRefused(
                    () ->
                            MessageClient.start(
                                            poller,
                                            FakeFabric.port(PORT),
                                            TOO_LONG,
                                            ReconnectOptions.DEFAULTS,
                                            null,
                                            channel -> {})
                                    .close());
        }
    }

    /** On a device whose queues are 4,032 deep. */
    @Test
    void optionsThatNeedDeeperQueuesThanTheDeviceHasAreNamed() {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events())) {
            MessagingOptions small = MessagingOptions.DEFAULTS.withMaxMessage(64);
            assertRefused(
                    poller,
                    small.withReceives(32_767),
                    "32,767 receives of a channel are too many for fake0: its receive queues are at most 4,096 deep, and a channel needs 5 receives more. Use MessagingOptions.withReceives(4091) or less");
            assertRefused(
                    poller,
                    small.withOutstanding(2008).withExposures(7),
                    "2,008 outstanding requests and 7 exposures of a channel are too many for fake0: its send queues are at most 4,032 deep. Use MessagingOptions.withOutstanding and withExposures that add up to 2,013 or less");
            MessagingOptions most = small.withReceives(4091).withOutstanding(2008).withExposures(5);
            try (MessageServer server =
                            MessageServer.listen(
                                    poller, FakeFabric.port(PORT), most, 1, null, channel -> {});
                    MessageChannel channel =
                            MessageChannel.connect(poller, server.localAddress(), most, null)) {
                assertThat(channel.isOpen()).isTrue();
            }
        }
    }

    /** The longest that is not refused: it can be sent, with all that a frame may carry. */
    @Test
    void theLongestMessageThatIsNotRefusedCanBeSent() throws Exception {
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                FakeFabric.port(PORT),
                                FITTING,
                                1,
                                (channel, message) -> {
                                    assertThat(message.data().byteSize()).isEqualTo(LONGEST);
                                },
                                channel -> {});
                MessageChannel channel =
                        MessageChannel.connect(poller, FakeFabric.port(PORT), FITTING, null)) {
            MemorySegment most = MemorySegment.ofArray(new byte[LONGEST]);
            channel.sendAsync(most).get(30, TimeUnit.SECONDS);
            assertThat(channel.isOpen()).isTrue();
            assertThat(server.channelCount()).isEqualTo(1);
        }
    }
}
