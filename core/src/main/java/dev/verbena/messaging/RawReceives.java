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
import dev.verbena.internal.util.Closing;
import dev.verbena.internal.util.Log;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;

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
    // A pool that grows begins with so many, or as many as have so many bytes; it doubles up to the
    // others. It has always as many as one channel needs.
    private static final int FIRST = 64;
    private static final int FIRST_BYTES = 1 << 20;
    private static final int MOST = 2048;
    private static final int MOST_BYTES = 64 << 20;
    private static final int QUIET_TICKS = 50; // until it shrinks

    private final Poller poller;
    private final PollerQueue queue;
    private final int completions; // reserved in the queue
    private final int bytes; // of each receive
    private final boolean forMessages; // of message channels
    private final int least; // receives that it always has
    private final BufferList[] buffers;
    private final RawMessage[] messages;
    private final @Nullable SharedReceiveQueue shared;
    private @Nullable QueuePair pair; // where they are not shared

    // Changed by the polling thread, under the monitor.
    private final ArrayList<MemoryRegion> regions = new ArrayList<>(); // of the receives
    private volatile int count; // receives that have memory
    private volatile int keeps; // of those: the others are not posted again
    private final BitSet parked = new BitSet(); // of those others: not posted
    private volatile int needed; // by all connections
    private int quietTicks; // guarded by the monitor
    private boolean closed;
    private volatile boolean broken;
    private int heldAtClose; // messages that the program has still

    private RawReceives(
            Poller poller,
            PollerQueue queue,
            int completions,
            int first,
            int most,
            int bytes,
            boolean share,
            boolean forMessages) {
        this.poller = poller;
        this.queue = queue;
        this.completions = completions;
        this.bytes = bytes;
        this.forMessages = forMessages;
        this.least = first;
        this.buffers = new BufferList[most];
        this.messages = new RawMessage[most];
        SharedReceiveQueue made = null;
        try {
            made = share ? poller.domain().createSharedReceiveQueue(most, 1, this::broke) : null;
            add(first);
        } catch (Throwable t) {
            if (made != null) {
                made.close();
            }
            throw t;
        }
        this.shared = made;
    }

    private void add(int more) {
        int before = count;
        regions.ensureCapacity(regions.size() + 1); // first: there may be no memory for it
        MemoryRegion region = poller.domain().allocate((long) more * bytes, Access.LOCAL_WRITE);
        try {
            for (int i = 0; i < more; i++) {
                int slot = before + i;
                long at = (long) i * bytes;
                MemorySegment memory = region.memory().asSlice(at, bytes);
                buffers[slot] = new BufferList(1).add(region, at, bytes);
                messages[slot] = new RawMessage(this, slot, memory, forMessages);
            }
            regions.add(region);
        } catch (Throwable t) {
            Arrays.fill(buffers, before, before + more, null); // out of memory, most likely:
            Arrays.fill(messages, before, before + more, null); // a close needs some
            region.close();
            throw t;
        }
        count = before + more;
        keeps = before + more;
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
        return shared(Arguments.notNull(poller, "poller"), count, count, bytes, false);
    }

    /**
     * The pool of message channels. It grows when many messages come at once, up to what its
     * channels need.
     *
     * @param depth how many a channel needs at most: so many are always there
     * @param deepest how many the device takes at most
     */
    static RawReceives ofMessages(Poller poller, int depth, int deepest, int bytes) {
        int most = Math.clamp(Math.min(MOST, MOST_BYTES / bytes), depth, deepest);
        int first = Math.clamp(Math.min(FIRST, FIRST_BYTES / bytes), depth, most);
        return shared(poller, first, most, bytes, true);
    }

    private static RawReceives shared(
            Poller poller, int first, int most, int bytes, boolean forMessages) {
        PollerQueue queue = poller.reserve(most);
        RawReceives made = null;
        try {
            made = new RawReceives(poller, queue, most, first, most, bytes, true, forMessages);
            made.postFrom(0);
            return made;
        } catch (Throwable t) {
            if (made != null) {
                made.close();
            } else {
                poller.release(queue, most);
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
    static RawReceives of(
            Poller poller, PollerQueue queue, int count, int bytes, boolean forMessages) {
        return new RawReceives(poller, queue, 0, count, count, bytes, false, forMessages);
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
            postFrom(0);
            return made;
        } catch (Throwable t) {
            made.close();
            throw t;
        }
    }

    private void postFrom(int first) {
        for (int i = first; i < count; i++) {
            post(i).orThrow();
        }
    }

    /** Whether a channel may use it that needs receives of this length, and so many. */
    boolean fits(int length, int depth) {
        return length == bytes && depth <= least && !broken;
    }

    PostResult post(int slot) {
        SharedReceiveQueue to = shared;
        if (to != null) {
            return slot < keeps || !parks(slot)
                    ? to.receive(slot, buffers[slot])
                    : PostResult.ACCEPTED;
        }
        QueuePair own = pair;
        return own == null ? PostResult.NOT_CONNECTED : own.receive(slot, buffers[slot]);
    }

    // ---- growing and shrinking, where they are of message channels

    /** How many receives are posted; of a pool. */
    int outstanding() {
        return shared == null ? 0 : shared.outstanding();
    }

    /**
     * Whether messages that were not released have three quarters of the most that the pool can
     * have, and its channels may need more than that: then the last quarter is for all of them.
     */
    boolean areScarce() {
        int most = buffers.length;
        if (needed <= most || shared == null) {
            return false;
        }
        int kept = count - shared.outstanding();
        return kept > most / 4 * 3 && kept - parked() > most / 4 * 3;
    }

    private synchronized int parked() {
        return parked.cardinality();
    }

    /** A channel needs so many more receives, or fewer. */
    synchronized void need(int more) {
        needed += more;
    }

    /** By the polling thread: messages come faster than they are polled. */
    void busy() {
        if (forMessages && shared != null) {
            synchronized (this) {
                quietTicks = 0;
                int before = count;
                int more = Math.min(before, Math.min(needed, buffers.length) - before);
                if (keeps < before) {
                    keeps = before;
                } else if (more > 0) {
                    try {
                        add(more);
                        parked.set(before, count);
                    } catch (VerbenaException
                            | OutOfMemoryError e) { // the pool goes on with what it has
                        Log.warn("The receives of %s could not grow".formatted(poller), e);
                    }
                }
            }
            for (int slot = next(0); slot >= 0; slot = next(slot + 1)) {
                giveBack(slot);
            }
        }
    }

    private synchronized int next(int from) {
        int slot = parked.nextSetBit(from);
        if (slot >= 0) {
            parked.clear(slot);
        }
        return slot;
    }

    /** At a tick, by the polling thread: grows if most are held, or shrinks after a quiet time. */
    void tick() {
        if (shared != null && forMessages && outstanding() < keeps / 4) {
            busy();
        } else {
            shrinkIfQuiet();
        }
    }

    private synchronized void shrinkIfQuiet() { // another thread may just be parking the last one
        if (count > least && ++quietTicks > QUIET_TICKS) {
            keeps = count - (int) (regions.getLast().bytes() / bytes);
        }
    }

    /** Keeps a receive that comes back without a post, if there are more than are needed. */
    private synchronized boolean parks(int slot) {
        if (slot < keeps || closed) {
            return false;
        }
        parked.set(slot);
        if (parked.cardinality() == count - keeps) {
            Arrays.fill(buffers, keeps, count, null);
            Arrays.fill(messages, keeps, count, null);
            parked.clear();
            count = keeps;
            quietTicks = 0;
            Closing.quietly(this, regions.removeLast());
        }
        return true;
    }

    /**
     * Returns an unused receive to the pool, for other connections. If it is refused, all
     * connections of the pool end, because it would be missing for ever.
     */
    void giveBack(int slot) {
        if (shared != null) {
            PostResult result = post(slot);
            if (!result.isAccepted()) {
                String why = "a shared receive was refused: " + result.reason();
                // Later: the caller may hold the lock of one connection, and the others may have
                // theirs.
                poller.execute(() -> failAll(result.status(), why));
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

    /** By a connection that ends: closes it, unless others take their receives from it, too. */
    void release() {
        if (shared == null) {
            Closing.quietly(this, this);
        }
    }

    /** By a callback thread: the shared queue or its device has failed. */
    private void broke(Status status) {
        broken = true;
        failAll(status, "the shared receive queue has failed");
    }

    /** Ends all connections that take their receives from here. From any thread. */
    private void failAll(Status status, String why) {
        poller.connections().fail(one -> one.receives == this, status, why, null);
    }

    /**
     * How many receives it has.
     *
     * @return the number it was made with
     */
    @CheckReturnValue
    public int count() {
        return count;
    }

    /** A message that the program had at the close was released. */
    synchronized void released() {
        if (--heldAtClose == 0) {
            while (!regions.isEmpty()) {
                Closing.quietly(this, regions.removeLast());
            }
        }
    }

    /** Frees the receives and their memory, except that of messages that were not released. */
    @Override
    public void close() {
        try {
            if (shared != null) {
                shared.close();
            }
        } finally {
            if (completions > 0) {
                poller.release(queue, completions);
            }
            synchronized (this) {
                closed = true;
                heldAtClose++; // by this loop
            }
            for (int i = 0; forMessages && i < count; i++) {
                synchronized (this) {
                    heldAtClose++; // first: it may be released as soon as it is known to outlive
                }
                if (!messages[i].outlives()) {
                    released();
                }
            }
            released();
        }
    }

    @Override
    public String toString() {
        return "Receives of " + (pair == null ? poller : pair);
    }
}
