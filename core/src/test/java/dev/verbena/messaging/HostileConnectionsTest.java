package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.ConnectionOptions;
import dev.verbena.Until;
import dev.verbena.internal.connect.Announcement;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.Arrays;
import java.util.Random;

/** Connection requests that do not become channels cost a server a bounded amount. */
@Tag("trust")
@Timeout(300)
class HostileConnectionsTest {
    private static final int PORT = 7471;
    private static final int MOST = 4;
    private static final int SHARED = 1; // queue of receives, which the poller keeps
    private static final int MOST_THREADS = 20; // of the listener's handlers, and the JVM's own
    private static final MessagingOptions SMALL =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(1000)
                    .withReceives(4)
                    .withConnection(ConnectionOptions.DEFAULTS.withDeadline(Duration.ofSeconds(3)));
    private static final byte[] HONEST =
            new Announcement(true, true, 1, 1, new Handshake(1000, 4, 4, 4, 500, true).toBytes())
                    .bytes();

    private final long seed = Trust.seed();
    private final Random random = new Random(seed);

    private static void serves(Poller poller) throws Exception {
        try (MessageChannel good = MessageChannel.connect(poller, port(PORT), SMALL, null)) {
            good.send(MemorySegment.ofArray(new byte[8]), Duration.ofSeconds(30));
            good.receive(Duration.ofSeconds(30)).close();
        }
    }

    private static void echo(MessageChannel channel, Message message) {
        message.retain();
        var _ =
                channel.sendAsync(message.data())
                        .whenComplete((nothing, thrown) -> message.release());
    }

    /** Random, or the beginning of a right one with one wrong byte. */
    private byte[] privateData(int bytes) {
        byte[] data = new byte[bytes];
        random.nextBytes(data);
        if (random.nextBoolean()) {
            byte[] wrong = HONEST.clone();
            wrong[random.nextInt(4) + Announcement.BYTES] ^= 1; // of the magic number
            System.arraycopy(wrong, 0, data, 0, Math.min(bytes, wrong.length));
        }
        return data;
    }

    @Test
    void privateDataOfEveryLengthIsRefused() throws Exception {
        Trust.Row row = Trust.row("Private data of every length").inputs(1024).seed(seed);
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                port(PORT),
                                SMALL,
                                MOST,
                                HostileConnectionsTest::echo,
                                channel -> {})) {
            serves(poller);
            Until.holds(() -> server.channelCount() == 0);
            int before = fabric.network.identifiers();
            for (int bytes = 0; bytes < 256; bytes++) {
                for (int i = 0; i < 4; i++) {
                    fabric.network.request(port(PORT), privateData(bytes), random.nextInt(256));
                }
                Until.holds(() -> fabric.network.identifiers() == before);
            }
            assertThat(server.channelCount()).isZero();
            serves(poller);
            row.losses(0).write();
        }
    }

    /**
     * All at once, from peers that never finish a connection. The server accepts as many as its
     * limit allows, which time out, and refuses the others.
     */
    @Test
    void tenThousandRequestsTakeNoMoreThanTheLimit() throws Exception {
        int requests = 10_000;
        Trust.Row row = Trust.row("Connection requests above the limit").requests(requests);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        try (FakeFabric fabric = new FakeFabric();
                Poller poller = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                poller,
                                port(PORT),
                                SMALL,
                                MOST,
                                HostileConnectionsTest::echo,
                                channel -> {})) {
            serves(poller);
            Until.holds(() -> server.channelCount() == 0 && fabric.device.queues() == SHARED);
            int objects = fabric.device.objects();
            int identifiers = fabric.network.identifiers();
            threads.resetPeakThreadCount();
            int before = threads.getThreadCount();
            int mostObjects = 0;
            for (int i = 0; i < requests; i++) {
                fabric.network.request(port(PORT), Arrays.copyOf(HONEST, 56), 1);
                mostObjects = Math.max(mostObjects, fabric.device.objects());
                assertThat(server.channelCount()).isBetween(0, MOST);
            }
            Until.holds(() -> !fabric.network.hasEvents());
            assertThat(threads.getPeakThreadCount() - before).isLessThan(MOST_THREADS);
            assertThat(mostObjects - objects).as("native objects").isLessThan(20 * MOST);
            Until.holds(() -> server.channelCount() == 0); // those that were accepted time out
            Until.holds(() -> fabric.device.queues() == SHARED);
            Until.holds(() -> fabric.network.identifiers() == identifiers);
            serves(poller);
            row.losses(0).leaks(0).write();
        }
    }
}
