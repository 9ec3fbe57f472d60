package dev.verbena.messaging;

import dev.verbena.Connector;
import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Some clients and a server with random options, from their start to their end. They send messages
 * of random lengths, most of them near a limit, in each way there is, and expose memory to each
 * other, while channels are closed and fail at either end, and clients connect again.
 */
final class MessageEra extends Era {
    static final Duration LONG = Duration.ofSeconds(60);
    private static final long BYTES = 32 << 20; // of all messages, if they are not longer
    private static final int LEAST_MAXIMUM = 64;
    private static final int GREETING_BYTES = 8;
    private static final int DISTURBED_EVERY = 300; // messages

    private final int budget; // messages
    private final boolean huge; // messages, but few
    private final int longest;
    private final MessagingOptions ofServer;
    private final MessagingOptions ofClients;
    private final boolean receives; // clients have no handler, but threads
    private final boolean exposes;
    private final int clients;
    private final List<Life> lives = new CopyOnWriteArrayList<>();
    private final Map<MessageChannel, MessageSide> sides = new ConcurrentHashMap<>();
    private final Map<InetSocketAddress, MessageChannel> accepted = new ConcurrentHashMap<>();
    private final AtomicLong bytesLeft;
    private final AtomicInteger operations = new AtomicInteger(); // of the server on exposed memory
    private final AtomicInteger threads = new AtomicInteger(); // that receive
    private final Queue<Exposed> exposed = new ConcurrentLinkedQueue<>();
    private volatile boolean farCloses; // the server's poller

    MessageEra(MessageLedger.Place place, long seed, int mostMessages, int longest) {
        super(place, seed);
        this.clients = 1 + random.nextInt(3);
        huge = random.nextInt(4) == 0;
        this.longest = huge ? longest : Math.min(longest, 1 << 10 + random.nextInt(11));
        this.budget = huge ? 300 : 1 + random.nextInt(mostMessages);
        this.bytesLeft = new AtomicLong(Math.max(BYTES, 3L * this.longest));
        MessagingOptions a;
        MessagingOptions b;
        do {
            a = options();
            b = options();
        } while (Math.min(a.eagerLimit(), b.eagerLimit()) < LEAST_MAXIMUM
                && (a.offers() == 0 || b.offers() == 0)); // only short messages would be sent
        this.ofServer = a;
        this.ofClients = b;
        this.exposes = ofClients.exposures > 0 && ofServer.peerExposures > 0;
        this.receives = random.nextInt(4) == 0;
    }

    @Override
    long memory() {
        return 2L * longest + (64 << 20);
    }

    @Override
    int exposures() {
        return exposed.size();
    }

    // ---- random choices

    private MessagingOptions options() {
        int eager = pick(1, 12, 40, 100, 500, 1000, 4064, 60_000);
        int most = huge ? longest : pick(eager, eager + 1, 2 * eager, 1000, 5000, longest);
        most = Math.max(LEAST_MAXIMUM, Math.min(most, longest));
        long large = (long) pick(0, most, 1 << 16, 16 << 20) + pick(0, 1, most);
        return MessagingOptions.DEFAULTS
                .withMaxMessage(most)
                .withEagerLimit(eager)
                .withLargeMemory(large)
                .withOutstanding(pick(1, 2, 3, 8, 16, 64))
                .withReceives(pick(1, 2, 3, 8, 16))
                .withExposures(pick(0, 1, 4, 16))
                .withPeerExposures(pick(0, 1, 4, 64))
                .withTimeout(Duration.ofSeconds(20))
                .withKeepAlive(Duration.ofMillis(pick(200, 5000)))
                .withTracking(random.nextInt(4) == 0);
    }

    /** Mostly next to a limit of either side. */
    int length(MessageChannel channel, Random by) {
        int most = channel.maxMessage();
        int limit =
                switch (by.nextInt(8)) {
                    case 0 -> ofServer.eagerLimit();
                    case 1 -> ofClients.eagerLimit();
                    case 2 -> most;
                    case 3 -> (int) Math.min(most, ofServer.largeMemory());
                    case 4 -> 1 << by.nextInt(31 - Integer.numberOfLeadingZeros(most) + 1);
                    case 5 -> 1 + by.nextInt(100); // inline or not
                    default -> 1 << by.nextInt(12);
                };
        int length = by.nextInt(3) == 0 ? 1 + by.nextInt(limit) : limit + by.nextInt(3) - 1;
        length = Math.clamp(length, 1, most);
        if (bytesLeft.addAndGet(-length) < 0) {
            length = Math.min(length, 2000);
        }
        return length;
    }

    // ---- channels

    /** One channel, from its connection to its end. */
    final class Life {
        final Flow up;
        final Flow down;
        final MessageSide client;
        final byte[] greeting;
        private final @Nullable InetSocketAddress address; // of the client, as the server sees it
        volatile @Nullable MessageSide server;

