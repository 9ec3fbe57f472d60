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
import dev.verbena.RemoteMemory;
import dev.verbena.Status;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One side of Ping's connection: a queue pair with all it needs, a receive for the peer's next
 * message, and how to wait. For one thread.
 */
final class PingEnd implements AutoCloseable {
    private static final int DEPTH = 8; // one request and the messages before it; never filled

    /** After a request failed: how long until it is known whether the peer just left. */
    private static final long GRACE_SECONDS = 2;

    private final PingOptions options;
    private final Deque<AutoCloseable> made = new ArrayDeque<>();
    private final ProtectionDomain domain;
    private final CompletionQueue queue;
    private final QueuePair queuePair;
    private final MemoryRegion inbox;
    private final BufferList inboxBuffer;
    private final Completions completion = new Completions(1);
    private final CompletableFuture<Status> left = new CompletableFuture<>();
    private boolean armed;

    PingEnd(Adapter adapter, PingOptions options) {
        this.options = options;
        try {
            domain = adapter.createProtectionDomain();
            made.push(domain::close);
            queue = adapter.createConfinedCompletionQueue(DEPTH + 1);
            made.push(queue::close);
            queuePair = domain.createQueuePair(queue, queue, QueuePairLimits.depths(DEPTH, 1));
            made.push(queuePair::close);
            inbox = register(RpingMessage.BYTES, Access.LOCAL_WRITE);
            inboxBuffer = whole(inbox);
            postReceive();
        } catch (Throwable t) {
            close();
            throw t;
        }
    }

    QueuePair queuePair() {
        return queuePair;
    }

    /** Registers memory that is closed with this end. */
    MemoryRegion register(long bytes, Access... rights) {
        MemoryRegion region = domain.allocate(bytes, rights);
        made.push(region::close);
        return region;
    }

    static BufferList whole(MemoryRegion region) {
        return BufferList.of(region);
    }

    /** From now on, all waiting ends when the peer disconnects. */
    void watch(Connector connector) {
        connector.onDisconnect(
                status -> {
                    left.complete(status);
                    try {
                        queuePair.flush();
                    } catch (IllegalStateException e) {
                        // Closed already: nobody waits on it.
                    }
                });
    }

    private void postReceive() {
        queuePair.receive(0, inboxBuffer).orThrow();
    }

    /** Sends a message, without waiting; a failure shows at the next wait. */
    void send(BufferList message) {
        post(queuePair.send(0, message, OpFlags.SILENT_SUCCESS), "A message could not be sent");
    }

    /** Reads the peer's memory, and waits until all of it is here. */
    void read(MemoryRegion into, RemoteMemory from) {
        BufferList buffer = new BufferList(1).add(into, 0, from.bytes());
        post(queuePair.read(0, buffer, from, 0, OpFlags.NONE), "A read");
        awaitOwn(OperationType.READ);
    }

    /** Writes into the peer's memory, and waits until it is done. */
    void write(MemoryRegion from, long bytes, RemoteMemory to) {
        BufferList buffer = new BufferList(1).add(from, 0, bytes);
        post(queuePair.write(0, buffer, to, 0, OpFlags.NONE), "A write");
        awaitOwn(OperationType.WRITE);
    }

    private void post(Status status, String what) {
        if (status != Status.SUCCESS) {
            throw new ToolFailure(
                    peerLeft() ? "The peer disconnected in the middle of a round" : what + ": %s",
                    status);
        }
    }

    private void awaitOwn(OperationType type) {
        next(type + " of its data ends");
        if (completion.status(0) != Status.SUCCESS) {
            throw peerLeft()
                    ? new ToolFailure("The peer disconnected in the middle of a round")
                    : failed();
        }
        if (completion.type(0) != type) {
            throw new ToolFailure(
                    "The peer sent a message out of turn: does it speak rping's protocol?");
        }
    }

    /**
     * Waits for the peer's next message.
     *
     * @return what it says, or null when the peer left instead
     */
    RemoteMemory receive() {
        next("message from the peer came");
        if (completion.status(0) != Status.SUCCESS) {
            if (peerLeft()) {
                return null;
            }
            throw failed();
        }
        if (completion.bytes(0) != RpingMessage.BYTES) {
            throw new ToolFailure(
                    "The peer sent a message of %d bytes where rping sends %d: does it speak rping's protocol?",
                    completion.bytes(0), RpingMessage.BYTES);
        }
        RemoteMemory said = RpingMessage.read(inbox.memory());
        postReceive();
        return said;
    }

    private ToolFailure failed() {
        return new ToolFailure(
                "A %s failed: %s", completion.type(0), completion.status(0).toString());
    }

    /** Whether the peer has disconnected; waits a moment, as that may not be known yet. */
    private boolean peerLeft() {
        try {
            return left.get(GRACE_SECONDS, TimeUnit.SECONDS) != Status.SUCCESS;
        } catch (TimeoutException | ExecutionException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private void next(String what) {
        long end = System.nanoTime() + options.timeout().toNanos();
        while (queue.poll(completion) == 0) {
            long rest = end - System.nanoTime();
            if (rest <= 0) {
                throw new ToolFailure("No %s within %d s", what, options.seconds);
            }
            if (options.spin) {
                Thread.onSpinWait();
            } else if (armed) {
                // Armed before that poll: whatever came since wakes this up.
                queue.await(Duration.ofNanos(rest));
                armed = false;
            } else {
                queue.arm(NotifyType.ANY);
                armed = true;
            }
        }
    }

    /** Closes what was made, the last first. */
    @Override
    public void close() {
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
