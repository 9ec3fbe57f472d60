package dev.verbena.internal.queue;

import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.SendChain;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.Objects;

/**
 * Requests of one send queue that are recorded, and posted by one call, as often as the caller
 * likes. Each is checked when it is recorded, and its {@code ibv_send_wr} written then, into a
 * {@link SendChain} of its own; a post checks what may have changed since, asks for room for all of
 * them, adds them to the ledger in one sweep, and writes what differs from post to post: each
 * {@code wr_id}, and which of the silent ones asks for an internal signal.
 *
 * <p>To the provider a batch is a chain like one of deferred requests, and what becomes of it when
 * the provider refuses one is the same ({@link SendQueue}), but that all of a batch wait for the
 * answer: refused at its first request, it has no effect at all.
 *
 * <p>For one thread at a time, like {@link Buffers}.
 */
@SuppressWarnings("ReferenceEquality") // a scope is the same object or another one
public final class Batch {
    private final SendQueue queue;
    private final Arena memory = Arena.ofAuto(); // of the chain, for as long as this object
    private final SendChain chain;
    private final int capacity;
    private final long[] records; // two for each request: its context and its RequestState
    private int size;
    private int silent; // how many of them
    private long bytes; // of all buffers
    // The scopes of the memory that they name, each once in a row.
    private final MemorySegment.@Nullable Scope[] scopes;
    private int scopeCount;
    private MemorySegment.@Nullable Scope lastScope; // null when there is none
    private boolean invalidates; // a request invalidates a key of the peer's
    private boolean reads; // a request reads from the peer

    /**
     * Makes an empty batch.
     *
     * @param queue where it is posted to
     * @param provider the device's provider
     * @param capacity how many requests it holds
     */
    public Batch(SendQueue queue, Provider provider, int capacity) {
        SendRules rules = queue.rules;
        this.queue = queue;
        this.chain =
                new SendChain(
                        provider, capacity, rules.maxBuffers(), rules.maxInlineBytes(), memory);
        this.capacity = capacity;
        this.records = new long[2 * capacity];
        this.scopes = new MemorySegment.Scope[capacity * Math.max(1, rules.maxBuffers())];
    }

    /** Forgets all requests. */
    public void clear() {
        chain.clear();
        size = 0;
        silent = 0;
        bytes = 0;
        scopeCount = 0;
        lastScope = null;
        invalidates = false;
        reads = false;
    }

    /**
     * How many requests are recorded.
     *
     * @return 0 or more
     */
    public int size() {
        return size;
    }

    /**
     * Records a request.
     *
     * @param operation what to do
     * @param context the caller's context
     * @param buffers local memory
     * @param remoteAddress the peer's memory, of operations that name it
     * @param remoteKey the peer's key, to use or to invalidate
     * @param operand immediate data, or what an atomic operation compares or adds
     * @param swap what an atomic operation stores
     * @param flags {@link RequestFlags}
     * @return {@link Refusal#NONE}, or a refusal's code: then it is not recorded
     */
    public int add(
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
                return Refusal.FULL.code();
            }
            if ((flags & ~operation.flags()) != 0) {
                return Refusal.UNKNOWN_FLAG.code();
            }
            int count = buffers.size();
            // The peer's part is checked by the post: it may not be connected yet.
            int refusal = queue.rules.check(operation, buffers, count, flags, true, 1);
            if (refusal != Refusal.NONE) {
                return refusal;
            }
            chain.begin(operation.opcode());
            operation.fill(chain, remoteAddress, remoteKey, operand, swap);
            int inline = 0;
            if ((flags & RequestFlags.INLINE) != 0) {
                long bytes = buffers.copyInline(chain, count, queue.rules.maxInlineBytes());
                if (bytes < 0) {
                    return Buffers.refusal(bytes);
                }
                if (bytes == 0) {
                    chain.buffers(0, 0);
                } else {
                    inline = SendChain.INLINE;
                }
            } else {
                chain.copyOfBuffers(buffers.entries(), count);
                if (buffers.scope() != lastScope || lastScope == null) {
                    noteScopes(buffers, count);
                }
            }
            if (operation.needs() != Operation.Needs.NOTHING) {
                invalidates |= operation.needs() == Operation.Needs.REMOTE_INVALIDATE;
                reads |= operation.needs().reads();
            }
            bytes += buffers.bytes();
            finish(operation, context, flags, inline);
            return Refusal.NONE;
        } finally {
            Reference.reachabilityFence(this);
            Reference.reachabilityFence(buffers);
        }
    }

    private void finish(Operation operation, long context, int flags, int inline) {
        int state = RequestState.of(operation.type()) | RequestState.SIGNALED;
        if ((flags & RequestFlags.SILENT_SUCCESS) != 0) {
            silent++;
            state |= RequestState.SILENT;
        }
        records[2 * size] = context;
        records[2 * size + 1] = state;
        chain.finish(0, RequestFlags.toVerbs(flags, inline, true));
        size++;
    }

    private void noteScopes(Buffers buffers, int count) {
        for (int i = 0; i < count; i++) {
            noteScope(buffers.scopeOf(i));
        }
    }

    private void noteScope(MemorySegment.@Nullable Scope scope) {
        if (scopeCount == 0 || scope != lastScope) {
            if (scopes[scopeCount] != scope) { // a store between old objects costs more than this
                scopes[scopeCount] = scope;
            }
            scopeCount++;
            lastScope = scope;
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
        records[2 * Objects.checkIndex(index, size)] = context;
    }

    /**
     * Posts all requests, behind what was deferred before. The batch stays as it is.
     *
     * @return {@link Refusal#NONE} when each of them ends in its completion; otherwise as posts
     *     return it, and none of them has any effect
     */
    public int post() {
        if (!queue.acquire()) {
            return Refusal.NOT_CONNECTED.code();
        }
        try {
            queue.postDeferredHere();
            int refusal = check();
            if (refusal != Refusal.NONE || size == 0) {
                return refusal;
            }
            RequestLedger ledger = queue.ledger;
            int unsignaled = silent == 0 ? 0 : chooseSignals();
            ledger.addAll(chain, records, size, silent);
            refusal = queue.postBatch(chain, unsignaled);
            if (refusal == Refusal.NONE) {
                ledger.addBytes(bytes);
            }
            return refusal;
        } finally {
            queue.leave();
            Reference.reachabilityFence(this);
        }
    }

    private int check() {
        int refusal = queue.admitBatch(size, invalidates, reads);
        if (refusal != Refusal.NONE) {
            return refusal;
        }
        for (int i = 0; i < scopeCount; i++) {
            MemorySegment.Scope scope = scopes[i];
            if (scope == null || !scope.isAlive()) {
                return Refusal.ARENA_CLOSED.code();
            }
        }
        return Refusal.NONE;
    }

    /** Which silent requests ask for an internal signal depends on those posted before. */
    private int chooseSignals() {
        int unsignaled = queue.unsignaled();
        for (int i = 0; i < size; i++) {
            long state = records[2 * i + 1];
            unsignaled = queue.unsignaledAfter(unsignaled, (state & RequestState.SILENT) != 0);
            boolean signaled = unsignaled == 0;
            records[2 * i + 1] =
                    signaled ? state | RequestState.SIGNALED : state & ~RequestState.SIGNALED;
            chain.signal(i, signaled);
        }
        return unsignaled;
    }
}
