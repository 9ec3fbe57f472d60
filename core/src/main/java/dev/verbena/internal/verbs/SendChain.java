package dev.verbena.internal.verbs;

import dev.verbena.bindings.Verbs;
import dev.verbena.bindings.ibv_mw_bind_info;
import dev.verbena.bindings.ibv_send_wr;
import dev.verbena.bindings.ibv_sge;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.Objects;

/**
 * The native memory in which one queue pair builds its initiator requests: a chain of {@code
 * ibv_send_wr}, posted by one call. Each place has room for the request's own buffer list and its
 * inline bytes, for requests that wait: their caller may change both as soon as the call returns.
 *
 * <p>A request is built by {@link #begin}, what its opcode needs, and {@link #finish}. Providers
 * copy a chain before the post returns, so each chain starts at the first place again. The places
 * are linked once, for all chains: only where one ends, and the next one does not, is the link cut
 * and tied again.
 */
public final class SendChain {
    /** {@code IBV_WR_SEND}. */
    public static final int SEND = Verbs.IBV_WR_SEND;

    /** {@code IBV_WR_SEND_WITH_IMM}. */
    public static final int SEND_WITH_IMMEDIATE = Verbs.IBV_WR_SEND_WITH_IMM;

    /** {@code IBV_WR_SEND_WITH_INV}. */
    public static final int SEND_WITH_INVALIDATE = Verbs.IBV_WR_SEND_WITH_INV;

    /** {@code IBV_WR_RDMA_WRITE}. */
    public static final int WRITE = Verbs.IBV_WR_RDMA_WRITE;

    /** {@code IBV_WR_RDMA_WRITE_WITH_IMM}. */
    public static final int WRITE_WITH_IMMEDIATE = Verbs.IBV_WR_RDMA_WRITE_WITH_IMM;

    /** {@code IBV_WR_RDMA_READ}. */
    public static final int READ = Verbs.IBV_WR_RDMA_READ;

    /** {@code IBV_WR_ATOMIC_CMP_AND_SWP}. */
    public static final int COMPARE_AND_SWAP = Verbs.IBV_WR_ATOMIC_CMP_AND_SWP;

    /** {@code IBV_WR_ATOMIC_FETCH_AND_ADD}. */
    public static final int FETCH_AND_ADD = Verbs.IBV_WR_ATOMIC_FETCH_AND_ADD;

    /** {@code IBV_WR_BIND_MW}. */
    public static final int BIND = Verbs.IBV_WR_BIND_MW;

    /** {@code IBV_WR_LOCAL_INV}. */
    public static final int INVALIDATE = Verbs.IBV_WR_LOCAL_INV;

    /** {@code IBV_SEND_FENCE}. */
    public static final int FENCE = Verbs.IBV_SEND_FENCE;

    /** {@code IBV_SEND_SIGNALED}. */
    public static final int SIGNALED = Verbs.IBV_SEND_SIGNALED;

    /** {@code IBV_SEND_SOLICITED}. */
    public static final int SOLICITED = Verbs.IBV_SEND_SOLICITED;

    /** {@code IBV_SEND_INLINE}. */
    public static final int INLINE = Verbs.IBV_SEND_INLINE;

    /** What {@link #refusedAt} answers when the provider did not say. */
    public static final int UNKNOWN = -1;

