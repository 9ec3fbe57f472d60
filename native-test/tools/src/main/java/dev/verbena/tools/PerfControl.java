package dev.verbena.tools;

import dev.verbena.Access;
import dev.verbena.Adapter;
import dev.verbena.BufferList;
import dev.verbena.CompletionQueue;
import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
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
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The words between the two sides before and after each measurement, on a connection of their own:
 * while one runs, nobody looks here, and both sides are asleep where they have nothing to do.
 */
final class PerfControl implements AutoCloseable {
    /** What a word is about. */
    enum Kind {
        /** The client: make ready for so many messages of a size. */
        ROUND,
        /** The server: it is. */
        READY,
        /** The client: that is over. */
        OVER,
        /** The server: all that came is what it ought to be. */
        CHECKED,
        /** Either: something failed, with a sentence. */
        FAILED
    }

    /**
     * A word.
     *
     * @param kind what it is about
     * @param number of the round
     * @param size of messages, of a round
     * @param count of messages, of a round
     * @param address of the memory of who says it, with a round and its answer
     * @param token for that memory
     * @param window the token of the first window, in the answer to a round
     * @param text the sentence of a failure
     */
    record Word(
            Kind kind,
            int number,
            int size,
            int count,
            long address,
            int token,
            int window,
            String text) {
        Word(Kind kind) {
            this(kind, 0, 0, 0, 0, 0, 0, "");
        }

        static Word failed(String text) {
            return new Word(Kind.FAILED, 0, 0, 0, 0, 0, 0, text);
        }
    }

    private static final int BYTES = 512;
    private static final int TEXT_AT = 40;
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

    private static final int INBOXES = 4; // more words than are under way at any time
    private static final int PAGE = 4096;

    /** After a request failed: how long until it is known whether the peer just left. */
    private static final long GRACE_SECONDS = 2;

    /**
     * After the peer's requests failed: how long until it has said so, which it does after that.
     */
    private static final Duration LAST_WORD = Duration.ofSeconds(2 * GRACE_SECONDS);

    private final Deque<AutoCloseable> made = new ArrayDeque<>();
    private final Arena arena = Arena.ofShared();
    private final Duration timeout;
    private final String peer;
    private final CompletionQueue queue;
    private final QueuePair queuePair;
    private final MemoryRegion memory;
    private final Completions completion = new Completions(1);
    private final CompletableFuture<Status> left = new CompletableFuture<>();
    private final Deque<Word> heard = new ArrayDeque<>();
    private int ownUnderWay;
    private boolean armed;

    /**
     * Makes one.
     *
     * @param timeout how long a word of the client's, or the answer to it, may take
     * @param server whether it is the server's
     */
    PerfControl(Adapter adapter, Duration timeout, boolean server) {
        this.timeout = timeout;
        this.peer = server ? "client" : "server";
        made.push(arena::close);
        try {
            ProtectionDomain domain = adapter.createProtectionDomain();
            made.push(domain::close);
            queue = adapter.createCompletionQueue(2 * INBOXES);
            made.push(queue::close);
            queuePair =
                    domain.createQueuePair(queue, queue, QueuePairLimits.depths(INBOXES, INBOXES));
            made.push(queuePair::close);
            memory =
                    domain.register(
                            arena.allocate((INBOXES + 1) * BYTES, PAGE), Access.LOCAL_WRITE);
            made.push(memory::close);
            for (int i = 0; i < INBOXES; i++) {
                postReceive(i);
            }
            made.push(PerfStop.waking(() -> peerLeft(Status.SUCCESS)));
        } catch (Throwable t) {
            close();
            throw t;
        }
    }

    QueuePair queuePair() {
        return queuePair;
    }

    /** From now on, the peer's leaving ends all waiting. */
    void watch(Connector connector) {
        connector.onDisconnect(this::peerLeft);
    }

    private void peerLeft(Status status) {
        left.complete(status);
        try {
            queuePair.flush();
        } catch (IllegalStateException e) {
            // Closed: this side has left, too, and nobody waits.
        }
    }

    private void postReceive(int box) {
        queuePair.receive(box, new BufferList(1).add(memory, (long) box * BYTES, BYTES)).orThrow();
    }

    /** Says something, and waits until the peer has it. */
    void say(Word word) {
        MemorySegment outbox = memory.memory().asSlice(INBOXES * BYTES, BYTES);
        write(word, outbox);
        BufferList buffer = new BufferList(1).add(memory, INBOXES * BYTES, BYTES);
        own(queuePair.send(0, buffer));
        while (ownUnderWay > 0) {
            if (!look(timeout)) {
                throw new ToolFailure(
                        "The %s did not take a word within %d s", peer, timeout.toSeconds());
            }
        }
    }

    private void own(Status status) {
        if (status != Status.SUCCESS) {
            throw gone("A request was refused: " + status);
        }
        ownUnderWay++;
    }

    /**
     * Waits for what the peer says to this side's word.
     *
     * @throws ToolFailure when it does not say anything in time, says that something failed, left,
     *     or says something else
     */
    Word hear(Kind kind) {
        while (heard.isEmpty()) {
            if (!look(timeout)) {
                throw new ToolFailure(
                        "The %s did not answer within %d s (--timeout)", peer, timeout.toSeconds());
            }
        }
        return checked(heard.remove(), kind);
    }

