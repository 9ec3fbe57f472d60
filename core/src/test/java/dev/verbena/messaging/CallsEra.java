package dev.verbena.messaging;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * Some clients and a server that {@linkplain Calls call} each other, with random options, from
 * their start to their end. Requests and answers have random lengths, most of them near a limit.
 * Calls are answered at once, later by another thread, with an error, or never; callers cancel
 * some, and give others too little time. Meanwhile channels are closed and fail at either end, and
 * clients connect again. Each call reaches its peer at most once, with its bytes, and completes
 * exactly once, with its peer's answer.
 */
final class CallsEra extends Era {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int NAME_BYTES = Long.BYTES; // of a request: which call it is
    private static final int MOST_WAITING = 40; // calls of a client
    private static final int ENDED_EVERY = 300; // calls
    private static final int IN_TIME = Answer.TOO_LATE.ordinal(); // those before

    private final int budget; // calls of clients
    private final int clients;
    private final int longest;
    private final MessagingOptions ofServer;
    private final MessagingOptions ofClients;
    private final AtomicLong bytesLeft = new AtomicLong(64 << 20);
    private final List<Life> lives = new CopyOnWriteArrayList<>();
    private final Map<MessageChannel, Life> byChannel = new ConcurrentHashMap<>();
    private final Map<Long, Asked> calls = new ConcurrentHashMap<>(); // by the first bytes

    CallsEra(MessageLedger.Place place, long seed, int mostCalls, int longest) {
        super(place, seed);
        this.clients = 1 + random.nextInt(3);
        this.budget = 1 + random.nextInt(mostCalls);
        this.longest = longest;
        this.ofServer = options();
        this.ofClients = options();
    }

    private MessagingOptions options() {
        int most = Math.min(longest, pick(100, 1000, 5000, longest));
        return MessagingOptions.DEFAULTS
                .withMaxMessage(most)
                .withEagerLimit(Math.min(most, pick(64, 100, 500, 4064)))
                .withLargeMemory((long) most + pick(0, 1 << 16, 4 << 20))
                .withOutstanding(pick(1, 2, 3, 8, 16, 64))
                .withReceives(pick(1, 2, 3, 8, 16))
                .withExposures(0)
                .withTimeout(Duration.ofSeconds(20))
                .withKeepAlive(Duration.ofMillis(pick(200, 5000)))
                .withTracking(random.nextInt(4) == 0);
    }

    // ---- its figures

    @Override
    long memory() {
        return 1 << 20;
    }

    @Override
    int exposures() {
        return 0;
    }

    @Override
    int sent() {
        return calls.size();
    }

    @Override
    long bytes() {
        return calls.values().stream().mapToLong(one -> one.request.byteSize()).sum();
    }

    @Override
    int channels() {
        return lives.size();
    }

    // ---- channels and calls

    /** One channel, from its connection to its end. */
    private final class Life {
        final MessageChannel client;
        volatile @Nullable MessageChannel server; // known by the first call
        volatile boolean ended; // by a side

        Life(MessageChannel client) {
            this.client = client;
        }

        void checkEnd() {
            MessageChannel other = server;
            if (other != null) {
                checkEnds(ended, client, other);
            }
        }
    }

    private enum Answer {
        AT_ONCE,
        LATER,
        LATER_AND_KEPT,
        ERROR,
        EXCEPTION,
        // Seldom, as their callers wait:
        TOO_LATE, // when the caller has given up
        NONE
    }

    /** One call, what its peer does with it, and what became of it. */
    private final class Asked {
        final Life life;
        final boolean up; // to the server
        final long key;
        final MemorySegment request;
        final Answer answer;
        final int answerBytes;
        final Duration timeout;
        final AtomicInteger handled = new AtomicInteger();
        final AtomicInteger decoded = new AtomicInteger();
        volatile boolean answered;
        volatile boolean cancelled;
        private boolean timedOut; // of the polling thread
        private volatile boolean ended;
        private final AtomicReference<@Nullable Call> unanswered = new AtomicReference<>();
        volatile @Nullable CompletableFuture<Integer> future;

        Asked(Life life, boolean up, MessageChannel channel, long key, Random by) {
            this.life = life;
            this.up = up;
            this.key = key;
            this.answer =
                    switch (by.nextInt(400)) {
                        case 0 -> Answer.NONE;
                        case 1 -> Answer.TOO_LATE;
                        default -> Answer.values()[by.nextInt(IN_TIME)];
                    };
            boolean hurries = by.nextInt(10) == 0 || answer.ordinal() >= IN_TIME;
            this.timeout = hurries ? Duration.ofMillis(1 + by.nextInt(300)) : LONG;
            this.request = MemorySegment.ofArray(new byte[length(channel, by)]);
            this.answerBytes = length(channel, by) - by.nextInt(NAME_BYTES + 1);
            Flow.fill(request, key, 0);
        }

