package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.NativeQueuePair;
import dev.verbena.internal.queue.Operation;
import dev.verbena.internal.queue.QueueLock;
import dev.verbena.internal.queue.ReceiveQueue;
import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.verbs.Errno;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * One end of a reliable connection, with a send queue (NDK: initiator queue) and a receive queue:
 * NDK's QP, verbs' {@code ibv_qp} of type RC.
 *
 * <p>A write, and a message after it that invalidates the peer's token, as one chain of work
 * requests:
 *
 * {@snippet file="dev/verbena/examples/WindowTransfer.java" region="fill"}
 *
 * <table>
 *   <caption>Operations</caption>
 *   <tr><th>NDK</th><th>here</th><th>verbs</th></tr>
 *   <tr><td>NdkSend</td><td>{@link #send}</td><td>IBV_WR_SEND</td></tr>
 *   <tr><td>NdkSendAndInvalidate</td><td>{@link #sendAndInvalidate}</td><td>IBV_WR_SEND_WITH_INV</td></tr>
 *   <tr><td>NdkWrite</td><td>{@link #write}</td><td>IBV_WR_RDMA_WRITE</td></tr>
 *   <tr><td>NdkRead</td><td>{@link #read}</td><td>IBV_WR_RDMA_READ</td></tr>
 *   <tr><td>NdkReceive</td><td>{@link #receive}</td><td>ibv_post_recv</td></tr>
 *   <tr><td>NdkBind</td><td>{@link #bind}</td><td>IBV_WR_BIND_MW</td></tr>
 *   <tr><td>NdkInvalidate</td><td>{@link #invalidate}</td><td>IBV_WR_LOCAL_INV</td></tr>
 *   <tr><td>NdkFlush</td><td>{@link #flush}</td><td>ibv_modify_qp(IBV_QPS_ERR)</td></tr>
 *   <tr><td>–</td><td>{@link #sendWithImmediate}, {@link #writeWithImmediate}</td><td>IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM</td></tr>
 *   <tr><td>–</td><td>{@link #compareAndSwap}, {@link #fetchAndAdd}</td><td>IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD</td></tr>
 * </table>
 *
 * <p><b>Threads.</b> With completion queues of {@link Adapter#createCompletionQueue}, any thread
 * may call any method. The caller serialises posts to one of the two queues, as NDK asks; a post to
 * the other queue, a flush or a close may run at the same time. With {@linkplain
 * Adapter#createConfinedCompletionQueue confined} completion queues, only their owner thread may
 * post, bind, invalidate and close, and other threads get a {@link WrongThreadException}; {@link
 * #flush}, {@link #connect} and the getters may be called from any thread.
 *
 * <p><b>What a post returns.</b> {@link PostResult#ACCEPTED}: the request was accepted, and exactly
 * one completion follows, or none if it is {@link OpFlags#SILENT_SUCCESS silent} and succeeds. (The
 * completion of a silent request that fails comes from the device, like all others: verbs reports
 * every failure.) Any other result: the request had no effect and has no completion, and the
 * connection is unchanged, unless {@link #connected} returns false now. Requests that were
 * {@linkplain OpFlags#DEFER deferred} are posted before a later post is refused or throws. A post
 * does not block, and does not throw for an error of the device. It allocates nothing, except when
 * more requests are outstanding than ever before, and for the first deferred request and a bind to
 * a different region.
 *
 * <p><b>Memory.</b> From an accepted post to its completion, the memory of the buffers belongs to
 * the device (of an inline request: until the post returns). The {@link BufferList} itself may be
 * changed as soon as the post returns, also if the request is deferred.
 */
@CheckReturnValue
public final class QueuePair extends NativeObject implements SendRequests {
    private final Adapter adapter;
    private final ProtectionDomain domain;
    private final CompletionQueue initiatorCompletions;
    private final CompletionQueue receiveCompletions;
    private final @Nullable SharedReceiveQueue sharedReceives;
    private final QueuePairLimits limits;
    private final Handle handle;
    final SendQueue sends; // where SendRequests posts
    private final @Nullable ReceiveQueue receives; // null with a shared receive queue

    QueuePair(
            ProtectionDomain domain,
            CompletionQueue initiatorCompletions,
            CompletionQueue receiveCompletions,
            @Nullable SharedReceiveQueue sharedReceives,
            QueuePairLimits limits) {
        super(
                sharedReceives == null
                        ? new NativeObject[] {domain, initiatorCompletions, receiveCompletions}
                        : new NativeObject[] {
                            domain, initiatorCompletions, receiveCompletions, sharedReceives
                        });
        this.domain = domain;
        this.adapter = domain.adapter();
        this.initiatorCompletions = initiatorCompletions;
        this.receiveCompletions = receiveCompletions;
        this.sharedReceives = sharedReceives;
        this.limits = limits;
        try {
            AdapterInfo info = adapter.device().info();
            checkLimits(info);
            this.handle = new Handle(info, adapter.device().ports().chosen());
            this.sends = handle.sends();
            this.receives = handle.receives();
            handle.register(this, teardown());
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /** The queue pair itself, for internal packages; leads back to the API's object. */
    final class Handle extends NativeQueuePair {
        private Handle(AdapterInfo info, @Nullable GidChoice gid) {
            super(
                    adapter.queueDevice(),
                    domain.handle(),
                    initiatorCompletions.events(),
                    receiveCompletions.events(),
                    sharedReceives == null ? null : sharedReceives.handle(),
                    limits,
                    info,
                    adapter.device().ports().portOf(gid),
                    gid == null ? null : gid.gid());
        }

        QueuePair queuePair() {
            return QueuePair.this;
        }

        @Override
        protected void runUnlessClosed(Runnable what) {
            QueuePair.this.runUnlessClosed(what);
        }

        @Override
        protected Port.GidEntry preferredGid(int portNumber) {
            return call(() -> adapter.device().ports().preferredGidOf(portNumber));
        }
    }

    private void checkLimits(AdapterInfo info) {
        if (initiatorCompletions.adapter() != adapter
                || receiveCompletions.adapter() != adapter
                || (sharedReceives != null && sharedReceives.domain() != domain)) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A queue pair's completion queues must be of the adapter of its domain, and its shared receive queue of that domain; the domain is of "
                            + adapter.name());
        }
        if (initiatorCompletions.owner() != receiveCompletions.owner()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "Both completion queues of a queue pair must be shared, or both confined to the same thread");
        }
        limits.check(info, adapter.name(), sharedReceives != null);
    }

    // ---- the connection

    /**
     * The address of this queue pair, for the {@link #connect} of the peer. Its GID is the one that
     * {@link Adapter#useGid} had chosen when this queue pair was created, or else the {@link
     * Port#preferredGid} of its port when this method or {@link #connect} is first called. It does
     * not change after that.
     *
     * @return the address
     * @throws VerbenaException INVALID_ADDRESS when its port has no GID
     * @throws IllegalStateException for a closed queue pair whose GID is not known
     */
    public QueuePairAddress address() {
        return handle.byAddress().address();
    }

    /**
     * Connects to a queue pair whose address the program received over a channel of its own, such
     * as TCP. The peer connects to this side's {@link #address} in the same way; send when both
     * have connected.
     *
     * <p>A request fails with IO_TIMEOUT after half a second or more if the peer does not
     * acknowledge it, and a message after about 4 s if the peer has no receive for it (without
     * limit if its receives are shared). {@link #connect(QueuePairAddress, PathOptions)} changes
     * these timeouts.
     *
     * @param peer the other queue pair's address
     * @throws IllegalStateException when it was connected or flushed already, or is closed
     * @throws VerbenaException when the device refuses the address; if it did not refuse the first
     *     of two steps, this queue pair is flushed
     */
    public void connect(QueuePairAddress peer) {
        connect(peer, PathOptions.DEFAULTS);
    }

    /**
     * Connects to a queue pair whose address the program received over a channel of its own, with a
     * chosen traffic class, timeouts and retry counts (attributes of {@code ibv_modify_qp}). They
     * apply to the packets of this side; the peer chooses its own.
     *
     * @param peer the other queue pair's address
     * @param options how packets travel, and when they are sent again
     * @throws IllegalStateException when it was connected or flushed already, or is closed
     * @throws VerbenaException when the device refuses the address or an option; if it did not
     *     refuse the first of two steps, this queue pair is flushed
     */
    public void connect(QueuePairAddress peer, PathOptions options) {
        Arguments.notNull(options, "options");
        Peer named = Peer.of(Arguments.notNull(peer, "peer"));
        run(
                () -> {
                    if (!handle.progress().beginConnecting()) {
                        throw new IllegalStateException(this + " is connected or flushed already");
                    }
                    handle.byAddress().connect(peer, named, options::applyTo, options::advice);
                });
    }

    /**
     * Whether the send queue (NDK: initiator queue) accepts requests.
     *
     * @return true from {@link #connect}, {@link Connector#completeConnect} or {@link
     *     Connector#accept} on, until the first of these: a {@link Connector#disconnect} from
     *     either side, a {@link #flush}, the close, a poll that found a failed request of this
     *     queue pair, a post that the provider refused after it had accepted others
     */
    public boolean connected() {
        return sends.connected();
    }

    /**
     * The state of this queue pair. Does not query the device, and never throws.
     *
     * @return the current state, which another thread, the peer or a poll may change at any time
     */
    public QueuePairState state() {
        return isClosed() ? QueuePairState.CLOSED : handle.state();
    }

    /**
     * Whether a request of the peer ended this queue pair: one that the device had to refuse, such
     * as an access to memory with a token (remote key) that is wrong or was revoked. On this side
     * nothing else shows that: receives end in CANCELLED, and perhaps the peer then disconnects.
     * Asks the device for the state of the queue pair, unless that is known.
     *
     * @return false while it works, if this side ended it or a request of this side failed, and
     *     always on iWARP, which cannot tell this from an ordinary disconnect
     */
    public boolean failedByPeer() {
        return handle.failedByPeer();
    }

    /**
     * The peer that it is, or was, connected to.
     *
     * @return empty before {@link #connect}, {@link Connector#completeConnect} or {@link
     *     Connector#accept} has succeeded; afterwards the peer, also after the connection ended
     */
    public Optional<Peer> peer() {
        return Optional.ofNullable(handle.peer());
    }

    /**
     * The limits it was created with.
     *
     * @return the limits; those of receives have no effect with a shared receive queue
     */
    public QueuePairLimits limits() {
        return limits;
    }

    /**
     * How many requests of the send queue are outstanding: accepted, and not known to be complete.
     * A silent request that succeeds is known to be complete when a later completion was polled.
     *
     * @return 0 to the depth, and some more while silent requests are outstanding
     */
    public int outstandingRequests() {
        return sends.ledger().outstanding();
    }

    /**
     * How many receives of its own receive queue are outstanding.
     *
     * @return 0 to the depth; 0 with a shared receive queue
     */
    public int outstandingReceives() {
        return receives == null ? 0 : receives.ledger().outstanding();
    }

    /**
     * The counters of this queue pair since it was created. May be called from any thread, also for
     * a {@linkplain Adapter#createConfinedCompletionQueue confined} queue pair, and after the
     * close. Takes no lock: while other threads post or poll, the counts may be slightly behind,
     * and from different moments.
     *
     * @return a snapshot
     */
    public QueuePairCounters counters() {
        return new QueuePairCounters(
                handle.sendCounts().counters(sends.ledger()),
                handle.receiveCounts().counters(receives == null ? null : receives.ledger()));
    }

    /**
     * The domain it was created from.
     *
     * @return the domain, which may be closed by now
     */
    public ProtectionDomain domain() {
        return domain;
    }

    /**
     * The completion queue of its send queue (NDK: initiator queue).
     *
     * @return the completion queue, which may be closed by now
     */
    public CompletionQueue initiatorCompletions() {
        return initiatorCompletions;
    }

    /**
     * The completion queue of its receives.
     *
     * @return the completion queue, which may be closed by now; may be the same as {@link
     *     #initiatorCompletions}
     */
    public CompletionQueue receiveCompletions() {
        return receiveCompletions;
    }

    /**
     * The shared queue that it takes its receives from.
     *
     * @return empty if it has a receive queue of its own
     */
    public Optional<SharedReceiveQueue> sharedReceives() {
        return Optional.ofNullable(sharedReceives);
    }

    /**
     * Attaches an object of the caller's, such as the session that this queue pair serves (NDK:
     * QPContext). {@link Completions#attachment} finds it again. May be called at any time, from
     * any thread; the last call counts, for completions of earlier requests too.
     *
     * @param object the caller's object, or null for none
     */
    public void attach(@Nullable Object object) {
        handle.attach(object);
    }

    /**
     * The object that {@link #attach} was given last.
     *
     * @return null when there is none
     */
    public @Nullable Object attachment() {
        return handle.attachment();
    }

    // ---- receives, windows and the flush

    /**
     * Posts a receive for one message (NdkReceive). May be posted before the connection exists, and
     * after a flush, where it ends in CANCELLED. Ends in a completion of type {@link
     * OperationType#RECEIVE}, {@link OperationType#RECEIVE_AND_INVALIDATE} or {@link
     * OperationType#RECEIVE_OF_WRITE} on the receive completion queue.
     *
     * @param context what the completion will carry
     * @param buffers where the message goes, filled in order
     * @return {@link PostResult#ACCEPTED}; or, with no effect, a refusal with the status
     *     CONNECTION_INVALID when closed, NO_MORE_ENTRIES when the queue is full of outstanding
     *     receives, INVALID_PARAMETER for too many buffers, INVALID_PARAMETER_MIX for memory of
     *     another domain, ACCESS_VIOLATION for memory that may not be written to or whose arena is
     *     closed, INVALID_DEVICE_REQUEST when this queue pair takes its receives from a {@link
     *     SharedReceiveQueue}, or the status for the provider's error
     */
    public PostResult receive(long context, BufferList buffers) {
        PostResult result =
                receives == null
                        ? PostResult.SHARED_RECEIVES
                        : receives.post(context, buffers.buffers);
        return result == PostResult.ACCEPTED
                ? result
                : handle.refused(handle.receiveCounts(), "receive", result);
    }

    /**
     * Binds a window to a part of a region (NdkBind): it gets a new token (remote key), with which
     * the peer of this queue pair may access that part. {@link MemoryWindow#remoteToken} returns
     * the token as soon as this returns. It may be sent in the next message of this queue pair
     * without waiting; over any other connection only after the completion of the bind, of type
     * {@link OperationType#BIND}.
     *
     * <p>The peer uses the addresses of the region's memory, not offsets in the window. Soft-RoCE
     * checks the bounds of the region only, not those of the window. A bound window must be
     * invalidated before it is bound again; the bind may be posted right after the invalidate.
     *
     * <p><b>Soft-RoCE of older kernels and lost packets.</b> When Linux 6.1 resends lost packets,
     * it also executes binds again that were complete. The second execution fails, and the queue
     * pair stops without a completion or an event: its requests never complete. Linux 7.3 ends the
     * connection with a status instead. Where packets may be lost, call {@link #failIfStalled}; a
     * {@code MessageChannel}, and a {@code RawConnection} with a timeout, have deadlines of their
     * own.
     *
     * @param context what the completion will carry
     * @param window a window of this domain that is not bound
     * @param region a region of this domain
     * @param offset where the window starts, counted from the region's start
     * @param length how long it is, at least 1, at most {@link AdapterInfo#maxWindowBytes}
     * @param flags {@link OpFlags}: ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE, SILENT_SUCCESS,
     *     READ_FENCE, DEFER
     * @return {@link PostResult#ACCEPTED}; or, with no effect, a refusal with the status
     *     CONNECTION_INVALID, NO_MORE_ENTRIES and the provider's error as {@link #send(long,
     *     BufferList, OpFlags)}; INVALID_PARAMETER for a range outside the region, or flags that it
     *     does not support; INVALID_PARAMETER_MIX for objects of another domain; ACCESS_VIOLATION
     *     for ALLOW_REMOTE_WRITE on a region without LOCAL_WRITE, and for a region that is not
     *     {@linkplain MemoryRegion#bindable bindable} or whose memory's arena is closed;
     *     INVALID_DEVICE_REQUEST for a window that is bound; DEVICE_BUSY for one whose requests on
     *     another queue pair are outstanding
     * @throws IllegalStateException for a closed window or region
     */
    public PostResult bind(
            long context,
            MemoryWindow window,
            MemoryRegion region,
            long offset,
            long length,
            OpFlags flags) {
        QueueLock.checkStack();
        try {
            return answer(
                    Operation.BIND.name(),
                    window.bind(handle, context, region, offset, length, flags.bits));
        } catch (RuntimeException | Error e) {
            sends.postDeferred();
            throw e;
        }
    }

    /**
     * Invalidates the token (remote key) of a window of this side (NdkInvalidate). Ends in a
     * completion of type {@link OperationType#INVALIDATE}; from then on the peer's reads and writes
     * through it fail.
     *
     * <p>Polls receives first, to see whether the peer has invalidated the window already. If such
     * a message arrives between this poll and the invalidate, the request fails, and with it the
     * connection, as in NDK; the kernel of a Soft-RoCE device panics then (seen on 6.1). So agree
     * with the peer which side invalidates.
     *
     * @param context what the completion will carry
     * @param window a window that is bound on this queue pair
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE; DEFER has no effect
     * @return {@link PostResult#ACCEPTED}; or, with no effect, a refusal with the status
     *     INVALID_DEVICE_REQUEST when it is not bound on this queue pair, also because it was
     *     invalidated before, by either side; CONNECTION_INVALID, NO_MORE_ENTRIES,
     *     INVALID_PARAMETER and the provider's error as {@link #send(long, BufferList, OpFlags)}
     * @throws IllegalStateException for a closed window
     */
    public PostResult invalidate(long context, MemoryWindow window, OpFlags flags) {
        QueueLock.checkStack();
        try {
            return answer(
                    Operation.INVALIDATE.name(), window.invalidate(handle, context, flags.bits));
        } catch (RuntimeException | Error e) {
            sends.postDeferred();
            throw e;
        }
    }

    /**
     * Cancels all outstanding requests and receives (NdkFlush, {@code ibv_modify_qp} to the error
     * state): each ends in CANCELLED, also silent and deferred ones, unless it has completed
     * already. Returns at once; poll for the completions. In verbs this ends the connection:
     * requests that are posted later are refused with CONNECTION_INVALID, and receives end in
     * CANCELLED. Receives in a {@link SharedReceiveQueue} are not cancelled.
     *
     * <p>Also works on a queue pair that was never connected. May run at the same time as posts.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException when the device refuses
     */
    public void flush() {
        QueueLock.checkStack();
        run(() -> Errno.check(handle.flush(), "ibv_modify_qp(ERR)", ""));
    }

    /**
     * Completes when the device no longer uses the receives that this queue pair took from a {@link
     * SharedReceiveQueue}, which is soon after a {@link #flush} or a failure. {@link #close} waits
     * for that, for at most a second. A thread that must not wait should flush first, and close
     * when the future is complete.
     *
     * @return a future, already complete if the receives are not shared, the queue pair was never
     *     connected, or the provider does not report this; completed by a thread that must not
     *     block
     */
    @CheckReturnValue
    public CompletableFuture<Void> sharedReceivesReturned() {
        return handle.sharedReceivesReturned().copy();
    }

    /**
     * Turns on a watchdog: a queue pair that has requests outstanding and completes none for this
     * long fails. Each request of its send queue that is outstanding then completes with
     * IO_TIMEOUT, each receive with CANCELLED, and posts are refused, as after any failed request.
     * For devices that stop without a completion or an event, as described at {@link #bind}.
     *
     * <p>Receives do not count, because a peer may be silent; nor do silent requests until one with
     * a completion follows. Reads and deferred requests do count. Choose a time that is longer than
     * the longest request takes, with the retries of the device: up to a minute for a peer that is
     * gone. The queue pair fails at the latest an eighth of the time later. Counters are compared
     * on the adapter's event thread, so posts cost the same as without. With {@linkplain
     * Adapter#createConfinedCompletionQueue confined} completion queues their owner has to poll
     * more often than that: a completion that was not polled does not count.
     *
     * @param timeout at least 10 ms; replaces the timeout of an earlier call
     * @throws IllegalArgumentException for a shorter timeout
     * @throws IllegalStateException when closed
     */
    public void failIfStalled(Duration timeout) {
        run(() -> handle.watch().start(timeout));
    }

    /**
     * The address of the {@code ibv_qp}, for functions of libibverbs that this library does not
     * call: see {@linkplain dev.verbena Native handles}.
     *
     * @return a segment of size 0 at that address
     * @throws IllegalStateException if this object is closed
     */
    @CheckReturnValue
    public MemorySegment nativeHandle() {
        return nativeHandle(handle.address());
    }

    Handle handle() {
        return handle;
    }

    /** Counts and records a refused post. */
    PostResult answer(String operation, PostResult result) {
        return result == PostResult.ACCEPTED
                ? result
                : handle.refused(handle.sendCounts(), operation, result);
    }

    // ---- its end

    @Override
    void checkMayClose() {
        initiatorCompletions.checkMayClose();
    }

    @Override
    void shut(Teardown end) {
        handle.close(end);
    }

    @Override
    void destroy(Teardown end) {
        handle.destroy(end);
    }

    @Override
    String describe() {
        return "QueuePair %d".formatted(handle.number());
    }
}
