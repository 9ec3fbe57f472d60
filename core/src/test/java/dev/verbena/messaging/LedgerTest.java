package dev.verbena.messaging;

import static dev.verbena.messaging.FakeFabric.port;

import static org.assertj.core.api.Assertions.assertThat;

import dev.verbena.Status;
import dev.verbena.Until;
import dev.verbena.trust.Trust;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Messages of random lengths, sent in each way there is, with and without deadlines, while channels
 * are closed, fail and hang at either end and clients connect again. Every message is accounted
 * for: none is lost, none comes twice, out of order, or to the wrong channel.
 *
 * <p>-Dverbena.ledger.messages=1000000 -Dverbena.trust.seed=… for another number and choice. The
 * seed decides what each client does; how threads take turns is the machine's.
 */
@Tag("trust")
@Timeout(7200)
class LedgerTest {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int PORT = 7471;
    private static final int CLIENTS = 4;
    private static final int MOST_BYTES = 1000;
    private static final MessagingOptions OPTIONS =
            MessagingOptions.DEFAULTS
                    .withMaxMessage(MOST_BYTES)
                    .withEagerLimit(MOST_BYTES / 2) // the others are large ones
                    .withOutstanding(8)
                    .withReceives(8)
                    .withTimeout(Duration.ofSeconds(3))
                    .withKeepAlive(Duration.ofSeconds(2));

    // Of a message: client, life and number of the message; then bytes that depend on all three.
    private static final int HEADER_BYTES = 12;

    private final int total =
            Integer.getInteger("verbena.ledger.messages", Trust.size(50_000, 10_000_000));
    private final long seed = Trust.seed();
    private final Trust.Row row = Trust.row("messages, fake device").seed(seed);
    private final AtomicInteger misfortunes = new AtomicInteger();
    private final List<String> wrong = Collections.synchronizedList(new ArrayList<>());
    private final Map<MessageChannel, Life> serverSides = new ConcurrentHashMap<>();
    private final Map<MessageChannel, Life> clientSides = new ConcurrentHashMap<>();
    private final Map<Long, Life> lives = new ConcurrentHashMap<>();
    private final AtomicLong answers = new AtomicLong();

    /** What became of a message. */
    private enum End {
        REFUSED,
        ACCEPTED,
        SUCCEEDED,
        FAILED
    }

    /** One channel of a client, from its connection to its end. */
    private final class Life {
        final int client;
        final int number;
        final MessageChannel channel;
        final List<End> ends = new ArrayList<>(); // by number; guarded by this
        final List<Boolean> arrived = new ArrayList<>();
        int last = -1; // that arrived
        int lastAnswer = -1;
        volatile boolean serverEndedFirst;

        Life(int client, int number, MessageChannel channel) {
            this.client = client;
            this.number = number;
            this.channel = channel;
        }

        synchronized int next() {
            ends.add(End.ACCEPTED);
            arrived.add(false);
            return ends.size() - 1;
        }

        synchronized void ended(int message, End end) {
            if (ends.get(message) != End.ACCEPTED) {
                complain("%s ended twice: %s, %s", name(message), ends.get(message), end);
            }
            ends.set(message, end);
        }

        synchronized void arrived(int message) {
            if (message <= last) {
                complain("%s came after %d", name(message), last);
            }
            last = message;
            arrived.set(message, true);
        }

        synchronized void answered(int message) {
            if (message <= lastAnswer || !arrived.get(message)) {
                complain("answer to %s came after %d", name(message), lastAnswer);
            }
            lastAnswer = message;
        }

        /** Looks through it when it has ended. Returns how many messages arrived. */
        synchronized int settle() {
            int count = 0;
            for (int i = 0; i < ends.size(); i++) {
                End end = ends.get(i);
                boolean here = arrived.get(i);
                count += here ? 1 : 0;
                if (end == End.REFUSED && here) {
                    complain("%s was refused, and arrived", name(i));
                }
                // A server that ends takes what it has not handled with it.
                if (end == End.SUCCEEDED && !here && !(serverEndedFirst && i > last)) {
                    complain(
                            "%s was acknowledged, and lost; %d was the last; here %s; there %s",
                            name(i), last, channel.closeReason(), serverReason());
                }
            }
            return count;
        }

