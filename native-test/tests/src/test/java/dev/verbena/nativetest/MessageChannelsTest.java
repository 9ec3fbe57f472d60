package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.Status;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageHandler;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.SendCallback;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Channels between two devices: messages, credit, and how they end. */
@NeedsDevices
@Timeout(120)
class MessageChannelsTest {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    /** Sends each message back; what cannot be sent yet is kept until it can. */
    private static final MessageHandler ECHO =
            (channel, message) -> {
                message.retain();
                var _ =
                        channel.sendAsync(message.data())
                                .whenComplete((nothing, thrown) -> message.release());
            };

    @Test
    void messagesOfRandomSizesComeBackInOrder() throws Exception {
        MessagingOptions options = MessagingOptions.DEFAULTS.withMaxMessage(20_000).withReceives(8);
        Random random = new Random(7);
        try (Sides sides = new Sides();
                Poller clientPoller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server = sides.listen(options, 2, ECHO, channel -> {});
                MessageChannel channel =
                        MessageChannel.connect(
                                clientPoller, server.localAddress(), options, null)) {
            List<byte[]> sent = new ArrayList<>();
            CompletableFuture<Void> sender = new CompletableFuture<>();
            for (int i = 0; i < 200; i++) {
                byte[] bytes = new byte[random.nextInt(20_001)];
                random.nextBytes(bytes);
                sent.add(bytes);
            }
            Thread.ofVirtual()
                    .start(
                            () -> {
                                try {
                                    for (byte[] bytes : sent) {
                                        channel.send(MemorySegment.ofArray(bytes), LONG);
                                    }
                                    sender.complete(null);
                                } catch (Throwable t) {
                                    sender.completeExceptionally(t);
                                }
                            });
            for (byte[] bytes : sent) {
                try (Message message = channel.receive(LONG)) {
                    assertThat(message.data().toArray(ValueLayout.JAVA_BYTE)).isEqualTo(bytes);
                }
            }
            sender.get(60, TimeUnit.SECONDS);
            assertThat(channel.isOpen()).isTrue();
            assertThat(server.channelCount()).isOne();
        }
    }

    /** From registered memory, and longer than the device sends at once. */
    @Test
    void largeMessagesComeBackInOrder() throws Exception {
        int most = 9 << 20;
        MessagingOptions options = MessagingOptions.DEFAULTS.withMaxMessage(most);
        Random random = new Random(8);
        try (Sides sides = new Sides();
                Poller clientPoller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server = sides.listen(options, 1, ECHO, channel -> {});
                MessageChannel channel =
                        MessageChannel.connect(clientPoller, server.localAddress(), options, null);
                MemoryRegion region = clientPoller.domain().allocate(most, Access.LOCAL_WRITE)) {
            byte[] all = new byte[most];
            random.nextBytes(all);
            region.memory().copyFrom(MemorySegment.ofArray(all));
            for (int length : new int[] {4065, 100, 1_000_000, most, 65_536, 8 << 20}) {
                BufferList halves =
                        new BufferList(2)
                                .add(region, 0, length / 2)
                                .add(region, length / 2, length - length / 2);
                CompletableFuture<Void> sent = channel.sendAsync(halves);
                try (Message message = channel.receive(LONG)) {
                    assertThat(message.data().mismatch(region.memory().asSlice(0, length)))
                            .as("%d bytes", length)
                            .isEqualTo(-1);
                }
                sent.get(60, TimeUnit.SECONDS);
            }
            assertThat(channel.isOpen()).isTrue();
        }
    }

