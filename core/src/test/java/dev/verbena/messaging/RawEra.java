package dev.verbena.messaging;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.BufferList;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.PostResult;
import dev.verbena.QueuePairLimits;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/**
 * Raw connections with a protocol of their own: clients send messages, and a server answers each.
 * So that the receives of both sides suffice, a client has only so many unanswered messages as
 * there are receives. Some messages name a window that the client has bound; the server writes or
 * reads there, and its answer invalidates the token. Meanwhile connections are aborted and closed
 * at either end, and clients connect again.
 */
final class RawEra extends Era {
    private static final Duration LONG = Duration.ofSeconds(20);
    private static final int LEAST_BYTES = 64;
    private static final int INLINE = 32;
    private static final int KEY_BYTES = Long.BYTES + RemoteMemory.MESSAGE_BYTES;
    private static final int ENDED_EVERY = 300; // messages
    private static final int MOST_REFUSALS = 50; // of connections, one after the other

    private enum Use {
        WRITE,
        WRITE_AND_ANSWER,
        READ
    }

    /** Memory that a client's window covers, and what the server does with it. */
    private record Lent(Use use, Slots.Slot slot, long key, RemoteMemory memory) {}

    private final int budget; // messages of the clients
    private final int clients;
    private final int unanswered; // at most, of a connection
    private final int bytes; // of a receive
    private final boolean shares; // the server's receives
    private final List<Life> lives = new CopyOnWriteArrayList<>();
    private final Map<Long, Lent> byKey = new ConcurrentHashMap<>();
    private final AtomicInteger exposures = new AtomicInteger();
    private @Nullable RawReceives shared;
    private @Nullable InetSocketAddress address; // of the server

    RawEra(MessageLedger.Place place, long seed, int mostMessages, int longest) {
        super(place, seed);
        clients = 1 + random.nextInt(3);
        budget = 1 + random.nextInt(mostMessages);
        unanswered = pick(1, 2, 3, 8, 16);
        bytes = Math.min(longest, pick(LEAST_BYTES, 1000, 4096, 1 << 16));
        shares = random.nextBoolean();
    }

    @Override
    long memory() {
        return 64 << 20;
    }

    @Override
    int exposures() {
        return exposures.get();
    }

    /** One connection, from its beginning to its end. */
    private final class Life {
        final Flow up;
        final Flow down;
        final byte[] number = new byte[Integer.BYTES];
        final Client client;
        volatile @Nullable Server server;

        Life(int number) {
            up = flow("client's connection " + number, 2 * seed + 31L * number);
            down = flow("server's connection " + number, ~(2 * seed + 31L * number));
            MemorySegment.ofArray(this.number).set(JAVA_INT_UNALIGNED, 0, number);
            client = new Client(this);
        }

        boolean isClosed() {
            Server other = server;
            return client.connection.isClosed() && (other == null || other.connection.isClosed());
        }

        void checkEnd() {
            Server other = server;
            if (other != null) {
                checkEnds(client.ended || other.ended, client.connection, other.connection);
            }
        }

        void settle() {
            Server other = server;
            arrived += up.settle(() -> other != null && other.mayLose());
            arrived += down.settle(client::mayLose);
        }
    }

    /** One end of a connection. */
    private abstract class Side implements RawHandler {
        final Life life;
        final RawConnection connection;
        final Random choices; // of the thread that sends
        private final Flow out;
        private final Flow in;
        private final Slots slots;
        private final int depth;
        private final Queue<Sent> silent = new ConcurrentLinkedQueue<>(); // whose memory is in use
        private boolean wasSilent; // the last one: room is reported by those that are not
        volatile boolean ended; // by this side

        /** A message without a callback: a later one tells that it has left. */
        private record Sent(int number, Slots.Slot slot) {}

        Side(Life life, Poller poller, Flow out, Flow in, Slots slots, @Nullable RawReceives from) {
            this.life = life;
            this.out = out;
            this.in = in;
            this.slots = slots;
            choices = new Random(seed ^ out.name.hashCode());
            depth = 1 + choices.nextInt(3 * unanswered);
            QueuePairLimits limits =
                    QueuePairLimits.depths(depth, unanswered)
                            .withInlineBytes(INLINE)
                            .withBuffers(3, 1);
            Duration timeout = choices.nextBoolean() ? null : LONG;
            connection =
                    from == null
                            ? RawConnection.create(poller, limits, bytes, timeout, this)
                            : RawConnection.create(poller, limits, from, timeout, this);
        }

