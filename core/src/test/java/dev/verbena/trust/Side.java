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
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One end of a connection of a {@link RequestLife}. One thread posts random requests, another one
 * polls. Requests that complete are accounted for, and so are the messages that arrive from the
 * peer: each comes once, in order, with its bytes.
 */
final class Side {
    private static final long NONE = Sent.NONE;

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
    private final Slots slots;
    private int verified; // up to this place
    private final List<String> doubts = new ArrayList<>(); // of bytes at the peer
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
    private final Atomics atomics = new Atomics();
    private @Nullable Connector connector; // null without a connection manager
    private volatile boolean failing; // by a request that has to fail
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
        this.slots = new Slots(memory, pair.limits().initiatorDepth());
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

    /** It is connected by a connection manager. */
    void connectedBy(Connector by) {
        connector = by;
    }

    void meet(Side other) {
        peer = other;
        record();
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
        if (kind.isMessage() && random.nextInt(4) == 0) {
            flags = flags.and(OpFlags.SEND_AND_SOLICIT_EVENT);
        }
        if (kind == Kind.READ && random.nextInt(4) == 0) {
            flags = flags.and(OpFlags.RDMA_READ_LOCAL_INVALIDATE);
        }
        return !kind.brings() && random.nextInt(3) == 0 ? flags.and(OpFlags.INLINE) : flags;
    }

    /** Sets the buffers: of what goes out, or for what is read. */
    private void fill(Kind kind, int bytes, int slot) {
        int from = kind.brings() ? slots.count : 0;
        long at = (from + slot) * (long) Slots.BYTES;
        buffers.clear();
        if (bytes > 16 && random.nextBoolean()) {
            buffers.add(memory, at, 16).add(memory, at + 16, bytes - 16);
        } else {
            buffers.add(memory, at, bytes);
        }
    }

    private int slot(long context) {
        return sends.place(context) % slots.count;
    }

    private void postOne(Kind kind) {
        if (!life.place.deliversImmediates() && kind == Kind.WRITE_WITH_IMMEDIATE) {
            return;
        }
        long token = kind == Kind.SEND_AND_INVALIDATE ? peer.offered.getAndSet(NONE) : NONE;
        if (kind == Kind.SEND_AND_INVALIDATE && token == NONE) {
            return;
        }
        if (kind.isMessage() && !peer.receives.claim(1)) {
            peer.offered.compareAndSet(NONE, token);
            return;
        }
        OpFlags flags = flags(kind);
        int bytes = kind.isAtomic() ? 8 : 8 + random.nextInt(Slots.BYTES - 7);
        boolean silent = flags.contains(OpFlags.SILENT_SUCCESS);
        int immediate = random.nextInt();
        long context = open(kind, silent, bytes, token, immediate);
        fill(kind, bytes, slot(context));
        PostResult result = post(pair, kind, context, slot(context), token, immediate, flags);
        if (!accepted(context, kind, result)) {
            peer.offered.compareAndSet(NONE, token);
        }
    }

    private PostResult post(
            SendRequests to,
            Kind kind,
            long context,
            int slot,
            long token,
            int immediate,
            OpFlags flags) {
        RemoteMemory there = peer.slots.target();
        long offset = slots.remote(kind == Kind.READ, slot);
        return switch (kind) {
            case SEND -> to.send(context, buffers, flags);
            case SEND_WITH_IMMEDIATE -> to.sendWithImmediate(context, buffers, immediate, flags);
            case SEND_AND_INVALIDATE -> to.sendAndInvalidate(context, buffers, (int) token, flags);
            case WRITE -> to.write(context, buffers, there, offset, flags);
            case WRITE_WITH_IMMEDIATE ->
                    to.writeWithImmediate(context, buffers, there, offset, immediate, flags);
            case READ -> to.read(context, buffers, there, offset, flags);
            case FETCH_AND_ADD -> to.fetchAndAdd(context, buffers, there, slots.words(), 1, flags);
            case COMPARE_AND_SWAP -> {
                long swaps = atomics.swaps();
                long at = slots.words() + Long.BYTES;
                yield to.compareAndSwap(context, buffers, there, at, swaps - 1, swaps, flags);
            }
        };
    }

    /** Records a batch, to be posted again and again. */
    private void record() {
        batch.clear();
        for (int i = 0; i < recorded.length; i++) {
            Kind kind = Kind.OF_BATCHES[random.nextInt(Kind.OF_BATCHES.length)];
            if (kind == Kind.WRITE_WITH_IMMEDIATE && !life.place.deliversImmediates()) {
                kind = Kind.WRITE;
            }
            recorded[i] = kind;
            recordedFlags[i] = flags(kind);
            fill(kind, 8, i);
            if (post(batch, kind, 0, i, NONE, i, recordedFlags[i]) != PostResult.ACCEPTED) {
                life.complain("a batch did not record a " + kind);
            }
        }
    }