    private static final long ID = ibv_send_wr.wr_id$offset();
    private static final long NEXT = ibv_send_wr.next$offset();
    private static final long SGES = ibv_send_wr.sg_list$offset();
    private static final long SGE_COUNT = ibv_send_wr.num_sge$offset();
    private static final long OPCODE = ibv_send_wr.opcode$offset();
    private static final long FLAGS = ibv_send_wr.send_flags$offset();
    private static final long IMMEDIATE = ibv_send_wr.imm_data$offset();
    private static final long INVALIDATE_RKEY = ibv_send_wr.invalidate_rkey$offset();
    private static final long WR = ibv_send_wr.wr$offset();
    private static final long REMOTE = WR + ibv_send_wr.wr.rdma$offset();
    private static final long REMOTE_ADDRESS = REMOTE + ibv_send_wr.wr.rdma.remote_addr$offset();
    private static final long REMOTE_KEY = REMOTE + ibv_send_wr.wr.rdma.rkey$offset();
    private static final long ATOMIC = WR + ibv_send_wr.wr.atomic$offset();
    private static final long ATOMIC_ADDRESS = ATOMIC + ibv_send_wr.wr.atomic.remote_addr$offset();
    private static final long COMPARE_ADD = ATOMIC + ibv_send_wr.wr.atomic.compare_add$offset();
    private static final long SWAP = ATOMIC + ibv_send_wr.wr.atomic.swap$offset();
    private static final long ATOMIC_KEY = ATOMIC + ibv_send_wr.wr.atomic.rkey$offset();
    private static final long WINDOW =
            ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.mw$offset();
    private static final long WINDOW_KEY =
            ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.rkey$offset();
    private static final long INFO =
            ibv_send_wr.bind_mw$offset() + ibv_send_wr.bind_mw.bind_info$offset();
    private static final long INFO_REGION = INFO + ibv_mw_bind_info.mr$offset();
    private static final long INFO_ADDRESS = INFO + ibv_mw_bind_info.addr$offset();
    private static final long INFO_LENGTH = INFO + ibv_mw_bind_info.length$offset();
    private static final long INFO_ACCESS = INFO + ibv_mw_bind_info.mw_access_flags$offset();

    private static final long REQUEST = ibv_send_wr.sizeof();
    private static final long SGE = ibv_sge.sizeof();
    private static final long SGE_ADDRESS = ibv_sge.addr$offset();
    private static final long SGE_LENGTH = ibv_sge.length$offset();
    private static final long CACHE_LINE = 64;

    private final Provider provider;
    private final int maxSge;
    private final int inlineBytes;
    private final long stride;
    private final long bytesAt;
    private final long places; // addresses, here and below
    private final long refused;
    private final long end;
    private long at; // the place being filled, or the next one
    private long cut; // the place whose request is the last, whatever chain it is in
    private int refusedAt;

