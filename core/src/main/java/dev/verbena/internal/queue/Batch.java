package dev.verbena.internal.queue;

import dev.verbena.PostResult;
import dev.verbena.internal.queue.Operation.Flags;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.SendChain;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.Objects;

/**
 * Recorded requests of one send queue, which one call posts, as often as the caller likes. Each
 * request is checked when it is recorded, and its {@code ibv_send_wr} is written into a {@link
 * SendChain} of the batch. A post checks only what may have changed since, reserves slots for all
 * requests, adds them to the ledger in one sweep, and writes what differs from post to post: each
 * {@code wr_id}, and which silent requests ask for an internal signal.
 *
 * <p>To the provider a batch is a chain like one of deferred requests. {@link SendQueue} handles a
 * request that the provider refuses in the same way, with one difference: no request of a batch was
 * accepted before, so a batch that is refused at its first request has no effect.
 *
 * <p>For one thread at a time, like {@link Buffers}.
 */
@SuppressWarnings("ReferenceEquality") // a scope is the same object or another one
public final class Batch {
    /** How many numbers {@link #records} has for each request. */
    static final int WORDS = 3;

    private static final int FLAG_BITS = Integer.SIZE - Integer.numberOfLeadingZeros(Flags.ALL);

    private final SendQueue queue;
    private final Arena memory = Arena.ofAuto(); // of the chain, for as long as this object
    private final SendChain chain;
    private final int capacity;
    private final Operation[] operations; // of each request
    private final long[] records; // of each request: context, RequestState, and what it asked for
    private int size;
    private int silent; // how many of them
    private long bytes; // of all buffers
    // The scopes of the memory that the device reads or writes: of each request so many in a row,
    // null behind the last. Where all have the same one, only that is looked at.
    private final int scopesEach;
    private final MemorySegment.@Nullable Scope[] scopes;
    private MemorySegment.@Nullable Scope scopeOfAll; // null when there is none
    private boolean severalScopes;
    private boolean invalidates; // a request invalidates a key of the peer's
    private boolean reads; // a request reads from the peer

    public Batch(SendQueue queue, Provider provider, int capacity) {
        SendLimits limits = queue.limits;
        this.queue = queue;
        this.chain =
                new SendChain(
                        provider, capacity, limits.maxBuffers(), limits.maxInlineBytes(), memory);
        this.capacity = capacity;
        this.operations = new Operation[capacity];
        this.records = new long[WORDS * capacity];
        this.scopesEach = Math.max(1, limits.maxBuffers());
        this.scopes = new MemorySegment.Scope[capacity * scopesEach];
    }

    public void clear() {
        chain.clear();
        size = 0;
        silent = 0;
        bytes = 0;
        scopeOfAll = null;
        severalScopes = false;
        invalidates = false;
        reads = false;
    }

    public int size() {
        return size;
    }

    /**
     * Records a request.
     *
     * @param context the caller's context
     * @param operand immediate data, or what an atomic operation compares or adds
     * @return {@link PostResult#ACCEPTED}, or a refusal: then it is not recorded
     */
    public PostResult add(
            Operation operation,
            long context,
            Buffers buffers,
            long remoteAddress,
            int remoteKey,
            long operand,
            long swap,
            int flags) {
        try {
            if (size == capacity) {
                return PostResult.FULL;
            }
            if ((flags & ~operation.flags()) != 0) {
                return PostResult.UNKNOWN_FLAG;
            }
            int count = buffers.size();
            // The peer's part is checked by the post: it may not be connected yet.
            PostResult refusal =
                    operation.check(queue.limits, buffers, count, remoteAddress, flags);
            if (refusal != PostResult.ACCEPTED) {
                return refusal;
            }
            chain.begin(operation.opcode());
            operation.fill(chain, remoteAddress, remoteKey, operand, swap);
            refusal = fillBuffers(size, buffers, count, flags);
            if (refusal != PostResult.ACCEPTED) {
                return refusal;
            }
            invalidates |= operation.needs().invalidates();
            reads |= operation.needs().reads();
            finish(operation, context, flags, buffers.bytes());
            return PostResult.ACCEPTED;
        } finally {
            Reference.reachabilityFence(this);
            Reference.reachabilityFence(buffers);
        }
    }

    /** Writes the buffers, or their bytes, into the request that the chain is at. */
    private PostResult fillBuffers(int index, Buffers buffers, int count, int flags) {
        if ((flags & Flags.INLINE) == 0) {
            chain.copyOfBuffers(buffers.entries(), count);
            noteScopes(index, buffers, count);
            return PostResult.ACCEPTED;
        }
        long copied = buffers.copyInline(chain, count, queue.limits.maxInlineBytes());
        if (copied < 0) {
            return Buffers.refusal(copied);
        }
        noteScopes(index, buffers, 0);
        return PostResult.ACCEPTED;
    }

    private void finish(Operation operation, long context, int flags, long length) {
        int state = RequestState.of(operation.type()) | RequestState.SIGNALED;
        if ((flags & Flags.SILENT_SUCCESS) != 0) {
            silent++;
            state |= RequestState.SILENT;
        }
        operations[size] = operation;
        int record = WORDS * size;
        records[record] = context;
        records[record + 1] = state;
        records[record + 2] = length << FLAG_BITS | flags;
        bytes += length;
        chain.finish(0, Flags.toVerbs(flags, inline(flags, length), true));
        size++;
    }

    private static int inline(int flags, long length) {
        return (flags & Flags.INLINE) != 0 && length > 0 ? SendChain.INLINE : 0;
    }