        @Override
        public String toString() {
            return "call %x of %,d bytes on %s, %s"
                    .formatted(key, request.byteSize(), life.client, answer);
        }

        /** Makes the call. */
        void begin(MessageChannel channel) {
            CompletableFuture<Integer> made = Calls.call(channel, request, timeout, this::decode);
            future = made;
            var _ = made.whenComplete((bytes, thrown) -> check(bytes, thrown));
        }

        private int decode(Message message) {
            if (decoded.incrementAndGet() != 1 || !answered || timedOut) {
                complain("an answer came twice, too late, or that nobody gave: " + this);
            }
            if (message.length() != answerBytes || Flow.mismatch(message.data(), 0, key, 1) != -1) {
                complain("%s got %s, not %,d bytes".formatted(this, message, answerBytes));
            }
            return message.length();
        }

        /** Whether this is how it may have ended. */
        private void check(@Nullable Integer bytes, @Nullable Throwable thrown) {
            timedOut = Era.statusOf(thrown) == Status.IO_TIMEOUT;
            boolean may =
                    switch (thrown) {
                        case null ->
                                answer.ordinal() < IN_TIME
                                        && bytes == answerBytes
                                        && decoded.get() == 1;
                        case CancellationException e -> cancelled;
                        case CallFailedException e -> error().equals(e.getMessage());
                        case MessagingException e ->
                                e.status() == Status.IO_TIMEOUT
                                        ? timeout != LONG || !channel().takesRequests()
                                        : !channel().takesRequests();
                        default -> false;
                    };
            if (!may) {
                complain("%s ended with %s and %s".formatted(this, bytes, thrown));
            }
            ended = true;
            answerTooLate();
        }

        private void answerTooLate() {
            Call call = unanswered.getAndSet(null);
            if (call != null) {
                later(() -> answer(call));
            }
        }

        void cancel() {
            cancelled = true;
            var _ = Objects.requireNonNull(future).cancel(false);
        }

        void await() {
            CallsEra.this.await(toString(), this::isDone);
        }

        boolean isDone() {
            CompletableFuture<Integer> made = future;
            return made != null && made.isDone();
        }

        /** On which it was made. */
        private MessageChannel channel() {
            return up ? life.client : Objects.requireNonNull(life.server);
        }

        private String error() {
            return answer == Answer.ERROR || answer == Answer.EXCEPTION ? "no " + key : "";
        }

        /** Its peer has got it. */
        void handle(Call call) throws IOException {
            if (handled.incrementAndGet() != 1) {
                complain("came %d times: %s".formatted(handled.get(), this));
            }
            look(call);
            switch (answer) {
                case AT_ONCE -> answer(call);
                case LATER -> later(() -> answer(call));
                case LATER_AND_KEPT -> {
                    Call kept = call.retain();
                    later(
                            () -> {
                                look(kept);
                                answer(kept);
                            });
                }
                case ERROR -> call.fail(error());
                case EXCEPTION -> throw new IOException(error());
                case TOO_LATE -> {
                    unanswered.set(call);
                    if (ended) {
                        answerTooLate();
                    }
                }
                case NONE -> {}
            }
        }

        private void look(Call call) {
            MemorySegment data = call.data();
            if (data.byteSize() != request.byteSize() || Flow.mismatch(data, 0, key, 0) != -1) {
                complain("came with other bytes: " + this);
            }
        }

        private void answer(Call call) {
            MemorySegment data = MemorySegment.ofArray(new byte[answerBytes]);
            Flow.fill(data, key, 1);
            answered = true; // first: the peer may have it before this returns
            call.answer(data);
        }
    }

    /** Mostly next to a limit of either side; at least {@link #NAME_BYTES}. */
    private int length(MessageChannel channel, Random by) {
        int most = Objects.requireNonNull(channel.calls).mostBytes();
        int limit =
                switch (by.nextInt(6)) {
                    case 0 -> ofServer.eagerLimit() - CallTable.HEADER_BYTES;
                    case 1 -> ofClients.eagerLimit() - CallTable.HEADER_BYTES;
                    case 2 -> most;
                    case 3 -> 1 + by.nextInt(most);
                    default -> 1 + by.nextInt(200);
                };
        int length = Math.clamp(limit + by.nextInt(3) - 1, NAME_BYTES, most);
        return bytesLeft.addAndGet(-length) < 0 ? Math.min(length, 500) : length;
    }