    /** A batch that was recorded before, with other contexts, bytes and targets. */
    private void postBatch() {
        if (random.nextInt(16) == 0) {
            record();
        }
        int messages = 0;
        for (Kind kind : recorded) {
            messages += kind.isMessage() ? 1 : 0;
        }
        if (!peer.receives.claim(messages)) {
            return;
        }
        long[] contexts = new long[recorded.length];
        for (int i = 0; i < contexts.length; i++) {
            Kind kind = recorded[i];
            int bytes = kind.isAtomic() ? 8 : 8 + random.nextInt(Slots.BYTES - 7);
            boolean silent = recordedFlags[i].contains(OpFlags.SILENT_SUCCESS);
            contexts[i] = open(kind, silent, bytes, NONE, i);
            fill(kind, bytes, slot(contexts[i]));
            batch.context(i, contexts[i]);
            if (batch.buffers(i, buffers) != PostResult.ACCEPTED) {
                life.complain("a batch did not take other buffers for a " + kind);
            }
            if (kind == Kind.WRITE || kind == Kind.WRITE_WITH_IMMEDIATE || kind == Kind.READ) {
                long offset = slots.remote(kind == Kind.READ, slot(contexts[i]));
                if (batch.remote(i, peer.slots.target(), offset) != PostResult.ACCEPTED) {
                    life.complain("a batch did not take another target for a " + kind);
                }
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
        boolean silent = !ofLent && random.nextBoolean();
        OpFlags flags = silent ? OpFlags.SILENT_SUCCESS : OpFlags.NONE;
        if (random.nextInt(8) == 0) {
            flags = flags.and(OpFlags.READ_FENCE);
        }
        if (random.nextInt(4) == 0) {
            flags = flags.and(OpFlags.DEFER);
        }
        long context = sends.open(bind ? OperationType.BIND : OperationType.INVALIDATE, silent);
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
                                Slots.BYTES,
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
        if (postPlain(1000, flags)) {
            life.complain("a wrong request was accepted");
        }
    }

    /** A request that the peer's device refuses. */
    private void fail() {
        life.fault();
        failing = true;
        if (life.place.checksTokens()) {
            long context = sends.open(OperationType.WRITE, false);
            fill(Kind.WRITE, 8, 0);
            var result =
                    pair.write(context, buffers, slots.target().address(), 0x5555, OpFlags.NONE);
            accepted(context, null, result);
        } else {
            postPlain(2 * Slots.BYTES, OpFlags.NONE); // longer than the receive
        }
    }

    private boolean postPlain(int bytes, OpFlags flags) {
        long context = sends.open(OperationType.SEND, false);
        buffers.clear().add(memory, 0, bytes);
        return accepted(context, null, pair.send(context, buffers, flags));
    }

    private long open(Kind kind, boolean silent, int bytes, long token, int immediate) {
        long context = sends.open(kind.type, silent);
        if (kind.isMessage()) {
            synchronized (sent) {
                sent.add(new Sent(context, kind, bytes, token, immediate));
            }
        }
        if (kind.isAtomic()) {
            atomics.open(context, kind);
        }
        slots.use(slot(context), new Slots.Use(context, kind, bytes));
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
        if (kind != null) {
            slots.forget(slot(context));
        }
        if (kind != null && kind.isAtomic()) {
            atomics.refuse(context, kind);
        }
        if (kind != null && kind.isMessage()) {
            synchronized (sent) {
                Sent last = sent.pollLast();
                if (last == null || last.context() != context) {
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
        if (!failing && !peer.failing && !life.place.mayEndWith(status)) {
            life.complain("%s of %s ended in %s".formatted(type, pair, status));
        }
        if (!type.isReceive()) {
            sends.end(context, type, status);
            if (status.isSuccess()) {
                verifyUpTo(context);
            }
            Long before = atomics.end(context);
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

    /** What was posted up to a request that succeeded has been read or written, silent or not. */
    private void verifyUpTo(long context) {
        int place = sends.place(context);
        for (int at = Math.max(verified, place - slots.count + 1); at <= place; at++) {
            int slot = at % slots.count;
            Slots.Use use = slots.last(slot);
            if (use == null || use.context() > context || life.place.keepsRefused()) {
                continue;
            }
            boolean right =
                    switch (use.kind()) {
                        case WRITE -> peer.slots.written(slot, use);
                        case READ -> !life.place.readsBytes() || slots.read(slot, use);
                        default -> true;
                    };
            // A peer that has ended takes nothing.
            if (!right && peer.pair.connected() && !peer.ending.get() && !slots.reused(slot, use)) {
                doubts.add("%s of %s: wrong bytes".formatted(use, pair));
            }
        }
        verified = place + 1;
    }

    private void checkOld(long context, OperationType type, long before) {
        long at = (slots.count + slot(context)) * (long) Slots.BYTES;
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
                message.is(completions, i, life.place.deliversImmediates())
                        && brought(message, completions.context(i));
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

    /** Whether all bytes of a message are there. */
    private boolean brought(Sent message, long receive) {
        if (message.kind() != Kind.WRITE_WITH_IMMEDIATE) {
            return receives.holds(receive, message.context(), message.bytes());
        }
        int slot = peer.slot(message.context());
        Slots.Use use = new Slots.Use(message.context(), message.kind(), message.bytes());
        Slots.Use last = peer.slots.last(slot);
        return slots.written(slot, use) || !use.equals(last) || peer.slots.reused(slot, last);
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
            long context = open(Kind.WRITE, false, 8, NONE, 0);
            int slot = slot(context);
            fill(Kind.WRITE, 8, slot);
            PostResult result = post(pair, Kind.WRITE, context, slot, NONE, 0, OpFlags.NONE);
            lastIsPosted = accepted(context, Kind.WRITE, result);
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
        // A peer whose device failed it took nothing after that, and may not have known.
        if (!peer.sends.broken() && !peer.receives.account.broken()) {
            doubts.forEach(life::complain);
        }
        own.close();
        lent.close();
    }
}
