package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.WindowTable;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * What belongs together: queue pairs, and the memory they may use. NDK's PD, verbs' {@code ibv_pd}.
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="objects"}
 *
 * <p>May be used from any thread.
 */
public final class ProtectionDomain extends NativeObject {
    private final Adapter adapter;
    private final long address;

    // A device writes into registered memory whoever still holds a reference to it: what is
    // registered is kept from the
    // garbage collector, which would free the memory of an automatic arena or a direct buffer.
    private final Set<MemoryRegion> regions = ConcurrentHashMap.newKeySet();

    private final WindowTable windows = new WindowTable();

    ProtectionDomain(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        long answer = adapter.control().allocatePd();
        if (answer < 0) {
            abandon();
            throw VerbenaException.of("ibv_alloc_pd(" + adapter.name() + ")", answer, "");
        }
        this.address = answer;
    }

    /**
     * Registers memory with the device (NdkCreateMr and NdkRegisterMr): pins it and makes tokens
     * for it.
     *
     * <p>The memory stays the caller's. It has to stay allocated until the region is closed and
     * nothing keeps it any more ({@link MemoryRegion#awaitClosed}), as a window does that is bound
     * to it: the device does not know of arenas, and would go on writing where something else may
     * live by then.
     *
     * <p>A read-only segment, such as a read-only mapping of a file (on Linux 6.2 and later), is
     * registered for reading: with no right, {@link Access#REMOTE_READ}, or {@link Access#WINDOWS}.
     *
     * @param memory native memory, at least one byte: from an {@link java.lang.foreign.Arena}, a
     *     mapped file, a direct buffer
     * @param rights what may be done to it; none lets the device read it for sends and writes from
     *     here
     * @return the region, to be closed by the caller before the memory is freed
     * @throws IllegalArgumentException for memory on the Java heap, which moves, for none at all,
     *     and for a read-only segment with a right that lets anybody write
     * @throws IllegalStateException for memory whose arena was closed
     * @throws WrongThreadException for memory confined to another thread
     * @throws VerbenaException when it cannot be pinned; most often the limit of lockable memory is
     *     too low
     */
    @CheckReturnValue
    public MemoryRegion register(MemorySegment memory, Access... rights) {
        return new MemoryRegion(this, memory, rights);
    }

    /**
     * Makes a memory window (NdkCreateMw), of type 2: a token that {@link QueuePair#bind} gives to
     * a part of a region, and that the peer can be deprived of at any time, or give back by {@link
     * QueuePair#sendAndInvalidate}.
     *
     * @return a new one, bound to nothing, to be closed by the caller
     * @throws VerbenaException with NOT_SUPPORTED on a device without such windows
     */
    @CheckReturnValue
    public MemoryWindow createMemoryWindow() {
        return new MemoryWindow(this);
    }

    /**
     * Makes a queue of receives that many queue pairs share (NdkCreateSrq).
     *
     * @param depth how many receives may be posted
     * @param maxBuffers how many buffers each may name
     * @param callback called with SUCCESS once for each {@link SharedReceiveQueue#notifyBelow}, and
     *     with INTERNAL_ERROR, asked or not, when the queue or the device has failed
     *     (IBV_EVENT_SRQ_ERR, IBV_EVENT_DEVICE_FATAL): it and its queue pairs are to be closed
     *     then. On a thread of its own, one call after the other; may wait, and close what it likes
     * @return a new one, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER when a limit is beyond the device, with
     *     NOT_SUPPORTED when it has no shared receive queues
     */
    @CheckReturnValue
    public SharedReceiveQueue createSharedReceiveQueue(
            int depth, int maxBuffers, Consumer<Status> callback) {
        return new SharedReceiveQueue(
                this, depth, maxBuffers, Objects.requireNonNull(callback, "callback"));
    }

    /**
     * Makes a queue pair that takes its receives from a shared queue (NdkCreateQpWithSrq).
     *
     * @param initiatorCompletions where the completions of initiator requests go
     * @param receiveCompletions where those of its receives go; may be the same
     * @param receives the shared queue, of this domain
     * @param limits how deep and how wide it is; what they say of receives has no meaning
     * @return a new one, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER when a limit is beyond the device
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
                Objects.requireNonNull(receives, "receives"),
                limits);
    }

    /**
     * Makes a queue pair (NdkCreateQp). Receives may be posted to it at once, initiator requests
     * once it is connected.
     *
     * @param initiatorCompletions where the completions of initiator requests go
     * @param receiveCompletions where those of receives go; may be the same
     * @param limits how deep and how wide it is
     * @return a new one, to be closed by the caller
     * @throws VerbenaException with INVALID_PARAMETER when a limit is beyond the device
     */
    @CheckReturnValue
    public QueuePair createQueuePair(
            CompletionQueue initiatorCompletions,
            CompletionQueue receiveCompletions,
            QueuePairLimits limits) {
        return new QueuePair(this, initiatorCompletions, receiveCompletions, null, limits);
    }

    void keep(MemoryRegion region) {
        regions.add(region);
    }

    void forget(MemoryRegion region) {
        regions.remove(region);
    }

    WindowTable windows() {
        return windows;
    }

    /**
     * The adapter it was made from.
     *
     * @return it may be closed
     */
    public Adapter adapter() {
        return adapter;
    }

    long address() {
        return address;
    }

    @Override
    void destroy() {
        Teardown end = new Teardown(this, adapter);
        end.check(adapter.control().deallocatePd(address), "ibv_dealloc_pd");
        end.finish();
    }

    @Override
    String describe() {
        return "ProtectionDomain of " + adapter.name();
    }
}