        /** There is room for another request. */
        abstract void room();

        boolean mayLose() {
            return RawEra.this.mayLose(ended, connection);
        }

        /**
         * Posts a message, if there is room.
         *
         * @param beginning its first bytes, or null
         * @param token what its arrival invalidates, or null
         */
        boolean post(byte @Nullable [] beginning, @Nullable Integer token) {
            int length = beginning == null ? 1 + choices.nextInt(bytes) : beginning.length;
            Slots.Slot slot = slots.take(length, choices);
            OpFlags flags = choices.nextInt(4) == 0 ? OpFlags.SEND_AND_SOLICIT_EVENT : OpFlags.NONE;
            boolean inline = length <= INLINE && choices.nextBoolean();
            flags = inline ? flags.and(OpFlags.INLINE) : flags;
            boolean reports = wasSilent || depth == 1 || choices.nextInt(3) != 0;
            flags = reports ? flags : flags.and(OpFlags.SILENT_SUCCESS);
            int number = out.open(length, reports, beginning);
            out.fill(slot.memory, number);
            BufferList list = slot.list(1 + choices.nextInt(3), choices);
            Sent sent = new Sent(number, slot);
            boolean keeps = !reports && !inline;
            if (keeps) {
                silent.add(sent);
            }
            RawCallback callback =
                    (of, attachment, status) -> {
                        if (status.isSuccess()) {
                            releaseBefore(number);
                        }
                        if (!inline) {
                            slot.giveBack();
                        }
                        out.ended((Integer) attachment, status);
                        room();
                    };
            PostResult result =
                    token == null
                            ? connection.send(list, flags, callback, number)
                            : connection.sendAndInvalidate(list, token, flags, callback, number);
            if (result.isAccepted()) {
                wasSilent = !reports;
                if (inline) {
                    slot.giveBack(); // the post has copied it
                }
                return true;
            }
            if (!keeps || silent.remove(sent)) { // otherwise the end has given it back
                slot.giveBack();
            }
            out.refused(number);
            refused("message %d of %s".formatted(number, out.name), result);
            return false;
        }

        final void refused(String what, PostResult result) {
            if (result.status() != Status.NO_MORE_ENTRIES
                    && result.status() != Status.CONNECTION_INVALID) {
                complain("%s was refused: %s".formatted(what, result));
            }
        }

        private void releaseBefore(int number) {
            Sent one;
            while ((one = silent.peek()) != null && one.number < number && silent.remove(one)) {
                one.slot.giveBack();
            }
        }

        /** Looks at a message, and posts its receive again. */
        final void arrived(RawMessage message) {
            in.arrived(message.buffer().asSlice(0, message.length()));
            message.repost(); // refused if the connection has ended
        }

        @Override
        public void ended(RawConnection of, MessagingException reason) {
            releaseBefore(Integer.MAX_VALUE);
            Side other = this == life.client ? life.server : life.client;
            // Without a connection manager, the other end does not notice, whatever the reason is.
            if (place.address == null && other != null) {
                other.ended = true;
                var _ = connection.closed().thenRun(() -> other.connection.abort("of a test"));
            }
        }

        /** Ends this connection. */
        final void end() {
            faults.incrementAndGet();
            ended = true;
            if (choices.nextBoolean()) {
                connection.close();
            } else {
                connection.abort("of a test");
            }
        }
    }

    // ---- the client

    private final class Client extends Side {
        private final Semaphore permits = new Semaphore(unanswered); // to send
        private final Semaphore room = new Semaphore(0);
        private final MemoryWindow window = near.domain().createMemoryWindow();
        private volatile @Nullable Lent lent;
        private boolean gone; // the connection and its window; under the monitor

        Client(Life life) {
            super(life, near, life.up, life.down, here, null);
        }

        @Override
        void room() {
            room.release();
        }

