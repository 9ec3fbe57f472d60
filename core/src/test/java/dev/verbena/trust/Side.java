package dev.verbena.trust;

import dev.verbena.BufferList;
import dev.verbena.Completions;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.MemoryRegion;
import dev.verbena.MemoryWindow;
import dev.verbena.OpFlags;
import dev.verbena.OperationType;
import dev.verbena.PostResult;
import dev.verbena.QueuePair;
import dev.verbena.RemoteMemory;
import dev.verbena.RequestBatch;
import dev.verbena.SendRequests;
import dev.verbena.Status;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One end of a connection of a {@link RequestLife}. One thread posts random requests, another one
 * polls. Requests that complete are accounted for, and so are the messages that arrive from the
 * peer: each comes once, in order, with its bytes.
 */
final class Side {
    static final int SLOT = 64; // the most bytes of a request
    private static final long NONE = -1;

    /** What is sent to the peer or done with its memory. */
    private enum Kind {
        SEND(OperationType.SEND, OperationType.RECEIVE),
        SEND_WITH_IMMEDIATE(OperationType.SEND, OperationType.RECEIVE),
        SEND_AND_INVALIDATE(OperationType.SEND, OperationType.RECEIVE_AND_INVALIDATE),
        WRITE(OperationType.WRITE, null),
        WRITE_WITH_IMMEDIATE(OperationType.WRITE, OperationType.RECEIVE_OF_WRITE),
        READ(OperationType.READ, null),
        FETCH_AND_ADD(OperationType.FETCH_AND_ADD, null),
        COMPARE_AND_SWAP(OperationType.COMPARE_AND_SWAP, null);

        private static final Kind[] ALL = values();
        private final OperationType type;
        private final OperationType arrives; // null: the peer gets no completion

        Kind(OperationType type, OperationType arrives) {
            this.type = type;
            this.arrives = arrives;
        }

        boolean isMessage() {
            return arrives != null;
        }

        boolean hasImmediate() {
            return this == SEND_WITH_IMMEDIATE || this == WRITE_WITH_IMMEDIATE;
        }

        boolean isAtomic() {
            return this == FETCH_AND_ADD || this == COMPARE_AND_SWAP;
        }
    }

    /** A message as it has to arrive. */
    private record Sent(long context, Kind kind, int bytes, long token) {}

    private enum End {
        DRAIN,
        FLUSH,
        CLOSE
    }

    final QueuePair pair;
    final Account sends;
    final Receives receives;
    private final RequestLife life;
    private final Random random = new Random();
    private final int budget;
    private final int pollsToEnd; // the polling thread ends it after so many
    private final End end;
    private final MemoryRegion memory;
    private final int
            slots; // for what goes out, as many for what is read, and as many for the peer
    private final MemoryWindow own; // invalidated here
    private final MemoryWindow lent; // invalidated by the peer
    private final RequestBatch batch;
    private final Kind[] recorded; // in the batch
    private final OpFlags[] recordedFlags;
    private final BufferList buffers = new BufferList(2);

    private final Deque<Sent> sent = new ArrayDeque<>(); // and not arrived; guarded by itself
    private final AtomicLong bindOfLent = new AtomicLong(NONE); // its context, until it completes
    private final AtomicLong offered = new AtomicLong(NONE); // the token of lent, for the peer
    private final AtomicBoolean lentIsOut = new AtomicBoolean();
    private final AtomicBoolean ending = new AtomicBoolean();
    private final Map<Long, Long> old = new ConcurrentHashMap<>(); // what atomic ones must bring
    private long added; // fetch-and-adds so far
    private long swapped;
    private @Nullable Connector connector; // null without a connection manager
    private boolean lastIsPosted;
    private boolean drained;
    private boolean allArrives; // the peer was there until the last request had completed
    private Side peer;
    private int polls;
    private int lastAccepted;
    private long lastProgress = System.nanoTime();