    /** The longest message that there can be, in the whole trust suite; otherwise a shorter one. */
    @Test
    @Tag("trust")
    @Timeout(1800)
    void theLongestMessageArrives() throws Exception {
        int length = Trust.size(16 << 20, 1 << 30);
        MessagingOptions options = MessagingOptions.DEFAULTS.withMaxMessage(length);
        CompletableFuture<MessageChannel> accepted = new CompletableFuture<>();
        Trust.Row row = Trust.row("a message of %,d MiB, devices".formatted(length >> 20));
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server = sides.listen(options, 1, null, accepted::complete);
                MessageChannel channel =
                        MessageChannel.connect(poller, server.localAddress(), options, null);
                MemoryRegion region = poller.domain().allocate(length, Access.LOCAL_WRITE)) {
            for (long at = 0; at < length; at += Long.BYTES) {
                region.memory().set(ValueLayout.JAVA_LONG, at, at * 0x9E3779B97F4A7C15L);
            }
            CompletableFuture<Void> sent = channel.sendAsync(Pair.whole(region));
            MessageChannel there = accepted.get(60, TimeUnit.SECONDS);
            try (Message message = there.receive(Duration.ofMinutes(20))) {
                boolean same = message.data().mismatch(region.memory()) == -1;
                row.messages(1).losses(same ? 0 : 1).write();
                assertThat(same).as("its bytes are those that were sent").isTrue();
            }
            sent.get(60, TimeUnit.SECONDS);
        }
    }

    @Test
    void aPollerOfThisThreadSendsAndReceives() throws Exception {
        try (Sides sides = new Sides();
                MessageServer server =
                        sides.listen(MessagingOptions.DEFAULTS, 2, ECHO, channel -> {});
                Poller poller = Poller.onThisThread(sides.here, IdleStrategy.events());
                MessageChannel channel =
                        MessageChannel.connect(
                                poller, server.localAddress(), MessagingOptions.DEFAULTS, null)) {
            for (int i = 0; i < 100; i++) {
                channel.send(MemorySegment.ofArray(new byte[] {(byte) i}), LONG);
                try (Message message = channel.receive(LONG)) {
                    assertThat(message.buffer().get(ValueLayout.JAVA_BYTE, 0)).isEqualTo((byte) i);
                }
            }
        }
    }

    @Test
    void eitherEndLearnsWhyTheChannelHasEnded() throws Exception {
        CompletableFuture<MessageChannel> accepted = new CompletableFuture<>();
        try (Sides sides = new Sides();
                Poller clientPoller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server =
                        sides.listen(MessagingOptions.DEFAULTS, 1, null, accepted::complete)) {
            MessageChannel channel =
                    MessageChannel.connect(
                            clientPoller, server.localAddress(), MessagingOptions.DEFAULTS, null);
            MessageChannel other = accepted.get(60, TimeUnit.SECONDS);
            assertThatThrownBy(
                            () ->
                                    MessageChannel.connect(
                                            clientPoller,
                                            server.localAddress(),
                                            MessagingOptions.DEFAULTS,
                                            null))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("refused the channel: its limit of 1 channel is reached");
            channel.send(MemorySegment.ofArray(new byte[] {42}), LONG);
            channel.close();
            assertThat(channel.closeReason().status()).isEqualTo(Status.CANCELLED);
            assertThat(other.closed().get(60, TimeUnit.SECONDS))
                    .isEqualTo(Status.CONNECTION_INVALID);
            try (Message message = other.receive(LONG)) { // had come before the end
                assertThat(message.data().toArray(ValueLayout.JAVA_BYTE)).containsExactly(42);
            }
            assertThatThrownBy(() -> other.receive(LONG))
                    .isInstanceOf(MessagingException.class)
                    .hasMessageContaining("the peer closed it");
            Deadline deadline = Deadline.of("word to the server that its channel has ended");
            while (server.channelCount() > 0) {
                deadline.check();
            }
            assertThat(server.stop(LONG)).isTrue();
        }
    }

    @Test
    void aPeerThatIsNoChannelIsRefused() throws Exception {
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events());
                Listener listener =
                        sides.there.listen(
                                Sides.anyPort(sides.there),
                                0,
                                request -> {
                                    try (request) {
                                        request.reject(new byte[0]);
                                    }
                                })) {
            assertThatThrownBy(
                            () ->
                                    MessageChannel.connect(
                                            poller,
                                            listener.localAddress(),
                                            MessagingOptions.DEFAULTS,
                                            null))
                    .hasMessageContaining("refused the connection");
            assertThat(poller.counters().channels()).isZero();
        }
    }

    /** A client with a handler and a callback: sending, polling, and receiving the answer. */
    @Test
    void messagesWithCallbacksAllocateNothing() {
        int[] answers = {0};
        int[] ended = {0};
        try (Sides sides = new Sides();
                MessageServer server =
                        sides.listen(MessagingOptions.DEFAULTS, 2, ECHO, channel -> {});
                Poller poller = Poller.onThisThread(sides.here, IdleStrategy.busySpin());
                MessageChannel channel =
                        MessageChannel.connect(
                                poller,
                                server.localAddress(),
                                MessagingOptions.DEFAULTS,
                                (of, message) -> answers[0] += message.length());
                Arena arena = Arena.ofConfined()) {
            SendCallback callback = (of, attachment, status) -> ended[0]++;
            MemorySegment data = arena.allocate(1);
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 200 && least > 0; round++) { // until all is compiled
                long before = THREADS.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < 20; i++) {
                    int wanted = answers[0] + 1;
                    while (!channel.trySend(data, 0, 1, callback, null).isSuccess()) {
                        poller.poll();
                    }
                    while (answers[0] < wanted) {
                        poller.poll();
                    }
                }
                least = Math.min(least, THREADS.getCurrentThreadAllocatedBytes() - before);
            }
            assertThat(least).as("bytes for 20 messages and their answers").isZero();
            assertThat(ended[0]).isPositive();
        }
    }
}