    /**
     * Makes room for a queue pair's requests.
     *
     * @param provider the device's provider
     * @param capacity how many requests may wait
     * @param maxSge how many buffers each may name
     * @param inlineBytes how many bytes each may carry inline
     * @param memory where the chain is allocated: freed by the caller after the last post
     */
    public SendChain(
            Provider provider, int capacity, int maxSge, int inlineBytes, SegmentAllocator memory) {
        this.provider = provider;
        this.maxSge = Math.max(1, maxSge);
        this.inlineBytes = inlineBytes;
        this.bytesAt = REQUEST + SGE * this.maxSge;
        this.stride = (bytesAt + inlineBytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        this.places = memory.allocate(stride * capacity + Long.BYTES, CACHE_LINE).address();
        this.end = places + stride * capacity;
        this.refused = end;
        this.at = places;
        this.cut = end - stride;
        for (long place = places; place < cut; place += stride) {
            Native.putLong(place, NEXT, place + stride);
        }
    }

    /**
     * How many requests are in the chain.
     *
     * @return 0 or more
     */
    public int length() {
        return (int) ((at - places) / stride);
    }

    /**
     * Whether no request is in the chain.
     *
     * @return true after {@link #clear}
     */
    public boolean isEmpty() {
        return at == places;
    }

    /**
     * Whether the chain has to be posted before another request fits.
     *
     * @return true when every place is taken
     */
    public boolean full() {
        return at == end;
    }

    /**
     * Starts the next request. What it does not set is zero: rxe refuses a bind that finds
     * leftovers of another request in the unions. A place that had the same opcode before has them
     * where this one writes again, and zeros elsewhere.
     *
     * @param opcode what it does
     */
    public void begin(int opcode) {
        if (Native.getInt(at, OPCODE) != opcode) {
            for (long field = SGES; field < REQUEST; field += Long.BYTES) { // all behind the link
                Native.putLong(at, field, 0);
            }
            Native.putInt(at, OPCODE, opcode);
        }
    }

    /**
     * Names buffers by a list that stays as it is until the post.
     *
     * @param sges the address of the list
     * @param count how many
     */
    public void buffers(long sges, int count) {
        Native.putLong(at, SGES, sges);
        Native.putInt(at, SGE_COUNT, count);
    }

    /**
     * Names buffers by a copy of a list.
     *
     * @param sges the list
     * @param count how many, at most what this chain was made for
     */
    public void copyOfBuffers(SgeArray sges, int count) {
        long list = at + REQUEST;
        if (count == 1) { // most often, and a copy as such costs more than two words
            sges.copyFirst(list);
        } else {
            Objects.checkFromToIndex(0, count, maxSge);
            MemorySegment.copy(
                    Native.EVERYWHERE, sges.address(), Native.EVERYWHERE, list, SGE * count);
        }
        buffers(list, count);
    }

    /**
     * Names one buffer in the request's own list; {@link #ownBuffers} ends the list.
     *
     * @param index which of the list, below the number that this chain was made for
     * @param address where the bytes are
     * @param lengthAndKey as {@link SgeArray#lengthAndKeyOf} returned them
     */
    public void buffer(int index, long address, long lengthAndKey) {
        SgeArray.put(at + REQUEST + SGE * Objects.checkIndex(index, maxSge), address, lengthAndKey);
    }

    /**
     * Ends the list that {@link #buffer} filled.
     *
     * @param count how many buffers it names
     */
    public void ownBuffers(int count) {
        buffers(at + REQUEST, count);
    }

    /**
     * Gathers bytes for a request that carries them in itself, in this chain's memory; {@link
     * #ownBytes} ends it. The JDK looks at the memory while it copies: memory whose arena another
     * thread closes meanwhile is an exception.
     *
     * @param before how many bytes were gathered for this request before
     * @param memory where the bytes are
     * @param offset the first of them
     * @param count how many
     * @throws IllegalStateException when the memory's arena is closed
     * @throws WrongThreadException when it is another thread's
     * @throws IndexOutOfBoundsException for bytes outside of the memory, and for more than this
     *     chain was made for
     */
    public void gather(long before, MemorySegment memory, long offset, long count) {
        Objects.checkFromIndexSize(before, count, (long) inlineBytes);
        MemorySegment.copy(memory, offset, Native.EVERYWHERE, at + bytesAt + before, count);
    }

    /**
     * Names what {@link #gather} gathered, as one buffer.
     *
     * @param count how many bytes that is
     */
    public void ownBytes(long count) {
        long list = at + REQUEST;
        Native.putLong(list, SGE_ADDRESS, at + bytesAt);
        // The second half holds length and key; an inline request's key is not looked at.
        Native.putLong(list, SGE_LENGTH, 0);
        Native.putInt(list, SGE_LENGTH, (int) count);
        buffers(list, 1);
    }

    /**
     * Says where at the peer.
     *
     * @param address in the peer's memory, in host order
     * @param key the peer's token
     */
    public void remote(long address, int key) {
        Native.putLong(at, REMOTE_ADDRESS, address);
        Native.putInt(at, REMOTE_KEY, key);
    }

    /**
     * Says which token dies: here for {@link #INVALIDATE}, at the peer for {@link
     * #SEND_WITH_INVALIDATE}.
     *
     * @param key the token
     */
    public void invalidate(int key) {
        Native.putInt(at, INVALIDATE_RKEY, key);
        if (provider.readsInvalidatedKeyFromRdma()) {
            Native.putInt(at, REMOTE_KEY, key);
        }
    }

    /**
     * Sets the immediate data.
     *
     * @param data the number that C at the other end gets from {@code ntohl(imm_data)}
     */
    public void immediate(int data) {
        Native.EVERYWHERE.set(Native.BIG_ENDIAN_INT, at + IMMEDIATE, data);
    }

    /**
     * Sets the operands of an atomic operation.
     *
     * @param address in the peer's memory, in host order
     * @param key the peer's token
     * @param compareAdd what is compared with, or added
     * @param swap what is put in its place
     */
    public void atomic(long address, int key, long compareAdd, long swap) {
        Native.putLong(at, ATOMIC_ADDRESS, address);
        Native.putLong(at, COMPARE_ADD, compareAdd);
        Native.putLong(at, SWAP, swap);
        Native.putInt(at, ATOMIC_KEY, key);
    }

    /**
     * Says what is bound.
     *
     * @param window the address of the {@code ibv_mw}
     * @param key the token it will have
     * @param region the address of the {@code ibv_mr}
     * @param address where the window starts
     * @param bytes how long it is
     * @param access {@code IBV_ACCESS_REMOTE_…}
     */
    public void bind(long window, int key, long region, long address, long bytes, int access) {
        Native.putLong(at, WINDOW, window);
        Native.putInt(at, WINDOW_KEY, key);
        Native.putLong(at, INFO_REGION, region);
        Native.putLong(at, INFO_ADDRESS, address);
        Native.putLong(at, INFO_LENGTH, bytes);
        Native.putInt(at, INFO_ACCESS, access);
    }

    /**
     * Ends the request and appends it to the chain.
     *
     * @param id what its completion will carry
     * @param flags {@code IBV_SEND_…}
     */
    public void finish(long id, int flags) {
        Native.putLong(at, ID, id);
        Native.putInt(at, FLAGS, flags);
        at += stride;
    }

    /** Forgets the chain. */
    public void clear() {
        at = places;
    }

    /**
     * Makes the chain, or its rest, ready for {@code ibv_post_send}. It stays as it is until {@link
     * #clear}.
     *
     * @param first the first request to post
     * @return that request's address
     */
    public long prepare(int first) {
        if (cut != at - stride) {
            cutBehind(at - stride);
        }
        return places + stride * first;
    }

    /**
     * Where {@code ibv_post_send} puts the address of the first request that it did not take: NULL
     * before each post.
     *
     * @return the address of that pointer
     */
    public long badRequest() {
        return refused;
    }

    /**
     * Whether a provider's answer means that it took all requests. siw may answer 0 and name a
     * request, because the doorbell's result overwrites the list's.
     *
     * @param answer what {@code ibv_post_send} returned
     * @return true when it is 0 and no request is named
     */
    public boolean accepted(int answer) {
        return answer == 0 && Native.getLong(refused, 0) == 0;
    }

    /**
     * Notes which request the provider did not take, after it did not accept them all.
     *
     * @param first the first request that was posted
     * @param answer what {@code ibv_post_send} returned
     * @return a positive errno; {@link #refusedAt} says more
     */
    public int refused(int first, int answer) {
        long bad = Native.getLong(refused, 0);
        Native.putLong(refused, 0, 0); // of no meaning but after a failure
        long offset = bad - places;
        boolean one = offset >= stride * first && bad < at && offset % stride == 0;
        refusedAt = one ? (int) (offset / stride) : UNKNOWN;
        return errno(answer, bad);
    }

    private void cutBehind(long last) {
        Native.putLong(cut, NEXT, cut + stride < end ? cut + stride : 0);
        Native.putLong(last, NEXT, 0);
        cut = last;
    }

    /**
     * Which request was the first that the provider did not take, after {@link #refused}.
     *
     * @return its index in the chain, or {@link #UNKNOWN} when the provider did not say: rxe and
     *     siw leave {@code bad_wr} alone when ringing the doorbell fails, with the requests in the
     *     queue
     */
    public int refusedAt() {
        return refusedAt;
    }

    /**
     * What a provider's answer means. siw's are negative, and it may answer 0 with {@code bad_wr}
     * set, because the doorbell's result overwrites the list's.
     */
    static int errno(int answer, long bad) {
        return answer == 0 && bad != 0 ? Errno.EIO : Math.abs(answer);
    }
}