        void send(byte @Nullable [] beginning) throws InterruptedException {
            if (!permits.tryAcquire(LIMIT, TimeUnit.NANOSECONDS)) {
                complain("%s: the answers do not come".formatted(connection));
                return;
            }
            if (choices.nextInt(20) == 0) {
                connection.expectMessageWithin(LONG);
            }
            long start = System.nanoTime();
            room.drainPermits();
            while (connection.isOpen() && !post(beginning, null)) {
                boolean _ = room.tryAcquire(100, TimeUnit.MILLISECONDS);
                if (System.nanoTime() - start > LIMIT) {
                    complain("%s: there is never room for another request".formatted(connection));
                    return;
                }
            }
        }

        /** Binds the window, and sends the server its key. */
        void lend() throws InterruptedException {
            Lent one = lent == null ? bind() : null;
            if (one != null) {
                byte[] message = new byte[KEY_BYTES];
                MemorySegment.ofArray(message).set(JAVA_LONG_UNALIGNED, 0, one.key);
                one.memory.writeTo(MemorySegment.ofArray(message), Long.BYTES);
                send(message);
            }
        }

        private synchronized @Nullable Lent bind() {
            if (gone) {
                return null; // and the window, too
            }
            int length = 1 + choices.nextInt(choices.nextInt(4) == 0 ? 1 << 16 : 500);
            Slots.Slot slot = here.take(length, choices);
            Use use = Use.values()[choices.nextInt(Use.values().length)];
            OpFlags rights =
                    use == Use.READ ? OpFlags.ALLOW_REMOTE_READ : OpFlags.ALLOW_REMOTE_WRITE;
            PostResult result =
                    connection.bind(
                            window,
                            slot.region,
                            slot.offset,
                            length,
                            rights,
                            (of, attachment, status) -> room(),
                            null);
            RemoteMemory memory = null;
            if (result.isAccepted()) {
                try {
                    memory = window.remoteMemory();
                } catch (IllegalStateException e) {
                    // the connection has ended meanwhile
                }
            } else {
                refused("a bind of %s".formatted(connection), result);
            }
            if (memory == null) {
                slot.giveBack();
                return null;
            }
            Lent one = new Lent(use, slot, choices.nextLong(), memory);
            exposures.incrementAndGet();
            Flow.fill(slot.memory, one.key, 0);
            byKey.put(one.key, one);
            lent = one;
            return one;
        }

        @Override
        public void received(RawConnection of, RawMessage message) {
            if (message.hasInvalidated()) {
                returned(message.invalidatedToken());
            }
            arrived(message);
            permits.release();
        }

        private void returned(int token) {
            Lent one = lent;
            if (one == null || one.memory.token() != token) {
                complain("%s: token %x came for %s".formatted(connection, token, one));
                return;
            }
            long at = Flow.mismatch(one.slot.memory, 0, one.key, one.use == Use.READ ? 0 : 1);
            if (at != -1) {
                complain("byte %d of %s is wrong".formatted(at, one));
            }
            giveBack(one);
        }

        private synchronized void giveBack(Lent one) {
            lent = null;
            byKey.remove(one.key);
            one.slot.giveBack();
        }

        @Override
        public void ended(RawConnection of, MessagingException reason) {
            super.ended(of, reason);
            synchronized (this) {
                Lent one = lent;
                if (one != null) {
                    giveBack(one);
                }
                gone = true;
                window.close();
            }
            permits.release(unanswered); // nobody waits any longer
            room();
        }
    }