        Life(int number, MessageChannel channel) {
            up = flow("client's channel " + number, 2 * seed + 31L * number);
            down = flow("server's channel " + number, ~(2 * seed + 31L * number));
            client = new MessageSide(MessageEra.this, this, channel, up, down, here);
            address = addressOf(channel);
            greeting = new byte[GREETING_BYTES];
            MemorySegment.ofArray(greeting).set(ValueLayout.JAVA_INT_UNALIGNED, 0, number);
        }

        /** Looks through it when both ends have ended. */
        void settle() {
            arrived += up.settle(this::serverMayLose);
            arrived += down.settle(client::mayLose);
        }

        void checkEnd() {
            MessageSide other = server;
            if (other != null) {
                checkEnds(client.ended || other.ended, client.channel, other.channel);
            }
        }

        /** The server's end is known by its first message; until then, by its peer. */
        private boolean serverMayLose() {
            if (server != null) {
                return server.mayLose();
            }
            MessageChannel end = address == null ? null : accepted.get(address);
            return end == null ? farCloses : mayLose(farCloses, end);
        }

        boolean isReported() {
            return up.unreported() == 0 && down.unreported() == 0;
        }
    }

    // ---- memory that clients expose

    private enum Use {
        WRITE_AND_INVALIDATE,
        WRITE,
        READ,
        NONE
    }

    /** One exposure of a client's, and what the server does with it. */
    private final class Exposed {
        final Use use;
        final Slots.Slot slot;
        final long key;
        final int answer; // bytes of the message that takes it back
        private final AtomicInteger ends = new AtomicInteger();
        private volatile @Nullable Exposure exposure;

        Exposed(Use use, Slots.Slot slot, long key, int answer) {
            this.use = use;
            this.slot = slot;
            this.key = key;
            this.answer = answer;
            Flow.fill(slot.memory, key, 0);
            exposed.add(this);
        }

        void ended(Status status, @Nullable Message message) {
            if (ends.incrementAndGet() != 1) {
                complain("exposure %d ended %d times".formatted(key, ends.get()));
            }
            if (status.isSuccess() != (message != null)) {
                complain("exposure %d ended with %s and %s".formatted(key, status, message));
            }
            if (message != null) {
                if (message.length() != answer || Flow.mismatch(message.data(), 0, key, 2) != -1) {
                    complain("the answer to exposure %d is wrong: %s".formatted(key, message));
                }
                int now = use == Use.READ ? 0 : 1;
                long at = Flow.mismatch(slot.memory, 0, key, now);
                if (at != -1) {
                    complain("byte %d of exposure %d is wrong (%s)".formatted(at, key, use));
                }
            }
            slot.memory.fill((byte) 0xDB); // nobody writes it any more
        }

        void settle() {
            if (ends.get() != 1) {
                complain("exposure %d ended %d times: %s".formatted(key, ends.get(), exposure));
            }
            for (long i = 0; i < slot.memory.byteSize(); i++) {
                if (slot.memory.get(ValueLayout.JAVA_BYTE, i) != (byte) 0xDB) {
                    complain("exposure %d was written after its end".formatted(key));
                    break;
                }
            }
            slot.giveBack();
        }
    }

    /** Exposes memory, and sends the peer its key. */
    private void expose(MessageSide side, Random by) throws InterruptedException {
        int bytes = by.nextInt(4) == 0 ? 1 + by.nextInt(1 << 16) : 1 + by.nextInt(500);
        int answer = 1 + by.nextInt(Math.min(100, side.channel.outbox.eagerLimit));
        Slots.Slot slot = here.take(bytes, by);
        if (slot == null) {
            return;
        }
        Use use = Use.values()[by.nextInt(Use.values().length)];
        Exposed one = new Exposed(use, slot, by.nextLong(), answer);
        Duration within = Duration.ofMillis(by.nextInt(4) == 0 ? 1 + by.nextInt(200) : 20_000);
        OpFlags rights =
                one.use == Use.READ ? OpFlags.ALLOW_REMOTE_READ : OpFlags.ALLOW_REMOTE_WRITE;
        Exposure exposure =
                side.channel
                        .ownMemory()
                        .tryExpose(
                                slot.region,
                                slot.offset,
                                bytes,
                                rights,
                                within,
                                (of, status, message) -> one.ended(status, message),
                                null);
        if (exposure == null) {
            exposed.remove(one);
            slot.giveBack();
            return;
        }
        one.exposure = exposure;
        byte[] key = new byte[GREETING_BYTES + RemoteMemory.MESSAGE_BYTES];
        MemorySegment.ofArray(key).set(ValueLayout.JAVA_LONG_UNALIGNED, 0, one.key);
        RemoteMemory memory;
        try {
            memory = exposure.remoteMemory();
        } catch (IllegalStateException e) {
            return; // it has ended already
        }
        memory.writeTo(MemorySegment.ofArray(key), GREETING_BYTES);
        byKey.put(one.key, one);
        side.send(true, key.length, key);
        if (one.use == Use.NONE || by.nextInt(4) == 0) {
            try {
                exposure.revoke();
            } catch (IllegalStateException e) {
                // it has ended, and is used for another one
            }
        }
    }