    /**
     * Waits for what the peer says, as long as it is there: now and then, asks its device with a
     * write of nothing.
     *
     * @return what it says, or null when it left instead
     */
    Word hearWhenever() {
        while (heard.isEmpty()) {
            try {
                if (!look(timeout) && ownUnderWay == 0) {
                    own(queuePair.write(0, new BufferList(1), 0, 0, OpFlags.NONE));
                }
            } catch (ToolFailure e) {
                if (leftByPeer(left)) {
                    return null;
                }
                throw e;
            }
        }
        return heard.remove();
    }

    /**
     * Makes sure of a word's kind.
     *
     * @throws ToolFailure for another, with the sentence of a failure
     */
    Word checked(Word word, Kind kind) {
        if (word.kind() == Kind.FAILED) {
            throw says(word);
        }
        if (word.kind() != kind) {
            throw new ToolFailure("The %s says %s instead of %s", peer, word.kind(), kind);
        }
        return word;
    }

    /** Says what failed, to a peer that may have left already. */
    void sayLast(String sentence) {
        try {
            say(Word.failed(sentence));
        } catch (ToolFailure e) {
            // It has, and has said why, or cannot be helped.
        }
    }

    /**
     * After something failed here: what the peer says failed there, if it does, beside. Its
     * connections may end before it has said so.
     *
     * @param here what failed here
     * @return what the user should see
     */
    ToolFailure lastWord(ToolFailure here) {
        try {
            do {
                for (Word word = heard.poll(); word != null; word = heard.poll()) {
                    if (word.kind() == Kind.FAILED) {
                        return new ToolFailure(
                                "%s. The %s says: %s", here.getMessage(), peer, word.text());
                    }
                }
            } while (look(LAST_WORD));
        } catch (ToolFailure | VerbenaException e) {
            // The connection is over, and the peer had nothing to say.
        }
        return here;
    }

    private ToolFailure says(Word failure) {
        return new ToolFailure("The %s says: %s", peer, failure.text());
    }

    /**
     * Waits until there is something new.
     *
     * @return false when nothing came in time
     */
    private boolean look(Duration patience) {
        long end = System.nanoTime() + patience.toNanos();
        while (queue.poll(completion) == 0) {
            long rest = end - System.nanoTime();
            if (rest <= 0) {
                return false;
            }
            if (armed) {
                // Armed before that poll: whatever came since wakes this up.
                queue.await(Duration.ofNanos(rest));
                armed = false;
            } else {
                queue.arm(NotifyType.ANY);
                armed = true;
            }
        }
        take();
        return true;
    }

    private void take() {
        if (completion.status(0) != Status.SUCCESS) {
            throw gone(
                    "A %s failed: %s"
                            .formatted(completion.type(0), completion.status(0).toString()));
        }
        if (completion.type(0) == OperationType.RECEIVE) {
            int box = (int) completion.context(0);
            heard.add(read(memory.memory().asSlice((long) box * BYTES, BYTES)));
            postReceive(box);
        } else {
            ownUnderWay--;
        }
    }

    private ToolFailure gone(String otherwise) {
        return leftByPeer(left)
                ? new ToolFailure("The %s disconnected before all was over", peer)
                : new ToolFailure("The %s cannot be reached any more. %s", peer, otherwise);
    }

    /** Whether the peer has disconnected; when its word may still be under way, waits for it. */
    static boolean leftByPeer(CompletableFuture<Status> left) {
        try {
            return left.get(GRACE_SECONDS, TimeUnit.SECONDS) == Status.CONNECTION_INVALID;
        } catch (TimeoutException | ExecutionException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    // ---- words in memory

    private static void write(Word word, MemorySegment to) {
        byte[] text = word.text().getBytes(StandardCharsets.UTF_8);
        int length = Math.min(text.length, BYTES - TEXT_AT);
        to.set(INT, 0, word.kind().ordinal());
        to.set(INT, 4, word.number());
        to.set(INT, 8, word.size());
        to.set(INT, 12, word.count());
        to.set(LONG, 16, word.address());
        to.set(INT, 24, word.token());
        to.set(INT, 28, word.window());
        to.set(INT, 32, length);
        MemorySegment.copy(text, 0, to, ValueLayout.JAVA_BYTE, TEXT_AT, length);
    }

    private static Word read(MemorySegment from) {
        int kind = from.get(INT, 0);
        int length = from.get(INT, 32);
        if (kind < 0 || kind >= Kind.values().length || length < 0 || length > BYTES - TEXT_AT) {
            throw new ToolFailure("What came is no word of perf's");
        }
        byte[] text = from.asSlice(TEXT_AT, length).toArray(ValueLayout.JAVA_BYTE);
        return new Word(
                Kind.values()[kind],
                from.get(INT, 4),
                from.get(INT, 8),
                from.get(INT, 12),
                from.get(LONG, 16),
                from.get(INT, 24),
                from.get(INT, 28),
                new String(text, StandardCharsets.UTF_8));
    }

    @Override
    public void close() {
        closeAll(made);
    }

    /** Closes what was made, the last first. */
    static void closeAll(Deque<AutoCloseable> made) {
        while (!made.isEmpty()) {
            try {
                made.pop().close();
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new AssertionError("nothing here throws those", e);
            }
        }
    }
}