        private List<MessagingException> serverReason() {
            return serverSides.entrySet().stream()
                    .filter(entry -> entry.getValue() == this)
                    .map(entry -> entry.getKey().closeReason())
                    .toList();
        }

        String name(int message) {
            return "message %d of client %d, channel %d".formatted(message, client, number);
        }
    }

    private void complain(String what, Object... arguments) {
        wrong.add(what.formatted(arguments));
    }

    private static long key(int client, int number) {
        return (long) client << 32 | number;
    }

    // ---- messages

    private static MemorySegment message(Life life, int number, int length) {
        byte[] bytes = new byte[length];
        MemorySegment data = MemorySegment.ofArray(bytes);
        Arrays.fill(bytes, HEADER_BYTES, length, (byte) (life.client + life.number + number));
        data.set(ValueLayout.JAVA_INT_UNALIGNED, 0, life.client);
        data.set(ValueLayout.JAVA_INT_UNALIGNED, 4, life.number);
        data.set(ValueLayout.JAVA_INT_UNALIGNED, 8, number);
        return data;
    }

    /** The life that a message names; complains about one that is not as it was sent. */
    private Life lifeOf(Message message) {
        MemorySegment data = message.data();
        int client = data.get(ValueLayout.JAVA_INT_UNALIGNED, 0);
        int number = data.get(ValueLayout.JAVA_INT_UNALIGNED, 4);
        int sent = numberOf(message);
        for (long i = HEADER_BYTES; i < data.byteSize(); i++) {
            if (data.get(ValueLayout.JAVA_BYTE, i) != (byte) (client + number + sent)) {
                complain("byte %d of %d of client %d is wrong", i, sent, client);
                break;
            }
        }
        return lives.get(key(client, number));
    }

    private static int numberOf(Message message) {
        return message.data().get(ValueLayout.JAVA_INT_UNALIGNED, 8);
    }

    /** The server's handler: notes the message, and answers each seventh. */
    private void received(MessageChannel channel, Message message) {
        Life life = lifeOf(message);
        Life known = serverSides.putIfAbsent(channel, life);
        if (known != null && known != life) {
            complain("%s came to channel %d", life.name(numberOf(message)), known.number);
        }
        life.arrived(numberOf(message));
        if (numberOf(message) % 7 == 0) {
            message.retain();
            var _ =
                    channel.sendAsync(message.data())
                            .whenComplete((nothing, thrown) -> message.release());
        }
    }

    /** The client's handler. */
    private void answered(MessageChannel channel, Message message) {
        Life life = lifeOf(message);
        if (life.channel != channel) {
            complain("the answer to %s came elsewhere", life.name(numberOf(message)));
        }
        life.answered(numberOf(message));
        answers.incrementAndGet();
    }

    // ---- clients

    /** Sends so many messages; a send that was refused is one of them. */
    private void run(MessageClient client, int index, int count, FakeFabric fabric)
            throws InterruptedException {
        Random random = new Random(seed + index);
        for (int i = 0; i < count; i++) {
            MessageChannel channel = client.channel(LONG);
            Life life = clientSides.get(channel); // the callback, which puts it there, comes first
            int number = life.next();
            MemorySegment data =
                    message(life, number, HEADER_BYTES + random.nextInt(MOST_BYTES - HEADER_BYTES));
            switch (random.nextInt(10)) {
                case 0, 1 -> sendAsync(life, number, data);
                case 2 -> send(life, number, data, Duration.ofNanos(random.nextInt(300_000)));
                case 3 -> send(life, number, data, LONG);
                default -> trySend(life, number, data);
            }
            if (random.nextInt(400) == 0) {
                misfortune(life, random, fabric);
            }
        }
    }

    private static void trySend(Life life, int number, MemorySegment data) {
        SendCallback callback =
                (channel, attachment, status) ->
                        life.ended(
                                (Integer) attachment,
                                status.isSuccess() ? End.SUCCEEDED : End.FAILED);
        Status status = life.channel.trySend(data, 0, data.byteSize(), callback, number);
        if (!status.isSuccess()) {
            life.ended(number, End.REFUSED);
            Thread.yield();
        }
    }

    private static void sendAsync(Life life, int number, MemorySegment data) {
        var _ =
                life.channel
                        .sendAsync(data)
                        .whenComplete(
                                (nothing, thrown) ->
                                        life.ended(
                                                number,
                                                thrown == null ? End.SUCCEEDED : End.FAILED));
    }

