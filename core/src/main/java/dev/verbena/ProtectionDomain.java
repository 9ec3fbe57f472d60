package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.device.OwnedMemory;
import dev.verbena.internal.queue.Domain;
import dev.verbena.internal.queue.WindowTable;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * A group of queue pairs and the memory that they may use: NDK's PD, verbs' {@code ibv_pd}.
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="objects"}
 *
 * <p>May be used from any thread.
 */
public final class ProtectionDomain extends NativeObject {
    private final Adapter adapter;
    private final Domain handle;

    ProtectionDomain(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        try {
            long answer = adapter.device().control().allocatePd();
            this.handle =
                    new Domain(Errno.check(answer, "ibv_alloc_pd(" + adapter.name() + ")", ""));
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /**
     * Allocates memory and registers it: {@link #allocate(long, MemoryOptions, Access...)} with
     * {@link MemoryOptions#DEFAULTS}.
     *
     * @param bytes how many, at least 1; may be more than 2 GiB
     * @param rights the access rights; see {@link #register}
     * @return the region, to be closed by the caller
     */
    @CheckReturnValue
    public MemoryRegion allocate(long bytes, Access... rights) {
        return allocate(bytes, MemoryOptions.DEFAULTS, rights);
    }

    /**
     * Allocates memory and registers it with the device (NdkCreateMr and NdkRegisterMr). The region
     * owns the memory: {@link MemoryRegion#close} ends Java's access to it, deregisters it, and
     * then frees it; the last two wait for windows whose last bind was to it ({@link
     * MemoryWindow#releaseRegion}). So neither device nor peer can ever read or write memory that
     * has been reused for something else.
     *
     * <p>The memory is zeroed, and takes whole pages: for many small buffers, divide one region up.
     * The device's driver pins the pages on the NUMA node of the calling thread, so call this on a
     * thread that runs on the device's node, or on the node that will use the memory.
     *
     * @param bytes how many, at least 1; may be more than 2 GiB
     * @param options alignment and size of the pages
     * @param rights the access rights; see {@link #register}
     * @return the region, to be closed by the caller
     * @throws IllegalArgumentException for less than 1 byte
     * @throws VerbenaException with INSUFFICIENT_RESOURCES when there is not enough memory, or too
     *     few free huge pages with {@link HugePages#REQUIRED}; when registration fails, most often
     *     because the limit of lockable memory is too low
     */
    @CheckReturnValue
    @SuppressWarnings("MustBeClosedChecker") // the region closes the arena
    public MemoryRegion allocate(long bytes, MemoryOptions options, Access... rights) {
        return allocate(this, null, Arena.ofShared(), bytes, options, rights);
    }

    /**
     * Allocates and registers memory.
     *
     * @param parent the object that is destroyed after the region
     * @param divider the pool or arena that divides the memory and closes the region; null if its
     *     user closes it
     * @param javaAccess ends Java's access to the memory when it is closed
     */
    MemoryRegion allocate(
            NativeObject parent,
            @Nullable NativeObject divider,
            Arena javaAccess,
            long bytes,
            MemoryOptions options,
            Access... rights) {
        ensureOpen();
        OwnedMemory memory = OwnedMemory.allocate(bytes, options, javaAccess);
        try {
            return new MemoryRegion(
                    parent, this, to -> to.ofMemory(memory.segment()), memory, divider, rights);
        } catch (Throwable t) {
            memory.discard();
            throw t;
        }
    }

    /**
     * Creates an arena of registered memory, for many segments of any size: {@link
     * #createArena(long, long, Access...)} with slabs of 2 MiB, and 64 GiB at most.
     *
     * @param rights the access rights of all its memory; see {@link #register}
     * @return the arena, to be closed by the caller
     */
    @CheckReturnValue
    public RegisteredArena createArena(Access... rights) {
        return createArena(RegisteredArena.DEFAULT_SLAB, RegisteredArena.DEFAULT_LIMIT, rights);
    }

    /**
     * Creates an arena of registered memory, for many segments of any size. It registers a slab
     * whenever the last one is used up.
     *
     * @param slabBytes the size of a slab, which is registered as a whole; a power of two
     * @param maxBytes the most that it registers, rounded up to whole slabs
     * @param rights the access rights of all its memory; see {@link #register}
     * @return the arena, to be closed by the caller
     * @throws IllegalArgumentException for a slab that is not a power of two or smaller than a
     *     page, and for a maximum below 1 byte or above 64 TiB
     */
    @CheckReturnValue
    public RegisteredArena createArena(long slabBytes, long maxBytes, Access... rights) {
        return RegisteredArena.of(this, slabBytes, maxBytes, rights);
    }

    /**
     * Creates a pool of registered buffers.
     *
     * @param options how many, and of which size
     * @param rights the access rights of all buffers; see {@link #register}
     * @return the pool, to be closed by the caller
     * @throws VerbenaException as {@link #allocate(long, MemoryOptions, Access...)}
     */
    @CheckReturnValue
    public BufferPool createBufferPool(BufferPoolOptions options, Access... rights) {
        return new BufferPool(this, options, rights);
    }

    /**
     * Registers memory that the caller owns (NdkCreateMr and NdkRegisterMr): pins it and creates
     * its local and remote key (NDK: tokens). For mapped files and memory of other libraries; for
     * everything else {@link #allocate(long, Access...)} is safer.
     *
     * <p>The caller owns the memory. It must stay allocated until the region is closed and no
     * window holds it any more ({@link MemoryRegion#awaitClosed} waits for that, {@link
     * MemoryWindow#releaseRegion} says when). The device does not notice that an arena is closed:
     * it would write into memory that may be reused by then.
     *
     * <p>A read-only segment, such as a read-only mapping of a file (on Linux 6.2 and later), can
     * be registered only for reading: with no right, {@link Access#REMOTE_READ}, or {@link
     * Access#WINDOWS}.
     *
     * @param memory native memory, at least one byte: from an {@link java.lang.foreign.Arena}, a
     *     mapped file, a direct buffer
     * @param rights the access rights; without any, the memory can only be the source of sends and
     *     writes posted on this side
     * @return the region, to be closed by the caller before the memory is freed
     * @throws IllegalArgumentException for memory on the Java heap, for 0 bytes, and for a
     *     read-only segment with a right that allows writes
     * @throws IllegalStateException for memory whose arena was closed
     * @throws WrongThreadException for memory confined to another thread
     * @throws VerbenaException when registration fails, most often because the limit of lockable
     *     memory is too low
     */
    @CheckReturnValue
    public MemoryRegion register(MemorySegment memory, Access... rights) {
        for (Access right : rights) {
            if (memory.isReadOnly() && right.writes()) {
                throw new IllegalArgumentException(
                        "This memory segment is read-only, but %s would let the device write to it: register it with no right or REMOTE_READ, or register a segment that is not read-only"
                                .formatted(right));
            }
        }
        return new MemoryRegion(this, this, to -> to.ofMemory(memory), null, null, rights);
    }

    /**
     * Registers memory of another device, such as a GPU's, which its driver exports as a dma-buf
     * ({@code ibv_reg_dmabuf_mr}; beyond NDK). Data then move between that device and the network
     * without a copy in main memory. Requests and the peer use the region like any other; Java has
     * no access to it ({@link MemoryRegion#memory} throws), and requests with {@link
     * OpFlags#INLINE} are refused.
     *
     * <p>The file descriptor may be closed when this returns: the region keeps the dma-buf.
     *
     * @param descriptor the dma-buf, as exported by the other device's driver
     * @param offset the first byte in the dma-buf
     * @param length how many bytes, at least 1
     * @param iova the address of the first byte for the peer, see {@link
     *     MemoryRegion#remoteMemory}: any that lies as far behind a page's start as {@code offset},
     *     which itself is a good choice
     * @param rights the access rights; see {@link #register}
     * @return the region, to be closed by the caller
     * @throws IllegalArgumentException for arguments out of range, and for {@link Access#ON_DEMAND}
     * @throws VerbenaException with NOT_SUPPORTED if the provider or driver cannot register
     *     dma-bufs, as Soft-RoCE; when registration fails
     */
    @CheckReturnValue
    public MemoryRegion registerDmaBuf(
            int descriptor, long offset, long length, long iova, Access... rights) {
        if (Arrays.asList(rights).contains(Access.ON_DEMAND)) {
            throw new IllegalArgumentException(
                    "A dma-buf cannot be registered ON_DEMAND: its exporter decides where its pages are");
        }
        return new MemoryRegion(
                this,
                this,
                to -> to.ofDmaBuf(descriptor, offset, length, iova),
                null,
                null,
                rights);
    }

    /**
     * Creates a memory window (NdkCreateMw) of type 2. {@link QueuePair#bind} gives the peer access
     * to a part of a region through it, which this side can revoke at any time, and the peer can
     * give back by {@link QueuePair#sendAndInvalidate}.
     *
     * @return the new window, not bound yet, to be closed by the caller
     * @throws VerbenaException with NOT_SUPPORTED if the device has no windows of type 2
     */
    @CheckReturnValue
    public MemoryWindow createMemoryWindow() {
        return new MemoryWindow(this);
    }

    /**
     * Creates a queue of receives that many queue pairs share (NdkCreateSrq).
     *
     * @param depth how many receives may be posted
     * @param maxBuffers how many buffers each may name
     * @param callback (NdkSrqNotificationCallback) called with SUCCESS once for each {@link
     *     SharedReceiveQueue#notifyBelow} that no later one has replaced, and once with
     *     INTERNAL_ERROR, even without {@code notifyBelow}, when the queue or the device has failed
     *     (IBV_EVENT_SRQ_ERR, IBV_EVENT_DEVICE_FATAL); then close the queue and its queue pairs.
     *     Runs on a callback thread, one call at a time; it may block, and close any object
     * @return the new object, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER if the device does not support the limits,
     *     with NOT_SUPPORTED if it has no shared receive queues
     */
    @CheckReturnValue
    public SharedReceiveQueue createSharedReceiveQueue(
            int depth, int maxBuffers, Consumer<Status> callback) {
        return new SharedReceiveQueue(
                this, depth, maxBuffers, Arguments.notNull(callback, "callback"));
    }

    /**
     * Creates a queue pair that takes its receives from a shared queue (NdkCreateQpWithSrq).
     *
     * @param initiatorCompletions the completion queue of the send queue (NDK: initiator queue)
     * @param receiveCompletions the completion queue for its receives; may be the same
     * @param receives the shared queue, of this domain
     * @param limits its depths and sizes; those of receives are ignored
     * @return the new object, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER if the device does not support the limits,
     *     INVALID_PARAMETER_MIX for objects of different adapters or completion queues of different
     *     owners
     * @throws WrongThreadException if the completion queues are {@linkplain
     *     Adapter#createConfinedCompletionQueue confined} to another thread
     */
    @CheckReturnValue
    public QueuePair createQueuePair(
            CompletionQueue initiatorCompletions,
            CompletionQueue receiveCompletions,
            SharedReceiveQueue receives,
            QueuePairLimits limits) {
        return new QueuePair(
                this,
                initiatorCompletions,
                receiveCompletions,
                Arguments.notNull(receives, "receives"),
                limits);
    }

    /**
     * Creates a queue pair (NdkCreateQp). Receives may be posted to it immediately, send queue
     * requests once it is connected.
     *
     * @param initiatorCompletions the completion queue of the send queue (NDK: initiator queue)
     * @param receiveCompletions the completion queue of the receive queue; may be the same
     * @param limits its depths and sizes
     * @return the new object, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER if the device does not support the limits,
     *     INVALID_PARAMETER_MIX for objects of different adapters or completion queues of different
     *     owners
     * @throws WrongThreadException if the completion queues are {@linkplain
     *     Adapter#createConfinedCompletionQueue confined} to another thread
     */
    @CheckReturnValue
    public QueuePair createQueuePair(
            CompletionQueue initiatorCompletions,
            CompletionQueue receiveCompletions,
            QueuePairLimits limits) {
        return new QueuePair(this, initiatorCompletions, receiveCompletions, null, limits);
    }

    /**
     * Whether the device may read these buffers for a queue pair of this domain. For code that
     * keeps a list, and wants to refuse it before it is posted.
     *
     * @param buffers of a request without {@link OpFlags#INLINE}
     * @return {@link PostResult#ACCEPTED}, NOT_REGISTERED, OTHER_DOMAIN or ARENA_CLOSED
     */
    @CheckReturnValue
    public PostResult check(BufferList buffers) {
        return buffers.buffers.check(handle, buffers.size());
    }

    /** The part of it that its queues and regions use. */
    Domain handle() {
        return handle;
    }

    WindowTable windows() {
        return handle.windows();
    }

    /**
     * The adapter it was created from.
     *
     * @return the adapter, which may be closed by now
     */
    public Adapter adapter() {
        return adapter;
    }

    /**
     * The address of the {@code ibv_pd}, for functions of libibverbs that this library does not
     * call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(address());
    }

    long address() {
        return handle.address();
    }

    @Override
    void destroy(Teardown end) {
        if (adapter.device().gone()) {
            end.dependantsLeaked(); // its memory and its queues
        }
        end.check(adapter.device().control().deallocatePd(address()), "ibv_dealloc_pd");
    }

    @Override
    String describe() {
        return "ProtectionDomain of " + adapter.name();
    }
}