    Side(
            RequestLife life,
            QueuePair pair,
            Account sends,
            Receives receives,
            MemoryRegion memory,
            long seed) {
        this.life = life;
        this.pair = pair;
        this.sends = sends;
        this.receives = receives;
        this.memory = memory;
        random.setSeed(seed);
        this.slots = slots(pair.limits().initiatorDepth());
        this.budget = life.budget(random);
        this.pollsToEnd = random.nextInt(4) == 0 ? random.nextInt(10_000) : Integer.MAX_VALUE;
        this.end = End.values()[random.nextInt(End.values().length)];
        this.own = pair.domain().createMemoryWindow();
        this.lent = pair.domain().createMemoryWindow();
        this.batch =
                new RequestBatch(
                        pair, 1 + random.nextInt(Math.min(8, pair.limits().initiatorDepth())));
        this.recorded = new Kind[batch.capacity()];
        this.recordedFlags = new OpFlags[batch.capacity()];
        pair.attach(this);
    }

    /** More than can be outstanding, silent requests included. */
    private static int slots(int depth) {
        return 4 * depth + 128;
    }

    /** How much memory a side needs. */
    static long bytes(int depth) {
        return (3L * slots(depth) + 1) * SLOT;
    }

    /** It is connected by a connection manager. */
    void connectedBy(Connector by) {
        connector = by;
    }

    void meet(Side other) {
        peer = other;
        Kind[] kinds = {Kind.SEND, Kind.WRITE, Kind.READ, Kind.FETCH_AND_ADD};
        for (int i = 0; i < recorded.length; i++) {
            recorded[i] = kinds[random.nextInt(kinds.length)];
            recordedFlags[i] = flags(recorded[i]);
            fill(recorded[i], 8, i);
            if (post(batch, recorded[i], 0, i, NONE, recordedFlags[i]) != PostResult.ACCEPTED) {
                life.complain("a batch did not record a " + recorded[i]);
            }
        }
    }

    // ---- posts

    private void step() {
        int what = random.nextInt(1000);
        if (what < 2) {
            life.disturb(random);
        } else if (what == 2 && random.nextInt(20) == 0) {
            fail();
        } else if (what == 3 && random.nextInt(20) == 0 && connector != null) {
            life.fault();
            var _ = connector.disconnectAsync(ConnectionOptions.DEFAULTS);
        } else if (what < 60) {
            postBatch();
        } else if (what < 110) {
            bindOrInvalidate();
        } else if (what < 120) {
            postWrongRequest();
        } else {
            postOne(Kind.ALL[random.nextInt(Kind.ALL.length)]);
        }
    }

    private OpFlags flags(Kind kind) {
        OpFlags flags = random.nextBoolean() ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
        if (random.nextInt(3) == 0) {
            flags = flags.and(OpFlags.DEFER);
        }
        if (random.nextInt(8) == 0) {
            flags = flags.and(OpFlags.READ_FENCE);
        }
        boolean carries = kind != Kind.READ && !kind.isAtomic();
        return carries && random.nextInt(3) == 0 ? flags.and(OpFlags.INLINE) : flags;
    }

    /** Sets the buffers: of what goes out, or for what is read. */
    private void fill(Kind kind, int bytes, int slot) {
        long at = (kind == Kind.READ || kind.isAtomic() ? slots + slot : slot) * (long) SLOT;
        buffers.clear();
        if (bytes > 16 && random.nextBoolean()) {
            buffers.add(memory, at, 16).add(memory, at + 16, bytes - 16);
        } else {
            buffers.add(memory, at, bytes);
        }
    }

    private int slot(long context) {
        return sends.place(context) % slots;
    }

    private void postOne(Kind kind) {
        if (!life.place.deliversImmediates() && kind == Kind.WRITE_WITH_IMMEDIATE) {
            return;
        }
        long token = kind == Kind.SEND_AND_INVALIDATE ? peer.offered.getAndSet(NONE) : NONE;
        if (kind == Kind.SEND_AND_INVALIDATE && token == NONE) {
            return;
        }
        if (kind.isMessage() && !claim(1)) {
            peer.offered.compareAndSet(NONE, token);
            return;
        }
        OpFlags flags = flags(kind);
        int bytes = kind.isAtomic() ? 8 : 8 + random.nextInt(SLOT - 7);
        long context = open(kind, flags.contains(OpFlags.SILENT_SUCCESS), bytes, token);
        fill(kind, bytes, slot(context));
        if (!accepted(context, kind, post(pair, kind, context, slot(context), token, flags))) {
            peer.offered.compareAndSet(NONE, token);
        }
    }

