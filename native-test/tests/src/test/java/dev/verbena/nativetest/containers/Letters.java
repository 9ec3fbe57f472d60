package dev.verbena.nativetest.containers;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.Listener;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.NotifyType;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The service and the client that the container tests run: in each round the server hands out a
 * memory window, the client writes into it and, with the message that says so, has its token
 * invalidated. A letter box that opens for one letter.
 */
final class Letters {
    private static final int PORT = 7471;
    private static final int LETTER_BYTES = 64 * 1024;
    private static final Duration TIMEOUT = Duration.ofSeconds(120);
    // The other side may be a JVM that has just started, under emulation: 10 s, the default, were
    // too few on a busy machine.
    private static final ConnectionOptions OPTIONS =
            ConnectionOptions.DEFAULTS.withDeadline(TIMEOUT);
    private static final Duration SILENCE = Duration.ofSeconds(5);
    private static final int REPORT_EVERY = 5;

    private Letters() {}

    /**
     * Runs one side, which reports what it does on standard output.
     *
     * @param words {@code server ADDRESS CLIENTS}, or {@code client SERVER_ADDRESS OWN_ADDRESS
     *     ROUNDS}, where 0 rounds are as many as it lives for
     */
    public static void main(String[] words) throws Exception {
        try {
            if (words[0].equals("server")) {
                serve(words[1], Integer.parseInt(words[2]));
            } else {
                write(words[1], words[2], Integer.parseInt(words[3]));
            }
        } catch (VerbenaException | IllegalStateException e) {
            System.out.println("failed: " + e.getMessage());
            System.exit(1);
        }
    }

    private static void serve(String address, int clients) throws Exception {
        BlockingQueue<Connector> requests = new LinkedBlockingQueue<>();
        try (Adapter adapter = Adapter.open(Adapter.activeNames().getFirst());
                Listener listener =
                        adapter.listen(new InetSocketAddress(address, PORT), 0, requests::add)) {
            System.out.println("listening on " + listener.localAddress() + " of " + adapter.name());
            for (int i = 0; i < clients; i++) {
                try (Connector request = requests.take();
                        Box box = new Box(adapter)) {
                    request.accept(box.queuePair, OPTIONS);
                    box.watch(request);
                    int rounds = box.collect();
                    System.out.println(
                            "client left after "
                                    + rounds
                                    + " rounds: "
                                    + box.left.get(60, TimeUnit.SECONDS).name());
                }
            }
        }
    }

    private static void write(String server, String own, int rounds) throws Exception {
        try (Adapter adapter = Adapter.open(Adapter.activeNames().getFirst());
                Box box = new Box(adapter);
                Connector connector = adapter.createConnector()) {
            connector.connect(
                    box.queuePair,
                    new InetSocketAddress(server, PORT),
                    OPTIONS.withLocalAddress(new InetSocketAddress(own, 0)));
            connector.completeConnect();
            box.watch(connector);
            int token = box.fill(rounds);
            Status dead = box.writeTo(token);
            System.out.println(rounds + " rounds written; the dead token: " + dead.name());
            connector.disconnect();
        }
    }

    /** One side's end, with the memory that letters are in. */
    private static final class Box implements AutoCloseable {
        private final Arena arena = Arena.ofShared();
        private final ProtectionDomain domain;
        private final CompletionQueue queue;
        private final QueuePair queuePair;
        private final MemoryRegion letter;
        private final MemoryRegion slip;
        private final MemoryWindow window;
        private final Completions ends = new Completions(1);
        private final CompletableFuture<Status> left = new CompletableFuture<>();
        private long address;

        Box(Adapter adapter) {
            domain = adapter.createProtectionDomain();
            queue = adapter.createCompletionQueue(16);
            queuePair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(8, 2));
            letter = domain.register(arena.allocate(LETTER_BYTES, 4096), Access.LOCAL_WRITE);
            slip = domain.register(arena.allocate(16, 8), Access.LOCAL_WRITE);
            window = domain.createMemoryWindow();
            receive();
        }

        private void receive() {
            queuePair.receive(1, new BufferList(1).add(slip, 0, 16)).orThrow();
        }

        void watch(Connector connector) {
            connector.onDisconnect(
                    status -> {
                        left.complete(status);
                        try {
                            queuePair.flush();
                        } catch (IllegalStateException e) {
                            // Closed meanwhile: nobody waits.
                        }
                    });
        }