    private final Map<Long, Exposed> byKey = new ConcurrentHashMap<>();

    /** The server has got a key. */
    private void use(MessageSide server, MemorySegment data) {
        Exposed one = byKey.get(data.get(ValueLayout.JAVA_LONG_UNALIGNED, 0));
        RemoteMemory memory = RemoteMemory.readFrom(data, GREETING_BYTES);
        if (memory.bytes() != one.slot.memory.byteSize()) {
            complain("%s came for exposure %d".formatted(memory, one.key));
            return;
        }
        Slots.Slot slot =
                one.use == Use.NONE ? null : there.take((int) memory.bytes(), server.random);
        if (slot == null) {
            return;
        }
        byte[] bytes = new byte[one.answer];
        MemorySegment answer = MemorySegment.ofArray(bytes);
        Flow.fill(answer, one.key, 2);
        PeerMemory peer = server.channel.peerMemory();
        operations.incrementAndGet();
        switch (one.use) {
            case WRITE_AND_INVALIDATE -> {
                Flow.fill(slot.memory, one.key, 1);
                var _ =
                        peer.writeAndInvalidateAsync(slot.list(1, server.random), memory, answer)
                                .whenComplete((nothing, thrown) -> used(slot, thrown));
            }
            case WRITE -> {
                Flow.fill(slot.memory, one.key, 1);
                var _ =
                        peer.writeAsync(
                                slot.list(1 + server.random.nextInt(3), server.random), memory);
                var _ =
                        peer.sendAndInvalidateAsync(answer, memory)
                                .whenComplete((nothing, thrown) -> used(slot, thrown));
            }
            default ->
                    peer.readAsync(slot.list(1, server.random), memory)
                            .whenComplete(
                                    (nothing, thrown) -> {
                                        if (thrown == null
                                                && place.readsBytes()
                                                && Flow.mismatch(slot.memory, 0, one.key, 0)
                                                        != -1) {
                                            complain(
                                                    "exposure %d was read wrong"
                                                            .formatted(one.key));
                                        }
                                        if (thrown != null) {
                                            used(slot, thrown);
                                            return;
                                        }
                                        var _ =
                                                peer.sendAndInvalidateAsync(answer, memory)
                                                        .whenComplete((none, t) -> used(slot, t));
                                    });
        }
    }

    private void used(Slots.Slot slot, @Nullable Throwable thrown) {
        slot.giveBack();
        operations.decrementAndGet();
        Status status = statusOf(thrown);
        if (status == Status.INTERNAL_ERROR && !(thrown instanceof MessagingException)) {
            complain("use of exposed memory: " + thrown);
        }
    }

    // ---- handlers

