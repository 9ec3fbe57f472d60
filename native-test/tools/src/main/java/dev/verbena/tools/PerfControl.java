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
import java.util.function.Consumer;

/**
 * The messages between client and server before and after each measurement, on a connection of
 * their own. Nothing polls this connection while a measurement runs; otherwise both sides sleep
 * while they wait for the other.
 */
final class PerfControl implements AutoCloseable {
    /** What a message is for. */
    enum Kind {
        /** From the client: prepare for this many messages of this size. */
        ROUND,
        /** From the server: it is prepared. */
        READY,
        /** From the client: the measurement is over. */
        OVER,
        /** From the server: all data arrived as it was sent; with the rate of its own messages. */
        CHECKED,
        /** From either: something failed; a sentence says what. */
        FAILED
    }

    /**
     * A message.
     *
     * @param kind what it is for
     * @param number of the round
     * @param size of messages, of a round
     * @param count of messages, of a round; or {@link PerfLoops#BY_TIME}
     * @param address of the sender's memory, in ROUND and READY; a rate, in CHECKED
     * @param token for that memory
     * @param window the token of the first window, in the answer to a round
     * @param text the sentence of a failure
     */
    record Message(
            Kind kind,
            int number,
            int size,
            int count,
            long address,
            int token,
            int window,
            String text) {
        /** With the fewest messages that this side has sent on a queue pair. */
        static Message over(int count) {
            return new Message(Kind.OVER, 0, 0, count, 0, 0, 0, "");
        }

        /** Likewise, and with their rate. */
        static Message checked(int count, double rate) {
            return new Message(
                    Kind.CHECKED, 0, 0, count, Double.doubleToRawLongBits(rate), 0, 0, "");
        }

        static Message failed(String text) {
            return new Message(Kind.FAILED, 0, 0, 0, 0, 0, 0, text);
        }
    }

    private static final int BYTES = 512;
    private static final int TEXT_AT = 40;
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

    private static final int RECEIVES = 4; // more messages than are outstanding at any time

    /** After a request failed: how long until it is known whether the peer just left. */
    private static final long GRACE_SECONDS = 2;

    /**
     * How long to wait for the peer's FAILED message after a failure here; the peer sends it last.
     */
    private static final Duration PEERS_FAILURE_TIMEOUT = Duration.ofSeconds(2 * GRACE_SECONDS);

    private final Deque<AutoCloseable> made = new ArrayDeque<>();
    private final Duration timeout;
    private final String peer;
    private final CompletionQueue queue;
    private final QueuePair queuePair;
    private final MemoryRegion memory;
    private final Completions completion = new Completions(1);
    private final CompletableFuture<Status> left = new CompletableFuture<>();
    private final Deque<Message> received = new ArrayDeque<>();
    private int outstanding;
    private boolean armed;

