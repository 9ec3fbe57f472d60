package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Access;
import dev.verbena.BufferList;
import dev.verbena.MemoryRegion;
import dev.verbena.PostResult;
import dev.verbena.ProtectionDomain;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.SharedReceiveQueue;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;

import org.jspecify.annotations.Nullable;

import java.util.Arrays;

/**
 * The receives of {@link RawConnection}s with their memory. {@link #shared} makes a pool that many
 * connections take their receives from: memory for as many messages as come at once, not for as
 * many as all peers together could send. When it is empty, peers' messages wait in their own queues
 * (RNR), so one peer can hold up the others.
 *
 * <p>When the pool's device fails, or refuses a receive that no message has used, all connections
 * of the pool end.
 *
 * <p>The poller that it was made for must be the one of all its connections, which are closed
 * first.
 */
public final class RawReceives implements AutoCloseable {
    private final Poller poller;
    private final PollerQueue queue;
    private final int completions; // reserved in the queue
    private final MemoryRegion region;
    private final BufferList[] buffers;
    private final RawMessage[] messages;
    private final @Nullable SharedReceiveQueue shared;
    private @Nullable QueuePair pair; // where they are not shared

    private RawReceives(
            Poller poller,
            PollerQueue queue,
            int completions,
            int count,
            int bytes,
            boolean share) {
        this.poller = poller;
        this.queue = queue;
        this.completions = completions;
        this.buffers = new BufferList[count];
        this.messages = new RawMessage[count];
        ProtectionDomain domain = poller.domain();
        this.region = domain.allocate((long) count * bytes, Access.LOCAL_WRITE);
        SharedReceiveQueue made = null;
        try {
            made = share ? domain.createSharedReceiveQueue(count, 1, this::broke) : null;
            for (int i = 0; i < count; i++) {
                long at = (long) i * bytes;
                buffers[i] = new BufferList(1).add(region, at, bytes);
                messages[i] = new RawMessage(this, i, region.memory().asSlice(at, bytes));
            }
        } catch (Throwable t) {
            Arrays.fill(buffers, null); // out of memory, most likely: a close needs some
            Arrays.fill(messages, null);
            if (made != null) {
                made.close();
            }
            region.close();
            throw t;
        }
        this.shared = made;
    }

    /**
     * Makes a pool, and posts its receives.
     *
     * @param poller polls for all connections that use it
     * @param count how many receives, at least 1
     * @param bytes how long each is, at least 1
     * @return the pool, to be closed by the caller after its connections
     * @throws VerbenaException as {@link ProtectionDomain#createSharedReceiveQueue} does
     */
    @CheckReturnValue
    public static RawReceives shared(Poller poller, int count, int bytes) {
        checkSize(count, bytes);
        Arguments.notNull(poller, "poller");
        PollerQueue queue = poller.reserve(count);
        RawReceives made = null;
        try {
            made = new RawReceives(poller, queue, count, count, bytes, true);
            made.postAll();
            return made;
        } catch (Throwable t) {
            if (made != null) {
                made.close();
            } else {
                poller.release(queue, count);
            }
            throw t;
        }
    }

    static void checkSize(int count, int bytes) {
        if (count < 1 || bytes < 1) {
            throw new IllegalArgumentException(
                    "A raw connection or a pool has 1 or more receives of 1 or more bytes each, not %,d of %,d bytes"
                            .formatted(count, bytes));
        }
    }

    /**
     * Throws if a connection of this poller cannot use the receives: another thread polls for them.
     */
    void checkPoller(Poller ofChannel) {
        if (ofChannel != poller) {
            throw new IllegalArgumentException(
                    "The receives were made for another poller than the connection's, which would not poll for them. Use RawReceives.shared(poller, ...) with the same poller");
        }
    }

    /** Those of one connection, which has reserved the completions. */
    static RawReceives of(Poller poller, PollerQueue queue, int count, int bytes) {
        return new RawReceives(poller, queue, 0, count, bytes, false);
    }

    /** The queue pair of a connection; receives that are its own are posted. */
    QueuePair createPair(PollerQueue sends, QueuePairLimits limits) {
        SharedReceiveQueue from = shared;
        if (from != null) {
            return poller.domain().createQueuePair(sends.queue(), queue.queue(), from, limits);
        }
        QueuePair made = poller.domain().createQueuePair(sends.queue(), queue.queue(), limits);
        try {
            pair = made;
            postAll();
            return made;
        } catch (Throwable t) {
            made.close();
            throw t;
        }
    }

    private void postAll() {
        for (int i = 0; i < buffers.length; i++) {
            post(i).orThrow();
        }
    }

    PostResult post(int slot) {
        SharedReceiveQueue to = shared;
        if (to != null) {
            return to.receive(slot, buffers[slot]);
        }
        QueuePair own = pair;
        return own == null ? PostResult.NOT_CONNECTED : own.receive(slot, buffers[slot]);
    }

    /**
     * Returns an unused receive to the pool, for other connections. If it is refused, all
     * connections of the pool end, because it would be missing for ever.
     */
    void giveBack(int slot) {
        if (shared != null) {
            PostResult result = post(slot);
            if (!result.isAccepted()) {
                poller.failAllWith(
                        this, result.status(), "a shared receive was refused: " + result.reason());
            }
        }
    }

    RawMessage message(int slot) {
        return messages[slot];
    }

    PollerQueue queue() {
        return queue;
    }

    boolean isShared() {
        return shared != null;
    }

    /** By a callback thread: the shared queue or its device has failed. */
    private void broke(Status status) {
        poller.failAllWith(this, status, "the shared receive queue has failed");
    }

    /**
     * How many receives it has.
     *
     * @return the number it was made with
     */
    @CheckReturnValue
    public int count() {
        return buffers.length;
    }

    /** Frees the receives and their memory. */
    @Override
    public void close() {
        try {
            if (shared != null) {
                shared.close();
            }
        } finally {
            region.close();
            if (completions > 0) {
                poller.release(queue, completions);
            }
        }
    }
}
