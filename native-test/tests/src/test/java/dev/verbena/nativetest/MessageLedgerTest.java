package dev.verbena.nativetest;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Adapter;
import dev.verbena.Status;
import dev.verbena.messaging.IdleStrategy;
import dev.verbena.messaging.Message;
import dev.verbena.messaging.MessageChannel;
import dev.verbena.messaging.MessageClient;
import dev.verbena.messaging.MessageServer;
import dev.verbena.messaging.MessagingOptions;
import dev.verbena.messaging.Poller;
import dev.verbena.messaging.ReconnectOptions;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Messages of random lengths over channels that either end closes in the middle, and that are
 * followed by new ones: each is accounted for. {@code LedgerTest} of core does more of that,
 * without a device.
 */
@NeedsDevices
@Tag("trust")
@Timeout(3600)
class MessageLedgerTest {
    private static final int MESSAGES =
            Integer.getInteger("verbena.ledger.messages", Trust.size(4000, 200_000));
    private static final int HEADER_BYTES = 8; // the number of the channel, that of the message

    private final long seed = Trust.seed();
    private final Trust.Row row = Trust.row("messages, devices").seed(seed);
    private final List<Life> lives = new CopyOnWriteArrayList<>();
    private final Map<MessageChannel, Life> serverSides = new ConcurrentHashMap<>();
    private final List<String> wrong = new CopyOnWriteArrayList<>();

    /** One channel, from its connection to its end. */
    private static final class Life {
        final MessageChannel channel;
        final List<Integer> arrived = new ArrayList<>(); // by the server's poller
        final List<Status> ends = new ArrayList<>(); // null until a message has ended
        boolean serverClosed;

        Life(MessageChannel channel) {
            this.channel = channel;
        }
    }

    private void received(MessageChannel channel, Message message) {
        MemorySegment data = message.data();
        Life life = lives.get(data.get(ValueLayout.JAVA_INT_UNALIGNED, 0));
        int number = data.get(ValueLayout.JAVA_INT_UNALIGNED, 4);
        for (long i = HEADER_BYTES; i < data.byteSize(); i++) {
            if (data.get(ValueLayout.JAVA_BYTE, i) != (byte) number) {
                wrong.add("byte %d of message %d".formatted(i, number));
                break;
            }
        }
        Life known = serverSides.putIfAbsent(channel, life);
        if (known != null && known != life) {
            wrong.add("message %d came to the wrong channel".formatted(number));
        }
        if (!life.arrived.isEmpty() && life.arrived.getLast() >= number) {
            wrong.add("message %d came after %d".formatted(number, life.arrived.getLast()));
        }
        life.arrived.add(number);
    }

    private void send(Life life, Random random) {
        int number = life.ends.size();
        byte[] bytes = new byte[HEADER_BYTES + random.nextInt(4000)];
        java.util.Arrays.fill(bytes, (byte) number);
        MemorySegment data = MemorySegment.ofArray(bytes);
        data.set(ValueLayout.JAVA_INT_UNALIGNED, 0, lives.indexOf(life));
        data.set(ValueLayout.JAVA_INT_UNALIGNED, 4, number);
        Status status;
        synchronized (life) {
            life.ends.add(null);
        }
        do {
            status =
                    life.channel.trySend(
                            data,
                            0,
                            bytes.length,
                            (of, attachment, end) -> {
                                synchronized (life) {
                                    if (life.ends.set(number, end) != null) {
                                        wrong.add("message %d ended twice".formatted(number));
                                    }
                                }
                            },
                            null);
        } while (status == Status.NO_MORE_ENTRIES && life.channel.isOpen());
        if (!status.isSuccess()) {
            synchronized (life) {
                life.ends.set(number, status); // refused
            }
        }
    }

    /** Mostly the last; it may have ended since, and the next one begun. */
    private Life lifeOf(MessageChannel channel) {
        return lives.reversed().stream()
                .filter(life -> life.channel.equals(channel))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void everyMessageIsAccountedFor() throws Exception {
        Random random = new Random(seed);
        List<String> active = RdmaDevices.active();
        try (Adapter there = Adapter.open(active.getFirst());
                Adapter here = Adapter.open(active.getLast());
                Poller far = Poller.start(there, IdleStrategy.events());
                Poller near = Poller.start(here, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                far,
                                new InetSocketAddress(there.gid().gid().gid().toInetAddress(), 0),
                                MessagingOptions.DEFAULTS,
                                9,
                                this::received,
                                channel -> {})) {
            try (MessageClient client =
                    MessageClient.start(
                            near,
                            server.localAddress(),
                            MessagingOptions.DEFAULTS,
                            ReconnectOptions.DEFAULTS.withPauses(
                                    Duration.ofMillis(1), Duration.ofMillis(10)),
                            null,
                            channel -> lives.add(new Life(channel)))) {
                for (int i = 0; i < MESSAGES; i++) {
                    MessageChannel channel = client.channel(Duration.ofSeconds(60));
                    Life life = lifeOf(channel);
                    send(life, random);
                    switch (random.nextInt(800)) {
                        case 0 -> channel.close();
                        case 1 ->
                                serverSides.forEach(
                                        (side, of) -> {
                                            if (of == life) {
                                                life.serverClosed = true;
                                                side.close();
                                            }
                                        });
                        default -> {}
                    }
                }
            }
            while (server.channelCount() > 0) {
                Thread.sleep(1); // the server sees the end of the last channel
            }
        }
        lives.forEach(this::settle);
        row.messages(MESSAGES).faults(lives.size() - 1).losses(wrong.size()).write();
        assertThat(wrong).as("seed %d", seed).isEmpty();
        assertThat(lives.stream().mapToInt(life -> life.ends.size()).sum()).isEqualTo(MESSAGES);
    }

    private void settle(Life life) {
        for (int i = 0; i < life.ends.size(); i++) {
            Status end = life.ends.get(i);
            if (end == null) {
                wrong.add("message %d never ended".formatted(i));
            } else if (end.isSuccess() && !life.arrived.contains(i) && !life.serverClosed) {
                wrong.add("message %d was acknowledged, and lost".formatted(i));
            }
        }
    }
}