    private void received(MessageChannel channel, Message message) {
        MessageSide side = sides.get(channel);
        if (side == null) {
            int number = message.data().get(ValueLayout.JAVA_INT_UNALIGNED, 0);
            Life life = lives.get(number);
            side = new MessageSide(MessageEra.this, life, channel, life.down, life.up, there);
            life.server = side;
            sides.put(channel, side);
            if (farCloses) { // read last, as it is written first
                side.ended = true;
            }
        }
        int length = message.length();
        boolean isKey =
                length == GREETING_BYTES + RemoteMemory.MESSAGE_BYTES
                        && byKey.containsKey(
                                message.data().get(ValueLayout.JAVA_LONG_UNALIGNED, 0));
        if (isKey) {
            byte[] copy = message.data().toArray(ValueLayout.JAVA_BYTE);
            if (side.arrived(message) >= 0) {
                use(side, MemorySegment.ofArray(copy));
            }
        } else {
            side.arrived(message);
        }
        if (side.ofArrivals.nextInt(7) == 0) {
            try {
                side.send(false, length(channel, side.random), null);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private void accepted(MessageChannel channel) {
        accepted.put(channel.connector().orElseThrow().peerAddress(), channel);
    }

    private static @Nullable InetSocketAddress addressOf(MessageChannel client) {
        try {
            return client.connector().map(Connector::localAddress).orElse(null);
        } catch (VerbenaException e) {
            return null; // it has ended already
        }
    }

    private void answered(MessageChannel channel, Message message) {
        sides.get(channel).arrived(message);
    }

    private synchronized Life opened(MessageChannel channel) {
        Life life = new Life(lives.size(), channel);
        sides.put(channel, life.client);
        lives.add(life);
        if (receives) {
            threads.incrementAndGet();
            Thread.startVirtualThread(() -> receive(life.client));
        }
        return life;
    }

    private void receive(MessageSide side) {
        try {
            while (true) {
                Message message = side.channel.receive(LONG);
                if (message != null) {
                    side.in.arrived(message.data());
                    message.release();
                }
            }
        } catch (MessagingException e) {
            // it has ended
        } catch (Throwable thrown) {
            complain("a thread that receives ended with " + thrown);
        } finally {
            threads.decrementAndGet();
        }
    }

    // ---- its course

    @Override
    void course() throws Exception {
        if (place.address == null) {
            runPairs();
        } else {
            runServer();
        }
        await("operations on exposed memory", () -> operations.get() == 0);
        await("messages", () -> lives.stream().allMatch(Life::isReported));
        await("exposures", () -> exposed.stream().allMatch(one -> one.ends.get() > 0));
        await("threads that receive", () -> threads.get() == 0);
        awaitLater();
        lives.forEach(Life::settle);
        exposed.forEach(Exposed::settle);
    }

    private void runServer() throws Exception {
        try (MessageServer server =
                MessageServer.listen(
                        far, place.address, ofServer, 1000, this::received, this::accepted)) {
            List<Consumer<Random>> running = new ArrayList<>();
            List<MessageClient> all = new ArrayList<>();
            for (int i = 0; i < clients; i++) {
                MessageClient client =
                        startClient(
                                server, ofClients, receives ? null : this::answered, this::opened);
                all.add(client);
                running.add(by -> client(() -> sides.get(client.channel(LONG)), by));
            }
            runAll(running);
            lives.forEach(Life::checkEnd);
            switch (random.nextInt(8)) {
                case 0 -> {
                    lives.forEach(life -> pollerCloses(life.client));
                    near.close();
                }
                case 1 -> {
                    farCloses = true;
                    lives.forEach(life -> pollerCloses(life.server));
                    far.close();
                }
                default -> {}
            }
            all.forEach(MessageClient::close);
            await("channels of the server", () -> server.channelCount() == 0);
        }
    }

    private static void pollerCloses(@Nullable MessageSide side) {
        if (side != null && !side.channel.isClosed()) {
            side.ended = true;
        }
    }

    /** Without a connection manager: each side is told of the other's end. */
    private void runPairs() throws Exception {
        List<Consumer<Random>> running = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            Pairs pairs = new Pairs();
            running.add(by -> client(pairs::next, by));
        }
        runAll(running);
        for (Life life : lives) {
            if (life.client.channel.isOpen()) {
                life.client.end();
            }
        }
        await(
                "channels",
                () ->
                        lives.stream()
                                .allMatch(
                                        life ->
                                                life.client.channel.isClosed()
                                                        && life.server.channel.isClosed()));
    }

    private final class Pairs {
        private @Nullable Life current;

        MessageSide next() {
            if (current == null || !current.client.channel.isOpen()) {
                MessageChannel a =
                        new MessageChannel(
                                near, ofClients, receives ? null : MessageEra.this::answered);
                MessageChannel b = new MessageChannel(far, ofServer, MessageEra.this::received);
                Life life = opened(a);
                life.server = new MessageSide(MessageEra.this, life, b, life.down, life.up, there);
                sides.put(b, life.server);
                ChannelsByHand.connect(a, b);
                current = life;
            }
            return current.client;
        }
    }

    @FunctionalInterface
    private interface Line {
        MessageSide next() throws InterruptedException;
    }

    private void client(Line line, Random by) {
        try {
            for (int i = 0; i < budget / clients && wrong().isEmpty(); i++) {
                MessageSide side = line.next();
                if (side.out.sent() == 0) {
                    side.send(GREETING_BYTES, side.life.greeting, LONG);
                }
                switch (by.nextInt(40)) {
                    case 0 -> side.fill();
                    case 1, 2 -> {
                        if (exposes) {
                            expose(side, by);
                        }
                    }
                    default -> side.send(true, length(side.channel, by), null);
                }
                if (by.nextInt(DISTURBED_EVERY) == 0) {
                    disturb(side, by);
                }
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace(System.out);
            complain("a client ended with " + thrown);
        }
    }

    private void disturb(MessageSide side, Random by) throws InterruptedException {
        MessageSide server = side.life.server;
        switch (by.nextInt(4)) {
            case 0, 1 -> side.end();
            case 2 -> {
                if (server != null && server.channel.isOpen()) {
                    server.end();
                }
            }
            default -> {
                faults.incrementAndGet();
                place.disturb(by);
            }
        }
    }
}