        /** The server's rounds; answers how many there were when the client has left. */
        int collect() {
            for (int round = 0; ; round++) {
                Status bound =
                        queuePair
                                .bind(
                                        2,
                                        window,
                                        letter,
                                        0,
                                        LETTER_BYTES,
                                        OpFlags.ALLOW_REMOTE_WRITE.and(OpFlags.SILENT_SUCCESS))
                                .status();
                if (isGone(bound)) {
                    return round;
                }
                MemorySegment invitation = arena.allocate(16, 8);
                invitation.set(JAVA_LONG, 0, letter.memory().address());
                invitation.set(JAVA_INT, 8, window.remoteToken());
                invitation.set(JAVA_INT, 12, round);
                MemoryRegion message = domain.register(invitation);
                Status sent =
                        queuePair
                                .send(
                                        3,
                                        new BufferList(1).add(message, 0, 16),
                                        OpFlags.SILENT_SUCCESS)
                                .status();
                Status arrived = sent == Status.SUCCESS ? next() : sent;
                message.close();
                if (arrived != Status.SUCCESS) {
                    return round;
                }
                check(ends.type(0) == OperationType.RECEIVE_AND_INVALIDATE, "a " + ends.type(0));
                check(ends.invalidatedToken(0) == window.remoteToken(), "another token's end");
                for (long i = 0; i < LETTER_BYTES; i++) {
                    check(letter.memory().get(JAVA_BYTE, i) == content(round, i), "wrong data");
                }
                receive();
                report(round);
            }
        }

        /** The client's rounds; returns the last token, which is invalidated by then. */
        int fill(int rounds) {
            int token = 0;
            for (int round = 0; rounds == 0 || round < rounds; round++) {
                Status invited = next();
                if (invited != Status.SUCCESS) {
                    throw serverGone(round, invited);
                }
                check(slip.memory().get(JAVA_INT, 12) == round, "an invitation of another round");
                address = slip.memory().get(JAVA_LONG, 0);
                token = slip.memory().get(JAVA_INT, 8);
                receive();
                for (long i = 0; i < LETTER_BYTES; i++) {
                    letter.memory().set(JAVA_BYTE, i, content(round, i));
                }
                Status written =
                        queuePair
                                .write(
                                        4,
                                        Box.whole(letter),
                                        address,
                                        token,
                                        OpFlags.SILENT_SUCCESS.and(OpFlags.DEFER))
                                .status();
                if (isGone(written)) {
                    throw serverGone(round, written);
                }
                Status sent =
                        queuePair
                                .sendAndInvalidate(
                                        5, new BufferList(1), token, OpFlags.SILENT_SUCCESS)
                                .status();
                if (isGone(sent)) {
                    throw serverGone(round, sent);
                }
                report(round);
            }
            return token;
        }

        /**
         * Whether the peer is gone, by what a post answered: it may go at any time, also between
         * what it sent and the answer.
         *
         * @throws VerbenaException when it was refused for anything else
         */
        private static boolean isGone(Status posted) {
            if (posted != Status.CONNECTION_INVALID) {
                posted.orThrow();
                return false;
            }
            return true;
        }

        private static IllegalStateException serverGone(int rounds, Status how) {
            return new IllegalStateException(
                    "the server is gone after " + rounds + " rounds: " + how.name());
        }

        /** Writes with a token, and answers what became of that. */
        Status writeTo(int token) {
            // The invitation to a round that never is: its arrival says that the last one is over.
            check(next() == Status.SUCCESS, "the server is gone");
            queuePair.write(6, whole(letter), address, token, OpFlags.NONE).orThrow();
            return next();
        }

        private static BufferList whole(MemoryRegion region) {
            return new BufferList(1).add(region, 0, region.memory().byteSize());
        }

        /**
         * Waits for the next completion, and returns its status. A host that is gone sends nothing,
         * and waiting alone would never notice: after some silence a write of no bytes is posted.
         */
        private Status next() {
            long end = System.nanoTime() + TIMEOUT.toNanos();
            while (queue.poll(ends) == 0) {
                queue.arm(NotifyType.ANY);
                if (queue.poll(ends) > 0) {
                    break;
                }
                check(System.nanoTime() < end, "nothing for " + TIMEOUT);
                if (queue.await(SILENCE) == Status.IO_TIMEOUT && !left.isDone()) {
                    var _ = queuePair.write(7, new BufferList(1), 0, 0, OpFlags.SILENT_SUCCESS);
                }
            }
            return ends.status(0);
        }

        private static byte content(int round, long i) {
            return (byte) (round * 7 + i * 31 + (i >> 8));
        }

        private static void report(int round) {
            if (round % REPORT_EVERY == 0) {
                System.out.println("round " + round);
            }
        }

        private static void check(boolean right, String otherwise) {
            if (!right) {
                throw new IllegalStateException(otherwise);
            }
        }

        @Override
        public void close() {
            queuePair.close();
            queue.close();
            window.close();
            letter.close();
            slip.close();
            domain.close();
            arena.close();
        }
    }
}
