package dev.verbena.messaging;

import dev.verbena.OpFlags;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Some clients and a server with random options, from their start to their end. They send messages
 * of random lengths, most of them near a limit, in each way there is, and expose memory to each
 * other, while channels are closed and fail at either end, and clients connect again.
 */
final class MessageEra {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final long LIMIT = TimeUnit.SECONDS.toNanos(60); // what takes longer never ends
    private static final long BYTES = 32 << 20; // of all messages, if they are not longer
    private static final int LEAST_MAXIMUM = 64;
    private static final int GREETING_BYTES = 8;
    private static final int DISTURBED_EVERY = 300; // messages

    private final MessageLedger.Place place;
    private final long seed;
    private final int budget; // messages
    private final boolean huge; // messages, but few
    private final int longest;
    private final Random random;
    private final MessagingOptions ofServer;
    private final MessagingOptions ofClients;
    private final boolean receives; // clients have no handler, but threads
    private final boolean exposes;
    private final int clients;
    private final Queue<String> wrong = new ConcurrentLinkedQueue<>();
    private final List<Life> lives = new CopyOnWriteArrayList<>();
    private final Map<MessageChannel, Side> sides = new ConcurrentHashMap<>();
    private final LinkedBlockingQueue<Runnable> kept = new LinkedBlockingQueue<>(); // messages
    private final AtomicInteger faults = new AtomicInteger();
    private final AtomicLong bytesLeft;
    private final AtomicInteger operations = new AtomicInteger(); // of the server on exposed memory
    private final AtomicInteger threads = new AtomicInteger(); // that receive
    private final Queue<Exposed> exposed = new ConcurrentLinkedQueue<>();
    private volatile boolean disturbed; // by the place, since which anybody may lose something
    private Poller near;
    private Poller far;
    private Slots here;
    private Slots there;
    private int arrived;
    private int leaks;

    MessageEra(MessageLedger.Place place, long seed, int mostMessages, int longest) {
        this.place = place;
        this.seed = seed;
        this.random = new Random(seed);
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
        this.exposes = ofClients.values.exposures > 0 && ofServer.values.peerExposures > 0;
        this.receives = random.nextInt(4) == 0;
    }

    void complain(String what) {
        wrong.add(what);
    }

    // ---- its figures

    List<String> wrong() {
        return List.copyOf(wrong);
    }

    int sent() {
        return lives.stream().mapToInt(life -> life.up.sent() + life.down.sent()).sum();
    }

    long bytes() {
        return lives.stream().mapToLong(life -> life.up.bytes() + life.down.bytes()).sum();
    }

    int arrived() {
        return arrived;
    }

    int channels() {
        return lives.size();
    }

    int exposures() {
        return exposed.size();
    }

    int faults() {
        return faults.get();
    }

    int leaks() {
        return leaks;
    }

    // ---- random choices

