package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.internal.verbs.Structs.IbvSendWr;
import dev.verbena.internal.verbs.Structs.IbvSge;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.Objects;

/**
 * The native memory in which one queue pair builds its send queue requests: a chain of {@code
 * ibv_send_wr}, posted by one call. Each slot also has space for a copy of the request's buffer
 * list and inline bytes, for deferred requests: the caller may change both as soon as its call
 * returns.
 *
 * <p>A request is built by {@link #begin}, the methods for the fields that its opcode needs, and
 * {@link #finish}. Providers copy a chain before the post returns, so each chain starts at the
 * first slot again. All slots are linked once. To end a chain, the {@code next} pointer of its last
 * request is cleared; it is restored before a chain that ends elsewhere is posted.
 */
public final class SendChain {
    public static final int SEND = Verbs.IBV_WR_SEND;
    public static final int SEND_WITH_IMMEDIATE = Verbs.IBV_WR_SEND_WITH_IMM;
    public static final int SEND_WITH_INVALIDATE = Verbs.IBV_WR_SEND_WITH_INV;
    public static final int WRITE = Verbs.IBV_WR_RDMA_WRITE;
    public static final int WRITE_WITH_IMMEDIATE = Verbs.IBV_WR_RDMA_WRITE_WITH_IMM;
    public static final int READ = Verbs.IBV_WR_RDMA_READ;
    public static final int COMPARE_AND_SWAP = Verbs.IBV_WR_ATOMIC_CMP_AND_SWP;
    public static final int FETCH_AND_ADD = Verbs.IBV_WR_ATOMIC_FETCH_AND_ADD;
    public static final int BIND = Verbs.IBV_WR_BIND_MW;
    public static final int INVALIDATE = Verbs.IBV_WR_LOCAL_INV;
    public static final int FENCE = Verbs.IBV_SEND_FENCE;
    public static final int SIGNALED = Verbs.IBV_SEND_SIGNALED;
    public static final int SOLICITED = Verbs.IBV_SEND_SOLICITED;
    public static final int INLINE = Verbs.IBV_SEND_INLINE;

    /** The result of {@link #refusedAt} if the provider did not set {@code bad_wr}. */
    public static final int UNKNOWN = -1;

    private static final long CACHE_LINE = 64;

    private final Provider provider;

    @SuppressWarnings("UnusedVariable")
    private final SegmentAllocator memory; // keeps that of an automatic arena

    private final int maxSge;
    private final int inlineBytes;
    private final long stride;
    private final long inlineOffset;
    private final long slots; // an address, as are the next four fields
    private final long refused;
    private final long end;
    private long current; // the slot of the request being built or to be built next
    private long lastLinked; // the slot whose next pointer is cleared
    private int refusedAt;