    /** Has one side of a channel call the other. */
    private Asked ask(Life life, boolean up, Random by) {
        MessageChannel channel = up ? life.client : Objects.requireNonNull(life.server);
        Asked made = new Asked(life, up, channel, by.nextLong(), by);
        calls.put(made.request.get(JAVA_LONG_UNALIGNED, 0), made);
        made.begin(channel);
        return made;
    }

    /** A call has come, to either side. */
    private void called(Call call) throws IOException {
        MemorySegment data = call.data();
        Asked asked =
                data.byteSize() < NAME_BYTES ? null : calls.get(data.get(JAVA_LONG_UNALIGNED, 0));
        if (asked == null) {
            complain("a call came that nobody made: " + data);
            return;
        }
        Life life = asked.life;
        if (asked.up && life.server == null) {
            life.server = call.channel();
        }
        if (call.channel() != (asked.up ? life.server : life.client)) {
            complain("%s came on %s".formatted(asked, call.channel()));
        }
        if (asked.up && asked.key % 8 == 0 && call.channel().isOpen()) {
            var _ = ask(life, false, new Random(asked.key));
        }
        asked.handle(call);
    }

    // ---- its course

    private void client(MessageClient from, Random by) {
        ArrayDeque<Asked> waiting = new ArrayDeque<>();
        try {
            for (int i = 0; i < budget / clients && wrong().isEmpty(); i++) {
                Life life = byChannel.get(from.channel(LONG));
                waiting.add(ask(life, true, by));
                if (by.nextInt(20) == 0) {
                    waiting.getLast().cancel();
                }
                if (waiting.size() > by.nextInt(MOST_WAITING)) {
                    waiting.remove().await();
                }
                if (by.nextInt(ENDED_EVERY) == 0) {
                    disturb(life, by);
                }
            }
            waiting.forEach(Asked::await);
        } catch (Throwable thrown) {
            thrown.printStackTrace(System.out);
            complain("a client ended with " + thrown);
        }
    }

    private void disturb(Life life, Random by) throws InterruptedException {
        faults.incrementAndGet();
        MessageChannel end = by.nextBoolean() ? life.client : life.server;
        int how = by.nextInt(4);
        if (how == 0 || end == null) {
            place.disturb(by);
            return;
        }
        life.ended = true;
        switch (how) {
            case 1 -> end.fail(Status.INTERNAL_ERROR, "of a test", null);
            case 2 -> end.close();
            default -> {
                var _ = end.closeAsync();
            }
        }
    }

    @Override
    void course() throws Exception {
        Calls handler = Calls.answeredBy(this::called);
        InetSocketAddress address = Objects.requireNonNull(place.address);
        try (MessageServer server =
                MessageServer.listen(far, address, ofServer, 1000, handler, channel -> {})) {
            List<MessageClient> all = new ArrayList<>();
            List<Consumer<Random>> running = new ArrayList<>();
            for (int i = 0; i < clients; i++) {
                MessageClient client = startClient(server, ofClients, handler, this::opened);
                all.add(client);
                running.add(by -> client(client, by));
            }
            runAll(running);
            await("calls", () -> calls.values().stream().allMatch(Asked::isDone));
            lives.forEach(Life::checkEnd);
            await("answers", () -> lives.stream().allMatch(this::awaitsNone));
            all.forEach(MessageClient::close);
            await("channels of the server", () -> server.channelCount() == 0);
        }
        awaitLater();
        await("channels", () -> lives.stream().allMatch(one -> one.client.isClosed()));
        lives.forEach(life -> checkNoneIsLeft(life.client));
        arrived = (int) calls.values().stream().filter(one -> one.handled.get() > 0).count();
    }

    /** Whether the sides of an open channel have all answers that will come. */
    private boolean awaitsNone(Life life) {
        MessageChannel other = life.server;
        return !life.client.isOpen()
                || (awaited(life.client) <= unanswered(life, true)
                        && (other == null || awaited(other) <= unanswered(life, false)));
    }

    private long unanswered(Life life, boolean up) {
        return calls.values().stream()
                .filter(one -> one.life == life && one.up == up && one.answer == Answer.NONE)
                .filter(one -> one.handled.get() > 0)
                .count();
    }

    private static int awaited(MessageChannel channel) {
        try (var _ = channel.lock.hold()) {
            return Objects.requireNonNull(channel.calls).count();
        }
    }

    private void checkNoneIsLeft(MessageChannel ended) {
        if (awaited(ended) > 0) {
            complain("%s has ended, and still waits for answers".formatted(ended));
        }
    }

    private void opened(MessageChannel channel) {
        Life life = new Life(channel);
        byChannel.put(channel, life);
        lives.add(life);
    }
}