    private void noteScopes(int index, Buffers buffers, int count) {
        int first = index * scopesEach;
        if (count == 1 && scopesEach == 1) {
            noteScope(first, buffers.scopeOf(0));
            return;
        }
        for (int i = 0; i < count; i++) {
            noteScope(first + i, buffers.scopeOf(i));
        }
        if (count < scopesEach) {
            noteScope(first + count, null);
        }
    }

    private void noteScope(int at, MemorySegment.@Nullable Scope scope) {
        if (scopes[at] != scope) {
            scopes[at] = scope;
        }
        if (scope != null && scope != scopeOfAll) {
            severalScopes |= scopeOfAll != null;
            scopeOfAll = scope;
        }
    }

    /**
     * Replaces what the completion of a recorded request will carry.
     *
     * @param index which request, from 0 on in the order of recording
     * @param context the caller's context
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public void context(int index, long context) {
        records[WORDS * Objects.checkIndex(index, size)] = context;
    }

    /**
     * Replaces the buffers of a recorded request; or its bytes, if it is inline.
     *
     * @return {@link PostResult#ACCEPTED}, or a refusal: then it is unchanged, except for bytes of
     *     an inline request if not all new bytes could be read
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public PostResult buffers(int index, Buffers buffers) {
        Operation operation = operation(index);
        int kept = (int) asked(index) & Flags.ALL;
        try {
            int count = buffers.size();
            PostResult refusal = operation.check(queue.limits, buffers, count, 0, kept);
            if (refusal != PostResult.ACCEPTED) {
                return refusal;
            }
            chain.moveTo(index);
            refusal = fillBuffers(index, buffers, count, kept);
            if (refusal == PostResult.ACCEPTED) {
                severalScopes |= count == 0; // the only one may be gone
                long length = buffers.bytes();
                bytes += length - length(index);
                records[WORDS * index + 2] = length << FLAG_BITS | kept;
                chain.mark(index, SendChain.INLINE, inline(kept, length) != 0);
            }
            return refusal;
        } finally {
            chain.moveTo(size);
            Reference.reachabilityFence(this);
            Reference.reachabilityFence(buffers);
        }
    }

    /**
     * How many bytes the buffers of a recorded request have.
     *
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public long length(int index) {
        return asked(index) >>> FLAG_BITS;
    }

    private long asked(int index) {
        return records[WORDS * Objects.checkIndex(index, size) + 2];
    }

    /**
     * The operation of a recorded request.
     *
     * @throws IndexOutOfBoundsException when there is no such request
     */
    public Operation operation(int index) {
        return operations[Objects.checkIndex(index, size)];
    }

    /**
     * Replaces what a recorded request names at the peer: memory, or the key that it invalidates.
     *
     * @return {@link PostResult#ACCEPTED}, or a refusal: then it is as before
     */
    public PostResult remote(int index, long remoteAddress, int remoteKey) {
        Operation operation = operation(index);
        PostResult refusal = operation.checkRemote(remoteAddress);
        if (refusal != PostResult.ACCEPTED) {
            return refusal;
        }
        try {
            chain.moveTo(index);
            operation.fillRemote(chain, remoteAddress, remoteKey);
            return PostResult.ACCEPTED;
        } finally {
            chain.moveTo(size);
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Posts all requests, behind what was deferred before. The batch stays as it is.
     *
     * @return {@link PostResult#ACCEPTED} when each of them ends in its completion; otherwise as
     *     posts return it, and none of them has any effect
     */
    public PostResult post() {
        QueueLock.checkStack();
        if (!queue.acquire()) {
            return PostResult.NOT_CONNECTED;
        }
        try {
            queue.postDeferredHere();
            PostResult refusal = check();
            if (refusal != PostResult.ACCEPTED || size == 0) {
                return refusal;
            }
            RequestLedger ledger = queue.ledger;
            int unsignaled = silent == 0 ? 0 : chooseSignals();
            ledger.addAll(chain, records, size, silent);
            refusal = queue.postBatch(chain, unsignaled);
            if (refusal == PostResult.ACCEPTED) {
                ledger.addBytes(bytes);
            }
            return refusal;
        } finally {
            queue.leave();
            Reference.reachabilityFence(this);
        }
    }

    /** Checks what may have changed since the requests were recorded, and that there is room. */
    private PostResult check() {
        if (!queue.connected()) {
            return PostResult.NOT_CONNECTED;
        }
        PostResult refusal = queue.checkPeer(invalidates, reads);
        if (refusal != PostResult.ACCEPTED) {
            return refusal;
        }
        if (!queue.ledger.hasRoom(size)) {
            queue.poller.drain();
            if (!queue.ledger.hasRoom(size)) {
                return PostResult.FULL;
            }
        }
        boolean alive = severalScopes ? allAlive() : scopeOfAll == null || scopeOfAll.isAlive();
        return alive ? PostResult.ACCEPTED : PostResult.ARENA_CLOSED;
    }

    private boolean allAlive() {
        for (int i = 0; i < size; i++) {
            int end = (i + 1) * scopesEach;
            for (int at = i * scopesEach; at < end; at++) {
                MemorySegment.Scope scope = scopes[at];
                if (scope == null) {
                    break;
                }
                if (!scope.isAlive()) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Which silent requests ask for an internal signal depends on those posted before. */
    private int chooseSignals() {
        int unsignaled = queue.unsignaled;
        for (int i = 0; i < size; i++) {
            int at = WORDS * i + 1;
            long state = records[at];
            unsignaled = queue.unsignaledAfter(unsignaled, (state & RequestState.SILENT) != 0);
            boolean signaled = unsignaled == 0;
            records[at] = signaled ? state | RequestState.SIGNALED : state & ~RequestState.SIGNALED;
            chain.mark(i, SendChain.SIGNALED, signaled);
        }
        return unsignaled;
    }
}
