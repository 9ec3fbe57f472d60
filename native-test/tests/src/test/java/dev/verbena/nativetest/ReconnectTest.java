package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.verbena.Status;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageClient;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingException;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.ReconnectOptions;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** Clients whose server dies, hangs, refuses, or is gone for good. */
@NeedsDevices
@Timeout(120)
class ReconnectTest {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final ReconnectOptions SOON =
            ReconnectOptions.DEFAULTS.withPauses(Duration.ofMillis(20), Duration.ofMillis(200));

    private static void echo(MessageChannel channel, int number) throws InterruptedException {
        channel.send(MemorySegment.ofArray(new byte[] {(byte) number}), LONG);
        try (Message message = channel.receive(LONG)) {
            assertThat(message).isNotNull();
            assertThat(message.data().toArray(ValueLayout.JAVA_BYTE)).containsExactly(number);
        }
    }

    private static MessageClient client(
            Poller poller, InetSocketAddress server, MessagingOptions options) {
        return MessageClient.start(poller, server, options, SOON, null, channel -> {});
    }

    @Test
    void aServerThatIsKilledAndStartedAgainIsFound() throws Exception {
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events())) {
            String host = Sides.anyPort(sides.there).getAddress().getHostAddress();
            InetSocketAddress address;
            MessageChannel first;
            MessageClient client;
            try (ChildProgram server = ChildProgram.start(EchoProgram.class, host, "0")) {
                address = new InetSocketAddress(host, Integer.parseInt(server.line()));
                client = client(poller, address, MessagingOptions.DEFAULTS);
                first = client.channel(LONG);
                echo(first, 1);
                server.kill();
                assertThat(first.closed().get(60, TimeUnit.SECONDS))
                        .isIn(Status.CONNECTION_ABORTED, Status.IO_TIMEOUT);
                assertThatThrownBy(() -> first.send(MemorySegment.ofArray(new byte[1]), LONG))
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining("is closed");
            }
            try (client;
                    ChildProgram server =
                            ChildProgram.start(EchoProgram.class, host, "" + address.getPort())) {
                assertThat(server.line()).isEqualTo("" + address.getPort());
                MessageChannel second = client.channel(LONG);
                assertThat(second).isNotSameAs(first);
                echo(second, 2);
                assertThat(client.closeReason()).isNull();
            }
        }
    }

    /** The kernel of a stopped process acknowledges what comes; only its program can answer. */
    @Test
    void aServerThatHangsIsNoticedInTime() throws Exception {
        MessagingOptions options =
                MessagingOptions.DEFAULTS
                        .withKeepAlive(Duration.ofSeconds(1))
                        .withTimeout(Duration.ofSeconds(4));
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events())) {
            String host = Sides.anyPort(sides.there).getAddress().getHostAddress();
            try (ChildProgram server = ChildProgram.start(EchoProgram.class, host, "0")) {
                InetSocketAddress address =
                        new InetSocketAddress(host, Integer.parseInt(server.line()));
                try (MessageClient client = client(poller, address, options)) {
                    MessageChannel first = client.channel(LONG);
                    echo(first, 1);
                    Thread.sleep(6500); // idle for more than the whole time: it answers
                    assertThat(first.isOpen()).isTrue();
                    server.suspend();
                    long start = System.nanoTime();
                    assertThat(first.closed().get(60, TimeUnit.SECONDS))
                            .isEqualTo(Status.IO_TIMEOUT);
                    assertThat(Duration.ofNanos(System.nanoTime() - start))
                            .as("keep-alive and timeout, and what an emulated machine needs")
                            .isLessThan(Duration.ofSeconds(12)); // by default it takes 15
                    server.resume();
                    echo(client.channel(LONG), 2);
                }
            }
        }
    }

    @Test
    @SuppressWarnings("try") // one is closed early, too, to make room
    void aServerThatRefusesForAWhileIsAskedAgain() throws Exception {
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events());
                MessageServer server =
                        sides.listen(
                                MessagingOptions.DEFAULTS, 1, EchoProgram.ECHO, channel -> {});
                MessageClient one =
                        client(poller, server.localAddress(), MessagingOptions.DEFAULTS)) {
            echo(one.channel(LONG), 1);
            try (MessageClient two =
                    client(poller, server.localAddress(), MessagingOptions.DEFAULTS)) {
                while (two.attempts() < 3) {
                    Thread.sleep(10); // an attempt that fails has no event
                }
                assertThat(two.lastFailure())
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining(
                                "refused the channel: its limit of 1 channel is reached");
                one.close();
                echo(two.channel(LONG), 2);
            }
        }
    }

    @Test
    void aServerThatIsGoneForGoodEndsTheClient() throws Exception {
        try (Sides sides = new Sides();
                Poller poller = Poller.start(sides.here, IdleStrategy.events())) {
            MessageServer server =
                    sides.listen(MessagingOptions.DEFAULTS, 1, EchoProgram.ECHO, channel -> {});
            try (MessageClient client =
                    MessageClient.start(
                            poller,
                            server.localAddress(),
                            MessagingOptions.DEFAULTS,
                            SOON.withAttempts(3),
                            null,
                            channel -> {})) {
                echo(client.channel(LONG), 1);
                server.close();
                assertThat(client.closed().get(60, TimeUnit.SECONDS))
                        .isEqualTo(Status.CONNECTION_REFUSED);
                assertThatThrownBy(() -> client.channel(LONG))
                        .isInstanceOf(MessagingException.class)
                        .hasMessageContaining("has given up after 3 attempts");
            }
        }
    }
}