    private void client(Random by) {
        int refusals = 0;
        Client to = null;
        try {
            for (int i = 0; i < budget / clients && wrong().isEmpty(); ) {
                if (to == null || !to.connection.isOpen()) {
                    to = connected();
                    refusals = to == null ? refusals + 1 : 0;
                    if (refusals == MOST_REFUSALS) {
                        complain("a client cannot connect any more");
                    }
                    continue;
                }
                i++;
                if (by.nextInt(20) == 0) {
                    to.lend();
                } else {
                    to.send(null);
                }
                if (by.nextInt(ENDED_EVERY) == 0) {
                    end(to, by);
                }
            }
            if (to != null && to.connection.isOpen()) {
                to.end();
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace(System.out);
            complain("a client ended with " + thrown);
        }
    }

    private void end(Client client, Random by) throws InterruptedException {
        Server server = client.life.server;
        switch (by.nextInt(3)) {
            case 0 -> client.end();
            case 1 -> {
                if (server != null && server.connection.isOpen()) {
                    server.end();
                }
            }
            default -> {
                faults.incrementAndGet();
                place.disturb(by);
            }
        }
    }

    // ---- the server

    private final class Server extends Side {
        // What is to be posted, each until it is; of the poller's thread.
        private final Queue<BooleanSupplier> answers = new ArrayDeque<>();

        Server(Life life) {
            super(life, far, life.down, life.up, there, shared);
        }

        @Override
        public void received(RawConnection of, RawMessage message) {
            MemorySegment data = message.buffer().asSlice(0, message.length());
            Lent lent =
                    data.byteSize() == KEY_BYTES
                            ? byKey.get(data.get(JAVA_LONG_UNALIGNED, 0))
                            : null;
            if (lent == null) {
                answers.add(() -> post(null, null));
            } else {
                RemoteMemory memory = RemoteMemory.readFrom(data, Long.BYTES);
                answers.add(() -> use(lent, memory));
            }
            arrived(message);
            room();
        }

        @Override
        void room() {
            while (!answers.isEmpty() && answers.element().getAsBoolean()) {
                answers.remove();
            }
        }

        private boolean use(Lent lent, RemoteMemory memory) {
            boolean reads = lent.use == Use.READ;
            Slots.Slot slot = there.take((int) memory.bytes(), choices);
            if (!reads) {
                Flow.fill(slot.memory, lent.key, 1);
            }
            BooleanSupplier answer = () -> post(null, lent.memory.token());
            RawCallback callback =
                    (of, attachment, status) -> {
                        if (status.isSuccess() && lent.use != Use.WRITE_AND_ANSWER) {
                            answers.add(answer);
                        }
                        if (status.isSuccess()
                                && reads
                                && place.readsBytes()
                                && Flow.mismatch(slot.memory, 0, lent.key, 0) != -1) {
                            complain("%s was read wrong".formatted(lent));
                        }
                        slot.giveBack();
                        room();
                    };
            BufferList list = slot.list(1 + choices.nextInt(3), choices);
            PostResult result =
                    reads
                            ? connection.read(
                                    list,
                                    memory.address(),
                                    memory.token(),
                                    OpFlags.NONE,
                                    callback,
                                    null)
                            : connection.write(
                                    list,
                                    memory.address(),
                                    memory.token(),
                                    OpFlags.NONE,
                                    callback,
                                    null);
            if (!result.isAccepted()) {
                slot.giveBack();
                refused("the use of %s".formatted(lent), result);
                return false;
            }
            if (lent.use == Use.WRITE_AND_ANSWER) {
                answers.add(answer);
            }
            return true;
        }
    }

    private void accept(Connector request) {
        byte[] data = request.connectionData().privateData();
        Life life = lives.get(MemorySegment.ofArray(data).get(JAVA_INT_UNALIGNED, 0));
        Server server = new Server(life);
        life.server = server;
        var _ =
                server.connection
                        .acceptAsync(request, ConnectionOptions.DEFAULTS.withDeadline(LONG))
                        .thenRun(() -> far.execute(server::room)); // for messages that came before
    }

    // ---- its course

    private synchronized Life begin() {
        Life life = new Life(lives.size());
        lives.add(life);
        return life;
    }

    private @Nullable Client connected() {
        Life life = begin();
        RawConnection connection = life.client.connection;
        InetSocketAddress to = address;
        if (to == null) {
            Server server = new Server(life);
            life.server = server;
            server.connection.pair.connect(connection.pair.address());
            connection.pair.connect(server.connection.pair.address());
            return life.client;
        }
        try {
            connection.connect(
                    to, ConnectionOptions.DEFAULTS.withDeadline(LONG).withPrivateData(life.number));
            return life.client;
        } catch (VerbenaException e) {
            return null; // because of what was done to the device
        }
    }

    @Override
    void course() throws Exception {
        shared = shares ? RawReceives.shared(far, clients * unanswered, bytes) : null;
        Listener listener =
                place.address == null ? null : place.there.listen(place.address, 100, this::accept);
        address = listener == null ? null : listener.localAddress();
        runAll(Collections.nCopies(clients, this::client));
        lives.forEach(Life::checkEnd);
        if (listener != null) {
            listener.close();
        }
        await("connections", () -> lives.stream().allMatch(Life::isClosed));
        if (shared != null) {
            shared.close();
        }
        lives.forEach(Life::settle);
    }
}