    private static void send(Life life, int number, MemorySegment data, Duration timeout)
            throws InterruptedException {
        try {
            life.channel.send(data, timeout); // what becomes of it then, nobody says
        } catch (MessagingException e) {
            life.ended(number, End.REFUSED);
        }
    }

    private void misfortune(Life life, Random random, FakeFabric fabric)
            throws InterruptedException {
        misfortunes.incrementAndGet();
        switch (random.nextInt(8)) {
            case 0, 1, 2 -> life.channel.close();
            case 3 -> life.channel.fail(Status.INTERNAL_ERROR, "of a test", null);
            case 4, 5 -> serverSide(life, true);
            case 6 -> serverSide(life, false);
            default -> {
                fabric.stall(true); // for everybody
                Thread.sleep(random.nextInt(20));
                fabric.stall(false);
            }
        }
    }

    private void serverSide(Life life, boolean inGoodOrder) {
        serverSides.forEach(
                (channel, of) -> {
                    if (of == life && channel.isOpen()) {
                        life.serverEndedFirst = true;
                        if (inGoodOrder) {
                            channel.close();
                        } else {
                            channel.fail(Status.INTERNAL_ERROR, "of a test", null);
                        }
                    }
                });
    }

    @Test
    void everyMessageIsAccountedFor() throws Exception {
        System.out.printf("Ledger: %,d messages, seed %d%n", total, seed);
        List<CompletableFuture<Void>> running = new ArrayList<>();
        List<MessageClient> clients = new ArrayList<>();
        long start = System.nanoTime();
        try (FakeFabric fabric = new FakeFabric();
                Poller far = Poller.start(fabric.adapter, IdleStrategy.events());
                Poller near = Poller.start(fabric.adapter, IdleStrategy.events());
                MessageServer server =
                        MessageServer.listen(
                                far, port(PORT), OPTIONS, 1000, this::received, channel -> {})) {
            for (int i = 0; i < CLIENTS; i++) {
                int index = i;
                AtomicInteger numbers = new AtomicInteger();
                MessageClient client =
                        MessageClient.start(
                                near,
                                port(PORT),
                                OPTIONS,
                                ReconnectOptions.DEFAULTS.withPauses(
                                        Duration.ofMillis(1), Duration.ofMillis(4)),
                                this::answered,
                                channel -> {
                                    int number = numbers.getAndIncrement();
                                    Life life = new Life(index, number, channel);
                                    lives.put(key(index, number), life);
                                    clientSides.put(channel, life);
                                });
                clients.add(client);
                CompletableFuture<Void> done = new CompletableFuture<>();
                running.add(done);
                Thread.ofVirtual()
                        .start(
                                () -> {
                                    try {
                                        run(client, index, total / CLIENTS, fabric);
                                        done.complete(null);
                                    } catch (Throwable t) {
                                        done.completeExceptionally(t);
                                    }
                                });
            }
            for (CompletableFuture<Void> one : running) {
                one.get(2, TimeUnit.HOURS);
            }
            clients.forEach(MessageClient::close);
            Until.holds(() -> server.channelCount() == 0);
        }
        settle(Duration.ofNanos(System.nanoTime() - start));
    }

    private void settle(Duration took) {
        int arrived = 0;
        int[] counts = new int[End.values().length];
        for (Life life : lives.values()) {
            arrived += life.settle();
            life.ends.forEach(end -> counts[end.ordinal()]++);
        }
        System.out.printf(
                "Ledger: %,d channels, %,d arrived, %,d answered; %s; %s%n",
                lives.size(),
                arrived,
                answers.get(),
                Arrays.stream(End.values())
                        .map(end -> "%s %,d".formatted(end, counts[end.ordinal()]))
                        .toList(),
                took);
        row.messages(total).faults(misfortunes.get()).losses(wrong.size()).write();
        assertThat(wrong).as("seed %d", seed).isEmpty();
        assertThat(Arrays.stream(counts).sum()).isEqualTo(total / CLIENTS * CLIENTS);
        int accepted = total - counts[End.REFUSED.ordinal()];
        assertThat(arrived).as("most that are accepted arrive").isGreaterThan(2 * accepted / 3);
        assertThat(lives.size()).as("channels end and are followed").isGreaterThan(CLIENTS);
    }
}