    private int pick(int... of) {
        return of[random.nextInt(of.length)];
    }

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
    private int length(MessageChannel channel, Random by) {
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
    private final class Life {
        final Flow up;
        final Flow down;
        final Side client;
        final byte[] greeting;
        volatile @Nullable Side server;

        Life(int number, MessageChannel channel) {
            up =
                    new Flow(
                            "client's channel " + number,
                            2 * seed + 31L * number,
                            MessageEra.this::complain);
            down =
                    new Flow(
                            "server's channel " + number,
                            ~(2 * seed + 31L * number),
                            MessageEra.this::complain);
            client = new Side(this, channel, up, down, here);
            greeting = new byte[GREETING_BYTES];
            MemorySegment.ofArray(greeting).set(ValueLayout.JAVA_INT_UNALIGNED, 0, number);
        }

        /** Looks through it when both ends have ended. */
        void settle() {
            arrived += up.settle(server == null ? disturbed : server.mayLose());
            arrived += down.settle(client.mayLose());
        }

        boolean isReported() {
            return up.unreported() == 0 && down.unreported() == 0;
        }
    }

    /** One end of a channel. */
    private final class Side {
        final Life life;
        final MessageChannel channel;
        private final Flow out;
        private final Flow in;
        private final Slots slots;
        private final Random random; // of what it sends
        private final Random ofArrivals;
        private final Semaphore room = new Semaphore(0);
        volatile boolean ended; // by this side

        Side(Life life, MessageChannel channel, Flow out, Flow in, Slots slots) {
            this.life = life;
            this.channel = channel;
            this.out = out;
            this.in = in;
            this.slots = slots;
            this.random = new Random(seed ^ out.name.hashCode());
            this.ofArrivals = new Random(random.nextLong());
            channel.onRoom(room::release);
        }

        /** Who ends it himself, or for a reason of his own, may not get what had come. */
        boolean mayLose() {
            MessagingException reason = channel.closeReason();
            return ended
                    || disturbed
                    || (reason != null
                            && reason.status() != Status.CONNECTION_INVALID
                            && reason.status() != Status.CONNECTION_ABORTED);
        }

        /** Ends this channel. Without a connection manager, the caller then ends the other one. */
        void end() {
            faults.incrementAndGet();
            ended = true;
            switch (random.nextInt(4)) {
                case 0 -> channel.fail(Status.INTERNAL_ERROR, "of a test", null);
                case 1 -> channel.close();
                default -> {
                    var _ = channel.closeAsync();
                }
            }
            Side other = this == life.client ? life.server : life.client;
            if (place.address == null && other != null) {
                other.ended = true;
                var _ =
                        channel.closed()
                                .thenRun(
                                        () ->
                                                other.channel.fail(
                                                        Status.INTERNAL_ERROR, "of a test", null));
            }
        }

        // ---- what it sends

        void send(boolean mayBlock, int length, byte @Nullable [] beginning)
                throws InterruptedException {
            switch (random.nextInt(mayBlock ? 8 : 6)) {
                case 0 -> trySend(length, beginning, true);
                case 1 -> trySend(length, beginning, false);
                case 2 -> sendAsync(length, beginning);
                case 3, 4 -> trySendList(length, beginning);
                case 5 -> sendListAsync(length, beginning);
                case 6 -> send(length, beginning, Duration.ofNanos(random.nextInt(300_000)));
                default -> send(length, beginning, LONG);
            }
        }

        private Source source(int length) {
            return length <= 1 << 20 && random.nextInt(8) != 0
                    ? new Source(null, MemorySegment.ofArray(new byte[length]))
                    : Source.ofArena(length);
        }

        private boolean result(int number, Status status) {
            if (status.isSuccess()) {
                return true;
            }
            out.refused(number);
            if (status != Status.NO_MORE_ENTRIES && status != Status.CONNECTION_INVALID) {
                complain("message %d of %s was refused: %s".formatted(number, out.name, status));
            }
            return false;
        }

        private void trySend(int length, byte @Nullable [] beginning, boolean reports) {
            try (Source from = source(length)) {
                int number = out.open(length, reports, beginning);
                out.fill(from.memory, number);
                Status status =
                        reports
                                ? channel.trySend(
                                        from.memory,
                                        0,
                                        length,
                                        (of, attachment, end) ->
                                                out.ended((Integer) attachment, end),
                                        number)
                                : channel.trySend(from.memory);
                result(number, status);
                from.memory.fill((byte) 0xDB);
            }
        }

        private void send(int length, byte @Nullable [] beginning, Duration within)
                throws InterruptedException {
            try (Source from = source(length)) {
                int number = out.open(length, false, beginning);
                out.fill(from.memory, number);
                try {
                    channel.send(from.memory, within);
                } catch (MessagingException e) {
                    out.refused(number);
                    if (within == LONG && e.status() == Status.IO_TIMEOUT && channel.isOpen()) {
                        complain(
                                "message %d of %s found no room: %s"
                                        .formatted(number, out.name, e));
                    }
                }
                from.memory.fill((byte) 0xDB);
            }
        }

        private void sendAsync(int length, byte @Nullable [] beginning) {
            Source from = source(length);
            int number = out.open(length, true, beginning);
            out.fill(from.memory, number);
            var _ =
                    channel.sendAsync(from.memory)
                            .whenComplete(
                                    (nothing, thrown) -> {
                                        done(number, thrown);
                                        from.memory.fill((byte) 0xDB);
                                        from.close();
                                    });
        }

        private void done(int number, @Nullable Throwable thrown) {
            Status status = statusOf(thrown);
            if (status == Status.NO_MORE_ENTRIES) {
                out.refused(number);
            } else {
                out.ended(number, status);
            }
        }

        private void trySendList(int length, byte @Nullable [] beginning) {
            Slots.Slot slot = slots.take(length, random);
            if (slot == null) {
                return;
            }
            int number = out.open(length, true, beginning);
            out.fill(slot.memory, number);
            Status status =
                    channel.trySend(
                            slot.list(1 + random.nextInt(channel.maxBuffers()), random),
                            (of, attachment, end) -> {
                                slot.giveBack();
                                out.ended((Integer) attachment, end);
                            },
                            number);
            if (!result(number, status)) {
                slot.giveBack();
            }
        }

        private void sendListAsync(int length, byte @Nullable [] beginning) {
            Slots.Slot slot = slots.take(length, random);
            if (slot == null) {
                return;
            }
            int number = out.open(length, true, beginning);
            out.fill(slot.memory, number);
            var _ =
                    channel.sendAsync(slot.list(1 + random.nextInt(channel.maxBuffers()), random))
                            .whenComplete(
                                    (nothing, thrown) -> {
                                        slot.giveBack();
                                        done(number, thrown);
                                    });
        }

        /** Fills the peer's receives, until a message is refused, and waits until there is room. */
        void fill() throws InterruptedException {
            room.drainPermits();
            Status status = Status.SUCCESS;
            for (int i = 0; status.isSuccess() && i < 200; i++) {
                byte[] bytes = new byte[length(channel, random)];
                int number = out.open(bytes.length, false, null);
                out.fill(MemorySegment.ofArray(bytes), number);
                status = channel.trySend(MemorySegment.ofArray(bytes));
                result(number, status);
            }
            long start = System.nanoTime();
            while (status == Status.NO_MORE_ENTRIES
                    && channel.isOpen()
                    && !room.tryAcquire(100, TimeUnit.MILLISECONDS)) {
                if (System.nanoTime() - start > LIMIT) {
                    complain(
                            "%s: no room was reported; %s".formatted(out.name, channel.counters()));
                    return;
                }
            }
        }

        // ---- what arrives

        /** Checks a message; some are kept, and released later by another thread. */
        int arrived(Message message) {
            int number = in.arrived(message.data());
            if (number >= 0) {
                switch (ofArrivals.nextInt(16)) {
                    case 0, 1 -> keep(number, message.retain());
                    case 2 -> keep(number, message.detach());
                    default -> {}
                }
            }
            return number;
        }

        private void keep(int number, Message message) {
            kept.add(
                    () -> {
                        in.check(number, message.data());
                        message.release();
                    });
        }
    }

    /** Memory that is not registered. */
    private record Source(@Nullable Arena arena, MemorySegment memory) implements AutoCloseable {
        static Source ofArena(int length) {
            Arena arena = Arena.ofShared();
            return new Source(arena, arena.allocate(length, 1));
        }

        @Override
        public void close() {
            if (arena != null) {
                arena.close();
            }
        }
    }

    private static Status statusOf(@Nullable Throwable thrown) {
        Throwable cause = thrown instanceof CompletionException e ? e.getCause() : thrown;
        return cause == null
                ? Status.SUCCESS
                : cause instanceof MessagingException e ? e.status() : Status.INTERNAL_ERROR;
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
    private void expose(Side side, Random by) throws InterruptedException {
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
    private void use(Side server, MemorySegment data) {
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
                    peer.readAsync(memory, slot.list(1, server.random))
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
        Side side = sides.get(channel);
        if (side == null) {
            int number = message.data().get(ValueLayout.JAVA_INT_UNALIGNED, 0);
            Life life = lives.get(number);
            side = new Side(life, channel, life.down, life.up, there);
            life.server = side;
            sides.put(channel, side);
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

    private void receive(Side side) {
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

    void run() throws Exception {
        try (place) {
            near = Poller.start(place.here, IdleStrategy.events());
            far = Poller.start(place.there, IdleStrategy.events());
            Thread janitor = Thread.ofPlatform().daemon().start(this::releaseKept);
            here = new Slots(near.domain(), 2L * longest + (64 << 20));
            there = new Slots(far.domain(), 2L * longest + (64 << 20));
            if (place.address == null) {
                runPairs();
            } else {
                runServer();
            }
            await("operations on exposed memory", () -> operations.get() == 0);
            await("messages", () -> lives.stream().allMatch(Life::isReported));
            await("exposures", () -> exposed.stream().allMatch(one -> one.ends.get() > 0));
            await("threads that receive", () -> threads.get() == 0);
            kept.add(janitor::interrupt);
            janitor.join();
            lives.forEach(Life::settle);
            exposed.forEach(Exposed::settle);
            leaks = here.taken() + there.taken() + takenOf(near) + takenOf(far);
            if (leaks > 0) {
                complain(
                        "%d and %d slots, %d and %d bytes or frames of pollers are left"
                                .formatted(
                                        here.taken(), there.taken(), takenOf(near), takenOf(far)));
            }
            here.close();
            there.close();
            near.close();
            far.close();
        }
        leaks += place.leaks(this::complain);
    }

    private void await(String what, BooleanSupplier fact) {
        long start = System.nanoTime();
        while (!fact.getAsBoolean()) {
            if (System.nanoTime() - start > LIMIT) {
                complain("these never end: " + what);
                return;
            }
            LockSupport.parkNanos(200_000);
        }
    }

    private void releaseKept() {
        try {
            while (true) {
                kept.take().run();
            }
        } catch (InterruptedException e) {
            // all are released
        } catch (Throwable thrown) {
            complain("the release of messages ended with " + thrown);
        }
    }

    /** What a poller's channels have not given back, though all have ended: bytes and frames. */
    private static int takenOf(Poller poller) throws ReflectiveOperationException {
        int taken = 0;
        LargeMemory large = poller.memory().large();
        synchronized (large) {
            taken += Math.toIntExact((long) get(large, "taken"));
        }
        for (Object one : (List<?>) get(poller.memory(), "frames")) {
            synchronized (one) {
                int buffers = (int) get(one, "slab") * ((List<?>) get(one, "regions")).size();
                taken += buffers - (int) get(one, "freeCount");
            }
        }
        return taken;
    }

    private static Object get(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    private void runServer() throws Exception {
        try (MessageServer server =
                MessageServer.listen(
                        far, place.address, ofServer, 1000, this::received, channel -> {})) {
            List<Thread> running = new ArrayList<>();
            List<MessageClient> all = new ArrayList<>();
            for (int i = 0; i < clients; i++) {
                MessageClient client =
                        MessageClient.start(
                                near,
                                server.localAddress(),
                                ofClients,
                                ReconnectOptions.DEFAULTS.withPauses(
                                        Duration.ofMillis(1), Duration.ofMillis(4)),
                                receives ? null : this::answered,
                                this::opened);
                all.add(client);
                long own = random.nextLong();
                running.add(
                        Thread.startVirtualThread(
                                () ->
                                        client(
                                                () -> sides.get(client.channel(LONG)),
                                                new Random(own))));
            }
            for (Thread one : running) {
                one.join();
            }
            switch (random.nextInt(8)) {
                case 0 -> {
                    lives.forEach(life -> life.client.ended = true);
                    near.close();
                }
                case 1 -> {
                    disturbed = true;
                    far.close();
                }
                default -> {}
            }
            all.forEach(MessageClient::close);
            await("channels of the server", () -> server.channelCount() == 0);
        }
    }

    /** Without a connection manager: each side is told of the other's end. */
    private void runPairs() throws Exception {
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            long own = random.nextLong();
            Pairs pairs = new Pairs();
            running.add(Thread.startVirtualThread(() -> client(pairs::next, new Random(own))));
        }
        for (Thread one : running) {
            one.join();
        }
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

        Side next() {
            if (current == null || !current.client.channel.isOpen()) {
                MessageChannel a =
                        new MessageChannel(
                                near, ofClients, receives ? null : MessageEra.this::answered);
                MessageChannel b = new MessageChannel(far, ofServer, MessageEra.this::received);
                Life life = opened(a);
                life.server = new Side(life, b, life.down, life.up, there);
                sides.put(b, life.server);
                ChannelsByHand.connect(a, b);
                current = life;
            }
            return current.client;
        }
    }

    @FunctionalInterface
    private interface Line {
        Side next() throws InterruptedException;
    }

    private void client(Line line, Random by) {
        try {
            for (int i = 0; i < budget / clients && wrong.isEmpty(); i++) {
                Side side = line.next();
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

    private void disturb(Side side, Random by) throws InterruptedException {
        Side server = side.life.server;
        switch (by.nextInt(4)) {
            case 0, 1 -> side.end();
            case 2 -> {
                if (server != null && server.channel.isOpen()) {
                    server.end();
                }
            }
            default -> {
                faults.incrementAndGet();
                disturbed |= place.disturb(by);
            }
        }
    }
}