    private PostResult post(
            SendRequests to, Kind kind, long context, int slot, long token, OpFlags flags) {
        RemoteMemory there = peer.target();
        long offset = (long) slot * SLOT;
        return switch (kind) {
            case SEND -> to.send(context, buffers, flags);
            case SEND_WITH_IMMEDIATE ->
                    to.sendWithImmediate(context, buffers, (int) context, flags);
            case SEND_AND_INVALIDATE -> to.sendAndInvalidate(context, buffers, (int) token, flags);
            case WRITE -> to.write(context, buffers, there, offset, flags);
            case WRITE_WITH_IMMEDIATE ->
                    to.writeWithImmediate(context, buffers, there, offset, (int) context, flags);
            case READ -> to.read(context, buffers, there, offset, flags);
            case FETCH_AND_ADD -> to.fetchAndAdd(context, buffers, there, sums(), 1, flags);
            case COMPARE_AND_SWAP ->
                    to.compareAndSwap(
                            context, buffers, there, swaps(), swapped - 1, swapped, flags);
        };
    }

    /** What the peer may write to: slots, and the words of its atomic operations. */
    private RemoteMemory target() {
        return memory.remoteMemory().slice(2L * slots * SLOT, (slots + 1L) * SLOT);
    }

    /** Where each fetch-and-add adds one, in what the peer may write to. */
    private long sums() {
        return (long) peer.slots * SLOT;
    }

    /** Where each compare-and-swap swaps the number of swaps before it for the next one. */
    private long swaps() {
        return sums() + Long.BYTES;
    }

    /** A batch that was recorded once, with other contexts and other bytes. */
    private void postBatch() {
        int messages = 0;
        for (Kind kind : recorded) {
            messages += kind.isMessage() ? 1 : 0;
        }
        if (!claim(messages)) {
            return;
        }
        long[] contexts = new long[recorded.length];
        for (int i = 0; i < contexts.length; i++) {
            Kind kind = recorded[i];
            int bytes = kind.isAtomic() ? 8 : 8 + random.nextInt(SLOT - 7);
            contexts[i] =
                    open(kind, recordedFlags[i].contains(OpFlags.SILENT_SUCCESS), bytes, NONE);
            fill(kind, bytes, slot(contexts[i]));
            batch.context(i, contexts[i]);
            if (batch.buffers(i, buffers) != PostResult.ACCEPTED) {
                life.complain("a batch did not take other buffers for a " + kind);
            }
        }
        PostResult result = batch.post();
        for (int i = contexts.length - 1; i >= 0; i--) {
            accepted(contexts[i], recorded[i], result);
        }
    }

    private void bindOrInvalidate() {
        boolean ofLent = random.nextBoolean();
        if (ofLent && !lentIsOut.compareAndSet(false, true)) {
            return;
        }
        boolean bind = ofLent || !own.bound();
        OpFlags flags = !ofLent && random.nextBoolean() ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
        long context =
                sends.open(
                        bind ? OperationType.BIND : OperationType.INVALIDATE,
                        flags != OpFlags.NONE);
        if (ofLent) {
            bindOfLent.set(context);
        }
        PostResult result =
                bind
                        ? pair.bind(
                                context,
                                ofLent ? lent : own,
                                memory,
                                0,
                                SLOT,
                                flags.and(OpFlags.ALLOW_REMOTE_READ))
                        : pair.invalidate(context, own, flags);
        if (!accepted(context, null, result) && ofLent) {
            bindOfLent.set(NONE);
            lentIsOut.set(false);
        }
    }