    /**
     * Allocates the slots and links them.
     *
     * @param maxSge how many buffers each request may name
     * @param inlineBytes how many bytes each request may carry inline
     * @param memory the allocator; the caller frees it after the last post
     */
    public SendChain(
            Provider provider, int capacity, int maxSge, int inlineBytes, SegmentAllocator memory) {
        this.provider = provider;
        this.maxSge = Math.max(1, maxSge);
        this.inlineBytes = inlineBytes;
        this.inlineOffset = IbvSendWr.SIZE + IbvSge.SIZE * this.maxSge;
        long bytes = inlineOffset + inlineBytes;
        this.stride = capacity == 1 ? bytes : (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        this.memory = memory;
        // Before the first slot: in one cache line with the fields that most requests have.
        this.refused = memory.allocate(Long.BYTES + stride * capacity, CACHE_LINE).address();
        this.slots = refused + Long.BYTES;
        this.end = slots + stride * capacity;
        this.current = slots;
        this.lastLinked = end - stride;
        for (long slot = slots; slot < lastLinked; slot += stride) {
            Native.putLong(slot, IbvSendWr.NEXT, slot + stride);
        }
    }

    public int length() {
        return (int) ((current - slots) / stride);
    }

    public boolean isEmpty() {
        return current == slots;
    }

    /**
     * Whether every slot is filled, so that the chain has to be posted before another request fits.
     */
    public boolean full() {
        return current == end;
    }

    /**
     * Starts the next request. Fields that it does not set must be zero: rxe rejects a bind with
     * another request's values in the unions. A slot that held the same opcode before needs no
     * clearing: this request overwrites the same fields, and the others are zero.
     */
    public void begin(int opcode) {
        if (Native.getInt(current, IbvSendWr.OPCODE) != opcode) {
            for (long field = IbvSendWr.SG_LIST;
                    field < IbvSendWr.SIZE;
                    field += Long.BYTES) { // all fields after next
                Native.putLong(current, field, 0);
            }
            Native.putInt(current, IbvSendWr.OPCODE, opcode);
        }
    }

    /** Sets the buffer list by reference. The list must not change until the post. */
    public void buffers(long sges, int count) {
        Native.putLong(current, IbvSendWr.SG_LIST, sges);
        Native.putInt(current, IbvSendWr.NUM_SGE, count);
    }

    /** Copies a buffer list into the slot. */
    public void copyOfBuffers(SgeArray sges, int count) {
        long list = current + IbvSendWr.SIZE;
        if (count == 1) { // the usual case; copying 16 bytes in general costs more than two stores
            sges.copyFirst(list);
        } else {
            Objects.checkFromToIndex(0, count, maxSge);
            MemorySegment.copy(
                    Native.EVERYWHERE,
                    sges.address(),
                    Native.EVERYWHERE,
                    list,
                    IbvSge.SIZE * count);
        }
        buffers(list, count);
    }

    /**
     * Copies bytes of an inline request into its slot; {@link #ownBytes} completes it. The copy is
     * checked by the JDK: if another thread closes the arena of the memory, this throws.
     *
     * @param before how many bytes were copied for this request before
     * @throws IllegalStateException when the memory's arena is closed
     * @throws WrongThreadException when the memory is confined to another thread
     * @throws IndexOutOfBoundsException for bytes outside of the memory, and for more than {@code
     *     inlineBytes}
     */
    public void gather(long before, MemorySegment memory, long offset, long count) {
        Objects.checkFromIndexSize(before, count, (long) inlineBytes);
        MemorySegment.copy(
                memory, offset, Native.EVERYWHERE, current + inlineOffset + before, count);
    }

    /** Sets the buffer list to the bytes that {@link #gather} copied, as one buffer. */
    public void ownBytes(long count) {
        long list = current + IbvSendWr.SIZE;
        Native.putLong(list, IbvSge.ADDR, current + inlineOffset);
        // Clears length and key, then sets the length: providers ignore the key of an inline
        // request.
        Native.putLong(list, IbvSge.LENGTH, 0);
        Native.putInt(list, IbvSge.LENGTH, (int) count);
        buffers(list, 1);
    }

    /** Sets the remote address, in host order, and the key of a read or write. */
    public void remote(long address, int key) {
        Native.putLong(current, IbvSendWr.WR_RDMA_REMOTE_ADDR, address);
        Native.putInt(current, IbvSendWr.WR_RDMA_RKEY, key);
    }

    /**
     * Sets the remote key to invalidate: a key of this side for {@link #INVALIDATE}, of the peer
     * for {@link #SEND_WITH_INVALIDATE}.
     */
    public void invalidate(int key) {
        Native.putInt(current, IbvSendWr.INVALIDATE_RKEY, key);
        if (provider.readsInvalidatedKeyFromRdma()) {
            Native.putInt(current, IbvSendWr.WR_RDMA_RKEY, key);
        }
    }

    /**
     * Sets the immediate data: the number that C at the other end gets from {@code
     * ntohl(imm_data)}.
     */
    public void immediate(int data) {
        Native.EVERYWHERE.set(Native.BIG_ENDIAN_INT, current + IbvSendWr.IMM_DATA, data);
    }

    /** Sets the remote address, in host order, and the key of an atomic operation. */
    public void remoteOfAtomic(long address, int key) {
        Native.putLong(current, IbvSendWr.WR_ATOMIC_REMOTE_ADDR, address);
        Native.putInt(current, IbvSendWr.WR_ATOMIC_RKEY, key);
    }

    /** Sets the operands of an atomic operation. */
    public void operands(long compareAdd, long swap) {
        Native.putLong(current, IbvSendWr.WR_ATOMIC_COMPARE_ADD, compareAdd);
        Native.putLong(current, IbvSendWr.WR_ATOMIC_SWAP, swap);
    }

    /** Sets the window, the memory and the rights of a bind. */
    public void bind(long window, int key, long region, long address, long bytes, int access) {
        Native.putLong(current, IbvSendWr.BIND_MW_MW, window);
        Native.putInt(current, IbvSendWr.BIND_MW_RKEY, key);
        Native.putLong(current, IbvSendWr.BIND_MW_BIND_INFO_MR, region);
        Native.putLong(current, IbvSendWr.BIND_MW_BIND_INFO_ADDR, address);
        Native.putLong(current, IbvSendWr.BIND_MW_BIND_INFO_LENGTH, bytes);
        Native.putInt(current, IbvSendWr.BIND_MW_BIND_INFO_MW_ACCESS_FLAGS, access);
    }

    /** Completes the request and appends it to the chain. */
    public void finish(long id, int flags) {
        Native.putLong(current, IbvSendWr.WR_ID, id);
        Native.putInt(current, IbvSendWr.SEND_FLAGS, flags);
        current += stride;
    }

    /** Gives a request of the chain its number. No method checks the index. */
    public void number(int index, long id) {
        Native.putLong(slots + stride * index, IbvSendWr.WR_ID, id);
    }

    /** Sets or clears a flag of a request of the chain. */
    public void mark(int index, int flag, boolean on) {
        long slot = slots + stride * index;
        int others = Native.getInt(slot, IbvSendWr.SEND_FLAGS) & ~flag;
        Native.putInt(slot, IbvSendWr.SEND_FLAGS, others | (on ? flag : 0));
    }

    /** Moves to a request of the chain, whose fields are set next, or behind the last. */
    public void moveTo(int index) {
        current = slots + stride * index;
    }

    /** Empties the chain; the next request goes into the first slot. */
    public void clear() {
        current = slots;
    }

    /**
     * Terminates the chain after its last request, for {@code ibv_post_send}. The chain keeps its
     * requests until {@link #clear}, so the rest can be posted again.
     */
    public long prepare(int first) {
        if (lastLinked != current - stride) {
            endChainAfter(current - stride);
        }
        return slots + stride * first;
    }

    /**
     * The pointer to pass as {@code bad_wr} to {@code ibv_post_send}. It is NULL before each post;
     * the provider sets it to the first request that it did not queue.
     */
    public long badRequest() {
        return refused;
    }

    /**
     * Whether the provider queued all requests: the call returned 0 and {@code bad_wr} is NULL. siw
     * may return 0 and set {@code bad_wr}, because the result of ringing the doorbell overwrites
     * that of queueing.
     */
    public boolean accepted(int answer) {
        return answer == 0 && Native.getLong(refused, 0) == 0;
    }

    /**
     * Evaluates {@code bad_wr} after a post that was not {@linkplain #accepted accepted}; {@link
     * #refusedAt} returns the result.
     *
     * @param first the index of the first request that was posted
     * @return a positive errno
     */
    public int takeBadRequest(int first, int answer) {
        long bad = Native.getLong(refused, 0);
        Native.putLong(refused, 0, 0); // NULL again for the next post
        long offset = bad - slots;
        boolean inChain = offset >= stride * first && bad < current && offset % stride == 0;
        refusedAt = inChain ? (int) (offset / stride) : UNKNOWN;
        return errno(answer, bad);
    }

    private void endChainAfter(long last) {
        Native.putLong(
                lastLinked, IbvSendWr.NEXT, lastLinked + stride < end ? lastLinked + stride : 0);
        Native.putLong(last, IbvSendWr.NEXT, 0);
        lastLinked = last;
    }

    /**
     * The index of the first request that the provider did not queue, as {@link #takeBadRequest}
     * found it, or {@link #UNKNOWN}: rxe and siw do not set {@code bad_wr} if only the doorbell
     * fails, although the requests stay in the queue.
     */
    public int refusedAt() {
        return refusedAt;
    }

    /**
     * The errno of a post. siw returns negative ones, and may return 0 with {@code bad_wr} set,
     * which is reported as EIO; see {@link #accepted}.
     */
    static int errno(int answer, long bad) {
        return answer == 0 && bad != 0 ? Errno.EIO : Math.abs(answer);
    }
}