    /**
     * Makes one.
     *
     * @param timeout how long a client's message, or the answer to it, may take
     * @param server whether it is the server's
     */
    PerfControl(Adapter adapter, Duration timeout, boolean server) {
        this.timeout = timeout;
        this.peer = server ? "client" : "server";
        try {
            ProtectionDomain domain = adapter.createProtectionDomain();
            made.push(domain::close);
            queue = adapter.createConfinedCompletionQueue(2 * RECEIVES);
            made.push(queue::close);
            queuePair =
                    domain.createQueuePair(
                            queue, queue, QueuePairLimits.depths(RECEIVES, RECEIVES));
            made.push(queuePair::close);
            memory = domain.allocate((RECEIVES + 1) * BYTES, Access.LOCAL_WRITE);
            made.push(memory::close);
            for (int i = 0; i < RECEIVES; i++) {
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

    boolean peerHasLeft() {
        return left.isDone();
    }

    /** On the thread that notices it. */
    void whenLeft(Consumer<Status> action) {
        var _ = left.thenAccept(action);
    }

    /** From now on, all waiting ends when the peer disconnects. */
    void watch(Connector connector) {
        connector.onDisconnect(this::peerLeft);
    }

    private void peerLeft(Status status) {
        left.complete(status);
        try {
            queuePair.flush();
        } catch (IllegalStateException e) {
            // Closed already: nobody waits on it.
        }
    }

    private void postReceive(int box) {
        queuePair.receive(box, new BufferList(1).add(memory, (long) box * BYTES, BYTES)).orThrow();
    }

    /** Sends a message and waits until the peer has it. */
    void send(Message message) {
        MemorySegment outbox = memory.memory().asSlice(RECEIVES * BYTES, BYTES);
        write(message, outbox);
        BufferList buffer = new BufferList(1).add(memory, RECEIVES * BYTES, BYTES);
        own(queuePair.send(0, buffer).status());
        while (outstanding > 0) {
            if (!awaitOne(timeout)) {
                throw new ToolFailure(
                        "The %s did not receive a message within %d s (--timeout)",
                        peer, timeout.toSeconds());
            }
        }
    }

    private void own(Status status) {
        if (status != Status.SUCCESS) {
            throw gone("A request was refused: " + status);
        }
        outstanding++;
    }

    /**
     * Waits for the peer's answer to this side's message.
     *
     * @throws ToolFailure when there is no answer in time, the peer failed or left, or the answer
     *     is of another kind
     */
    Message receive(Kind kind) {
        while (received.isEmpty()) {
            if (!awaitOne(timeout)) {
                throw new ToolFailure(
                        "The %s did not answer within %d s (--timeout)", peer, timeout.toSeconds());
            }
        }
        return checked(received.remove(), kind);
    }

    /**
     * Waits for the peer's next message, for as long as the peer is there. Each time nothing came
     * within the timeout, an empty write finds out whether the peer's device still answers.
     *
     * @return the message, or null when the peer left instead
     */
    Message receiveUnlessPeerLeft() {
        while (received.isEmpty()) {
            try {
                if (!awaitOne(timeout) && outstanding == 0) {
                    own(queuePair.write(0, new BufferList(1), 0, 0, OpFlags.NONE).status());
                }
            } catch (ToolFailure e) {
                if (leftByPeer(left)) {
                    return null;
                }
                throw e;
            }
        }
        return received.remove();
    }

    /**
     * Checks a message's kind.
     *
     * @throws ToolFailure for another, with the sentence of a failure
     */
    Message checked(Message message, Kind kind) {
        if (message.kind() == Kind.FAILED) {
            throw says(message);
        }
        if (message.kind() != kind) {
            throw new ToolFailure(
                    "The %s sent %s instead of %s; both sides need the same version",
                    peer, message.kind(), kind);
        }
        return message;
    }

    /** Sends what failed to a peer that may have left already. */
    void sendFailure(String sentence) {
        try {
            send(Message.failed(sentence));
        } catch (ToolFailure e) {
            // The peer left, or cannot be reached: there is nobody to inform.
        }
    }

    /**
     * Adds the peer's FAILED message to a failure here, if one arrives. The peer's connections may
     * end before it has sent that.
     *
     * @param here what failed here
     * @return what the user should see
     */
    ToolFailure withFailureOfPeer(ToolFailure here) {
        try {
            do {
                for (Message message = received.poll();
                        message != null;
                        message = received.poll()) {
                    if (message.kind() == Kind.FAILED) {
                        return new ToolFailure(
                                "%s. The %s reports: %s", here.getMessage(), peer, message.text());
                    }
                }
            } while (awaitOne(PEERS_FAILURE_TIMEOUT));
        } catch (ToolFailure | VerbenaException e) {
            // The connection is over, and the peer had nothing to say.
        }
        return here;
    }

    private ToolFailure says(Message failure) {
        return new ToolFailure("The %s reports: %s", peer, failure.text());
    }

    /**
     * Waits until there is something new.
     *
     * @return false when nothing came in time
     */
    private boolean awaitOne(Duration timeout) {
        long end = System.nanoTime() + timeout.toNanos();
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
            received.add(read(memory.memory().asSlice((long) box * BYTES, BYTES)));
            postReceive(box);
        } else {
            outstanding--;
        }
    }

    private ToolFailure gone(String otherwise) {
        return leftByPeer(left)
                ? new ToolFailure("The %s disconnected before the measurement was complete", peer)
                : new ToolFailure("The %s cannot be reached any more. %s", peer, otherwise);
    }

    /** Whether the peer has disconnected; waits a moment, as that may not be known yet. */
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

    // ---- messages in memory

    private static void write(Message message, MemorySegment to) {
        byte[] text = message.text().getBytes(StandardCharsets.UTF_8);
        int length = Math.min(text.length, BYTES - TEXT_AT);
        to.set(INT, 0, message.kind().ordinal());
        to.set(INT, 4, message.number());
        to.set(INT, 8, message.size());
        to.set(INT, 12, message.count());
        to.set(LONG, 16, message.address());
        to.set(INT, 24, message.token());
        to.set(INT, 28, message.window());
        to.set(INT, 32, length);
        MemorySegment.copy(text, 0, to, ValueLayout.JAVA_BYTE, TEXT_AT, length);
    }

    private static Message read(MemorySegment from) {
        int kind = from.get(INT, 0);
        int length = from.get(INT, 32);
        if (kind < 0 || kind >= Kind.values().length || length < 0 || length > BYTES - TEXT_AT) {
            throw new ToolFailure(
                    "A message arrived that is not perf's; both sides need the same version");
        }
        byte[] text = from.asSlice(TEXT_AT, length).toArray(ValueLayout.JAVA_BYTE);
        return new Message(
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