    /** One that has to be refused. */
    private void postWrongRequest() {
        OpFlags flags = random.nextBoolean() ? OpFlags.INLINE : OpFlags.ALLOW_REMOTE_READ;
        if (postPlain(OperationType.SEND, 1000, flags)) {
            life.complain("a wrong request was accepted");
        }
    }

    /** A request that the peer's device refuses. */
    private void fail() {
        life.fault();
        if (life.place.checksTokens()) {
            long context = sends.open(OperationType.WRITE, false);
            fill(Kind.WRITE, 8, 0);
            var result = pair.write(context, buffers, target().address(), 0x5555, OpFlags.NONE);
            accepted(context, null, result);
        } else {
            postPlain(OperationType.SEND, 2 * SLOT, OpFlags.NONE); // longer than the receive
        }
    }

    private boolean postPlain(OperationType type, int bytes, OpFlags flags) {
        long context = sends.open(type, false);
        buffers.clear().add(memory, 0, bytes);
        return accepted(
                context,
                null,
                type == OperationType.SEND
                        ? pair.send(context, buffers, flags)
                        : pair.write(context, buffers, peer.target(), 0, flags));
    }

    /** Claims receives of the peer for messages; without one they would fail. */
    private boolean claim(int messages) {
        AtomicInteger credit = peer.receives.credit;
        int left = credit.get();
        while (left >= messages) {
            int was = credit.compareAndExchange(left, left - messages);
            if (was == left) {
                return true;
            }
            left = was;
        }
        return false;
    }

    private long open(Kind kind, boolean silent, int bytes, long token) {
        long context = sends.open(kind.type, silent);
        if (kind.isMessage()) {
            synchronized (sent) {
                sent.add(new Sent(context, kind, bytes, token));
            }
        }
        if (kind.isAtomic()) {
            old.put(context, kind == Kind.FETCH_AND_ADD ? added++ : swapped++);
        } else if (kind != Kind.READ) {
            memory.memory().set(ValueLayout.JAVA_LONG, (long) slot(context) * SLOT, context);
        }
        return context;
    }

    /** Notes what a post has returned. */
    private boolean accepted(long context, Kind kind, PostResult result) {
        if (result == PostResult.ACCEPTED) {
            // Another thread that polls may have completions that it has not noted yet.
            if (life.confined() && sends.outstanding() > mostOutstanding()) {
                life.complain("%s accepts more than its depth".formatted(pair));
            }
            return true;
        }
        sends.refuse(context);
        if (kind != null && kind.isAtomic() && old.remove(context) != null) {
            added -= kind == Kind.FETCH_AND_ADD ? 1 : 0;
            swapped -= kind == Kind.FETCH_AND_ADD ? 0 : 1;
        }
        if (kind != null && kind.isMessage()) {
            synchronized (sent) {
                Sent last = sent.pollLast();
                if (last == null || last.context != context) {
                    if (!life.place.keepsRefused()) {
                        life.complain("message %x was refused, and arrived".formatted(context));
                    }
                    if (last != null) {
                        sent.addLast(last);
                    }
                }
            }
            peer.receives.credit.incrementAndGet();
        }
        if (result.status() == Status.NO_MORE_ENTRIES) {
            life.pause();
        }
        return false;
    }

    /** The depth, and half of it for silent requests that may have completed. */
    private int mostOutstanding() {
        int depth = pair.limits().initiatorDepth();
        return depth + depth / 2;
    }

    // ---- completions

    /** One that {@link Completions#attachment} says is of this side. */
    void completed(Completions completions, int i) {
        long context = completions.context(i);
        OperationType type = completions.type(i);
        Status status = completions.status(i);
        if (completions.queuePair(i) != pair) {
            life.complain(
                    "a completion of %s came to %s".formatted(completions.queuePair(i), pair));
        }
        if (!type.isReceive()) {
            sends.end(context, type, status);
            Long before = old.remove(context);
            if (before != null && status.isSuccess()) {
                checkOld(context, type, before);
            }
            if (bindOfLent.compareAndSet(context, NONE) && status.isSuccess()) {
                offered.set(lent.remoteToken());
            }
            return;
        }
        receives.account.end(context, type, status);
        if (status.isSuccess()) {
            arrived(completions, i);
            receives.replace(pair, context);
        }
    }

    /**
     * An atomic operation brings how many there were before it, each of which was carried out once.
     */
    private void checkOld(long context, OperationType type, long before) {
        long at = (slots + slot(context)) * (long) SLOT;
        long came = memory.memory().get(ValueLayout.JAVA_LONG, at);
        if (came != before && life.place.readsBytes() && !life.place.keepsRefused()) {
            life.complain("%s of %s brought %d, not %d".formatted(type, pair, came, before));
        }
    }

    private void arrived(Completions completions, int i) {
        Sent message;
        synchronized (peer.sent) {
            message = peer.sent.pollFirst();
        }
        if (completions.type(i) == OperationType.RECEIVE_AND_INVALIDATE) {
            lentIsOut.set(false);
        }
        if (life.place.keepsRefused()) {
            return; // what arrives may be what was refused
        }
        if (message == null) {
            life.complain("a message came to %s that nobody sent".formatted(pair));
            return;
        }
        boolean right =
                completions.type(i) == message.kind.arrives
                        && completions.bytes(i) == message.bytes
                        && (!message.kind.hasImmediate()
                                || !life.place.deliversImmediates()
                                || completions.immediate(i) == (int) message.context)
                        && (message.token == NONE
                                || completions.invalidatedToken(i) == (int) message.token)
                        && (message.kind == Kind.WRITE_WITH_IMMEDIATE
                                || receives.firstBytes(completions.context(i)) == message.context);
        if (!right) {
            life.complain(
                    "%s came to %s as %s of %d bytes, beginning with %x"
                            .formatted(
                                    message,
                                    pair,
                                    completions.type(i),
                                    completions.bytes(i),
                                    receives.firstBytes(completions.context(i))));
        }
    }

    // ---- its life

    /** Does something. Returns false when nothing is left to do. By its own thread. */
    boolean goOn() {
        if (pair.connected() && !ending.get() && progresses()) {
            if (sends.accepted() < budget) {
                step();
                return true;
            }
            if (end == End.DRAIN && !drained) {
                drain();
                return true;
            }
        }
        end();
        return false;
    }

    /** Whether requests are accepted or complete; otherwise something that they need was lost. */
    private boolean progresses() {
        int accepted = sends.accepted() - sends.outstanding();
        if (accepted != lastAccepted) {
            lastAccepted = accepted;
            lastProgress = System.nanoTime();
        } else if (System.nanoTime() - lastProgress > RequestLife.LIMIT) {
            life.complain("%s accepts nothing any more".formatted(pair));
            return false;
        }
        return true;
    }

    private void drain() {
        if (!lastIsPosted) {
            lastIsPosted = postPlain(OperationType.WRITE, 8, OpFlags.NONE);
        } else if (sends.outstanding() == 0 && pair.connected()) {
            drained = true;
            allArrives = peer.pair.connected() && !peer.ending.get();
        } else {
            life.pause();
        }
    }

    /** Ends it in its own way, unless it has ended. */
    private void end() {
        if (ending.getAndSet(true)) {
            return;
        }
        long start = System.nanoTime();
        if (end == End.CLOSE) {
            pair.close();
        } else {
            pair.flush();
        }
        life.waited(System.nanoTime() - start);
    }

    /** By the polling thread, after each poll. */
    void polled() {
        if (++polls == pollsToEnd) {
            end();
        }
    }

    boolean settled() {
        return sends.outstanding() == 0
                && (receives.shared != null || receives.account.outstanding() == 0);
    }

    /** When all has ended: complains about what is missing. */
    void settle() {
        sends.settle();
        if (receives.shared == null) {
            receives.account.settle();
        }
        // A peer that failed received nothing after that, whatever its device acknowledged.
        if (allArrives && !peer.sends.broken() && !sent.isEmpty() && !life.place.keepsRefused()) {
            life.complain("%s was acknowledged, and lost".formatted(sent.peek()));
        }
        own.close();
        lent.close();
    }
}
