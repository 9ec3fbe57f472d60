package dev.verbena;

import com.google.errorprone.annotations.CanIgnoreReturnValue;
import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.connect.QueuePairEnd;
import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.Endpoint;
import dev.verbena.internal.queue.Operation;
import dev.verbena.internal.queue.ReceiveQueue;
import dev.verbena.internal.queue.Refusal;
import dev.verbena.internal.queue.RequestLedger;
import dev.verbena.internal.queue.RequestType;
import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.queue.SendRules;
import dev.verbena.internal.queue.WindowTable;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.NativeMemory;
import dev.verbena.internal.verbs.PathAttributes;
import dev.verbena.internal.verbs.Provider;
import dev.verbena.internal.verbs.QueuePairShape;
import dev.verbena.internal.verbs.ReceiveRequest;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.SendChain;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateQuery;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One end of a reliable connection, with an initiator queue and a receive queue: NDK's QP, verbs'
 * {@code ibv_qp} of type RC.
 *
 * <table>
 *   <caption>What stands where</caption>
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
 * <p><b>Threads.</b> Posts to one of the two queues are to be serialised by the caller, as NDK
 * asks; an initiator request and a receive may be posted at the same time, and flushing and closing
 * may run beside both.
 *
 * <p><b>What a post answers.</b> SUCCESS: exactly one completion follows, or none if it was {@link
 * OpFlags#SILENT_SUCCESS silent} and succeeds. Anything else: it had no effect, no completion
 * follows, and the connection is as it was, unless {@link #connected} says otherwise. What was
 * {@link OpFlags#DEFER deferred} before is posted before any refusal, an exception included. No
 * post blocks, throws for what the device says, or allocates.
 *
 * <p><b>Memory.</b> A request's bytes are the device's until its completion (inline ones: until the
 * post has returned); a {@link BufferList} is the caller's again when the post has returned, also
 * when the request is {@link OpFlags#DEFER deferred}.
 */
@CheckReturnValue
public final class QueuePair extends NativeObject {
    private static final int SEQUENCE_BITS = 0xFF_FFFF;
    private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(1);

    /** How long a device that has failed has for what is outstanding, in nanoseconds. */
    static final long FAILED_DEVICE_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(10);

    private final Adapter adapter;
    private final DeviceControl control;
    private final ProtectionDomain domain;
    private final CompletionQueue initiatorCompletions;
    private final CompletionQueue receiveCompletions;
    private final @Nullable SharedReceiveQueue sharedReceives;
    private final QueuePairLimits limits;
    private final AdapterInfo info;
    private final int inboundReads;
    private final Port port;
    private volatile Port.@Nullable GidEntry gid; // null as long as nobody has asked for it
    private final long address;
    private final int number;
    private final int firstSequence = ThreadLocalRandom.current().nextInt() & SEQUENCE_BITS;
    private final NativeMemory memory;
    private final StateQuery stateQuery;
    private final Endpoint endpoint;

    private final long initiatorSlot;
    private final SendQueue sends;
    private final AtomicBoolean connecting = new AtomicBoolean();
    private volatile Runnable onBreak = () -> {}; // of the connector
    private volatile boolean flushed; // for good, whatever a connector says
    private volatile int outboundReads; // as negotiated, before the connection

    private final long receiveSlot;
    private final @Nullable ReceiveQueue receives; // null with a shared one
    private final CountDownLatch lastReceive = new CountDownLatch(1); // with a shared one
    private volatile boolean reachable; // ready to receive, once

    // Windows and regions that were closed while requests of this queue pair named them; null when
    // it is gone.
    private @Nullable List<MemoryWindow.Remains> remains = new ArrayList<>();

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
        this.control = adapter.control();
        this.initiatorCompletions = initiatorCompletions;
        this.receiveCompletions = receiveCompletions;
        this.sharedReceives = sharedReceives;
        this.limits = limits;
        this.endpoint = new Endpoint(this, domain.windows(), this::fail);
        Deque<Runnable> undo = new ArrayDeque<>();
        undo.push(this::abandon);
        try {
            this.info = adapter.queryInfo();
            checkLimits();
            this.inboundReads = Math.min(limits.inboundReads(), info.maxInboundReads());
            GidChoice chosen = adapter.chosenGid();
            this.gid = chosen == null ? null : chosen.gid();
            this.port = adapter.portOf(chosen);
            this.initiatorSlot = reserve(initiatorCompletions, false);
            undo.push(() -> initiatorCompletions.poller().release(initiatorSlot));
            this.receiveSlot = reserve(receiveCompletions, true);
            undo.push(() -> receiveCompletions.poller().release(receiveSlot));
            int interval = SendQueue.interval(limits.initiatorDepth());
            boolean shared = sharedReceives != null;
            long made =
                    control.createQp(
                            domain.address(),
                            initiatorCompletions.address(),
                            receiveCompletions.address(),
                            sharedReceives != null ? sharedReceives.address() : 0,
                            new QueuePairShape(
                                    // Requests take one less: a disconnect and a close post one
                                    // of their own.
                                    limits.initiatorDepth() + interval,
                                    shared ? 0 : limits.receiveDepth(),
                                    limits.maxInitiatorBuffers(),
                                    shared ? 0 : limits.maxReceiveBuffers(),
                                    limits.maxInlineBytes()));
            if (made < 0) {
                throw VerbenaException.of(
                        "ibv_create_qp",
                        made,
                        "The device takes each of these limits, perhaps not with the memory there is: "
                                + limits);
            }
            undo.push(() -> control.destroyQp(made));
            this.address = made;
            VerbenaException.check(
                    control.toInit(made, port.number(), remoteRights()), "ibv_modify_qp(INIT)", "");
            this.number = control.queuePairNumber(made);
            this.memory = new NativeMemory();
            undo.push(memory::free);
            this.stateQuery = new StateQuery(made, memory);
            RequestLedger requests =
                    new RequestLedger(endpoint, initiatorSlot, limits.initiatorDepth(), interval);
            SendChain chain =
                    new SendChain(
                            adapter.provider(),
                            Math.clamp(limits.maxDeferred(), 1, limits.initiatorDepth()),
                            limits.maxInitiatorBuffers(),
                            limits.maxInlineBytes(),
                            memory);
            CompletionPoller sendPoller = initiatorCompletions.poller();
            CompletionPoller receivePoller = receiveCompletions.poller();
            this.sends =
                    new SendQueue(
                            rules(),
                            requests,
                            chain,
                            adapter.context(),
                            made,
                            sendPoller,
                            receivePoller,
                            interval,
                            this::toError);
            sendPoller.enter(requests);
            if (shared) {
                this.receives = null;
                undo.push(() -> receivePoller.share(number, null));
                receivePoller.share(number, endpoint);
                undo.push(() -> adapter.events().removeSharingQueuePair(made));
                adapter.events().addSharingQueuePair(made, this::lastReceiveReached);
            } else {
                RequestLedger received =
                        new RequestLedger(endpoint, receiveSlot, limits.receiveDepth(), 1);
                this.receives =
                        new ReceiveQueue(
                                received,
                                made,
                                new ReceiveRequest(adapter.context(), memory),
                                receivePoller,
                                domain,
                                limits.maxReceiveBuffers());
                receivePoller.enter(received);
            }
            undo.push(() -> initiatorCompletions.remove(this));
            initiatorCompletions.add(this);
            undo.push(() -> receiveCompletions.remove(this));
            receiveCompletions.add(this);
        } catch (Throwable t) {
            undo.forEach(Runnable::run);
            throw t;
        }
    }

    private SendRules rules() {
        return new SendRules(
                domain,
                limits.maxInitiatorBuffers(),
                Math.min(limits.maxInitiatorBuffers(), info.maxReadBuffers()),
                limits.maxInlineBytes(),
                port.maxMessageBytes(),
                info.maxWindowBytes(),
                info.sendsWithInvalidate(),
                info.immediateData(),
                info.atomics());
    }

    @CanIgnoreReturnValue
    private int toError() {
        return control.toError(address);
    }

    private void checkLimits() {
        if (initiatorCompletions.adapter() != adapter
                || receiveCompletions.adapter() != adapter
                || (sharedReceives != null && sharedReceives.domain() != domain)) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A queue pair and its completion queues are of one adapter, and it and its shared receives of one domain; this domain is of "
                            + adapter.name());
        }
        if (initiatorCompletions.owner() != receiveCompletions.owner()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "Both completion queues of a queue pair are shared, or both are confined to one thread");
        }
        boolean receivesFit =
                sharedReceives != null
                        || (limits.receiveDepth() <= info.maxReceiveDepth()
                                && limits.maxReceiveBuffers() <= info.maxReceiveBuffers());
        if (!receivesFit
                || limits.initiatorDepth() > info.maxInitiatorDepth()
                || limits.maxInitiatorBuffers() > info.maxInitiatorBuffers()
                || limits.maxInlineBytes() > info.maxInlineBytes()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "%s has queues of %d initiator requests with %d buffers and %d bytes inline, and %d receives with %d buffers, at most; asked for: %s"
                            .formatted(
                                    adapter.name(),
                                    info.maxInitiatorDepth(),
                                    info.maxInitiatorBuffers(),
                                    info.maxInlineBytes(),
                                    info.maxReceiveDepth(),
                                    info.maxReceiveBuffers(),
                                    limits));
        }
    }

    private static long reserve(CompletionQueue queue, boolean receive) {
        long slot = queue.poller().reserve(receive);
        if (slot == CompletionPoller.NO_SLOT) {
            throw new VerbenaException(
                    Status.INSUFFICIENT_RESOURCES,
                    "One completion queue serves 65536 queues at most");
        }
        if (slot == CompletionPoller.CLOSED) {
            throw new ClosedException(queue);
        }
        return slot;
    }

    private int remoteRights() {
        return Rights.REMOTE_WRITE
                | (inboundReads > 0 ? Rights.REMOTE_READ : 0)
                | (inboundReads > 0 && info.atomics() ? Rights.REMOTE_ATOMIC : 0);
    }

    // ---- the connection

    /** The GID that peers know it by, or null on InfiniBand, where the LID is enough. */
    private Port.@Nullable GidEntry ownGid() {
        if (port.linkLayer() != Port.LinkLayer.ETHERNET) {
            return null;
        }
        Port.GidEntry known = gid;
        if (known == null) {
            hold();
            try {
                known = adapter.preferredGidOf(port.number());
                gid = known;
            } finally {
                letGo();
            }
        }
        return known;
    }

    /**
     * Where this queue pair can be reached: what the peer's {@link #connect} takes. Its GID is the
     * one that {@link Adapter#useGid} had chosen when it was made, or else the {@link
     * Port#preferredGid} of its port when this or {@link #connect} is first called; it stays so.
     *
     * @return its address
     * @throws VerbenaException INVALID_ADDRESS when its port has no GID
     * @throws IllegalStateException for a closed queue pair that was never asked before
     */
    public QueuePairAddress address() {
        Port.GidEntry own = ownGid();
        return QueuePairAddress.of(
                        number,
                        firstSequence,
                        own == null ? new Gid(0, 0) : own.gid(),
                        port.mtuBytes())
                .withLid(port.lid())
                .withInboundReads(inboundReads)
                .withInvalidatable(info.invalidatableWindows())
                .withSharedReceives(sharedReceives != null);
    }

    /**
     * Connects to a queue pair whose address came over a channel of the caller's own. The other
     * side does the same with this one's {@link #address}; a side may send once both have.
     *
     * <p>A peer that does not answer any more makes a request fail with IO_TIMEOUT after half a
     * second or more, one that answers and has no receive for a message after about 4 s (never,
     * when its receives are shared).
     *
     * @param peer the other queue pair's address
     * @throws IllegalStateException when it was connected or flushed already, or is closed
     * @throws VerbenaException when the device refuses the address
     */
    public void connect(QueuePairAddress peer) {
        hold();
        try {
            if (!connecting.compareAndSet(false, true)) {
                throw new IllegalStateException(this + " is connected or flushed already");
            }
            boolean done = false;
            try {
                modifyToConnected(peer);
                done = true;
            } finally {
                if (!done) {
                    connecting.set(false);
                }
            }
        } finally {
            letGo();
        }
    }

    /**
     * Not in the gate: the step to ready-to-receive may ask the network for the peer's Ethernet
     * address.
     */
    private void modifyToConnected(QueuePairAddress peer) {
        Port.GidEntry own = ownGid();
        int mtu = Math.min(port.mtuBytes(), peer.mtuBytes());
        reachable = true;
        VerbenaException.check(
                control.toReadyToReceive(
                        address,
                        new PathAttributes(
                                port.number(),
                                own == null ? 0 : own.index(),
                                own != null,
                                VerbsContext.mtuOf(mtu),
                                peer.queuePairNumber(),
                                peer.firstSequenceNumber(),
                                peer.lid(),
                                peer.gid().high(),
                                peer.gid().low(),
                                inboundReads)),
                "ibv_modify_qp(RTR, peer %s)".formatted(peer.gid()),
                "Is the peer's address reachable from GID %s (ip route get)?".formatted(own));
        int reads =
                Math.min(
                        Math.min(limits.outboundReads(), info.maxOutboundReads()),
                        peer.inboundReads());
        VerbenaException.check(
                control.toReadyToSend(address, firstSequence, reads, peer.sharedReceives()),
                "ibv_modify_qp(RTS)",
                "");
        this.peer = Peer.of(peer);
        sends.connect(peer.invalidatable(), reads);
        established = true;
    }

    /**
     * Whether initiator requests are let through.
     *
     * @return true from {@link #connect}, or {@link Connector#completeConnect} or {@link
     *     Connector#accept}, until a {@link Connector#disconnect} from either side, a {@link
     *     #flush}, the close, a poll that brought the failure of one of its requests, or a post
     *     that the provider refused after others had been accepted
     */
    public boolean connected() {
        return sends.connected();
    }

    // What users ask for, and its fields.

    private volatile @Nullable Peer peer; // null until it was connected, and where it is not known
    private volatile boolean established; // set when posts have been let through, not before
    private volatile boolean failed; // by a failed request, before any flush
    private volatile @Nullable Object attachment; // the caller's

    /**
     * How far it has come. Does not ask the device, and never throws.
     *
     * @return as of now; another thread, the peer or a poll may change it at any time
     */
    public QueuePairState state() {
        if (isClosed()) {
            return QueuePairState.CLOSED;
        }
        if (failed) {
            return QueuePairState.FAILED;
        }
        if (flushed) {
            return QueuePairState.FLUSHED;
        }
        boolean wasConnected = established; // first: it is set after posts are let through
        if (connected()) {
            return QueuePairState.CONNECTED;
        }
        if (wasConnected) {
            return QueuePairState.DISCONNECTED;
        }
        return connecting.get() ? QueuePairState.CONNECTING : QueuePairState.INITIALIZED;
    }

    /**
     * Whom it is connected to, or was connected to.
     *
     * @return empty before {@link #connect}, {@link Connector#completeConnect} or {@link
     *     Connector#accept} has succeeded; afterwards the peer, also when the connection is over
     */
    public Optional<Peer> peer() {
        return Optional.ofNullable(peer);
    }

    /**
     * The limits it was made with.
     *
     * @return as given; what they say of receives has no meaning with a shared receive queue
     */
    public QueuePairLimits limits() {
        return limits;
    }

    /**
     * The domain it was made from.
     *
     * @return it may be closed
     */
    public ProtectionDomain domain() {
        return domain;
    }

    /**
     * Where the completions of its initiator requests go.
     *
     * @return it may be closed
     */
    public CompletionQueue initiatorCompletions() {
        return initiatorCompletions;
    }

    /**
     * Where the completions of its receives go.
     *
     * @return it may be closed; may be the same as {@link #initiatorCompletions}
     */
    public CompletionQueue receiveCompletions() {
        return receiveCompletions;
    }

    /**
     * The shared queue that its receives come from.
     *
     * @return empty with a receive queue of its own
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
        attachment = object;
    }

    /**
     * The object that {@link #attach} was given last.
     *
     * @return null when there is none
     */
    public @Nullable Object attachment() {
        return attachment;
    }

    /** Of the {@code ibv_qp}. */
    long nativeAddress() {
        return address;
    }

    /**
     * Takes this queue pair for a connector, which lets go of it by {@link End#release}.
     *
     * @throws VerbenaException when it is or was connected, or flushed
     */
    End claim(Adapter of, ConnectionOptions options, SharedEndpoint.Use use) {
        if (of != adapter) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "Connector and queue pair are of one adapter; this queue pair is of "
                            + adapter.name());
        }
        hold();
        if (!connecting.compareAndSet(false, true)) {
            letGo();
            throw new VerbenaException(
                    flushed ? Status.CONNECTION_INVALID : Status.CONNECTION_ACTIVE,
                    this
                            + " is connected, or was connected or flushed: each serves one connection");
        }
        return new End(options, use);
    }

    /** What a connector does with its queue pair. */
    final class End implements QueuePairEnd {
        private static final int MOST_READS = 255; // the connection manager's messages have a byte
        private static final int MOST_RETRIES = 6; // 7, which others say, never ends on rxe

        private final ConnectionOptions options;
        private final SharedEndpoint.Use use;
        private final AtomicBoolean released = new AtomicBoolean();
        private volatile @Nullable InetSocketAddress towards; // null as long as it is not known

        private End(ConnectionOptions options, SharedEndpoint.Use use) {
            this.options = options;
            this.use = use;
        }

        /** Says where the peer is, before the connection is established. */
        void towards(@Nullable InetSocketAddress address) {
            towards = address;
        }

        @Override
        public int number() {
            return number;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public boolean sharedReceives() {
            return sharedReceives != null;
        }

        @Override
        public boolean invalidatable() {
            return info.invalidatableWindows();
        }

        @Override
        public int inboundReads() {
            return Math.min(inboundReads, MOST_READS);
        }

        @Override
        public int outboundReads() {
            return Math.min(Math.min(limits.outboundReads(), info.maxOutboundReads()), MOST_READS);
        }

        @Override
        public int change(StateChange change) {
            switch (change.state()) {
                case StateChange.INITIALIZED -> change.access(remoteRights());
                case StateChange.READY_TO_RECEIVE -> {
                    reachable = true;
                    change.inboundReads(Math.min(change.inboundReads(), inboundReads()));
                }
                default -> {
                    int reads = Math.min(change.outboundReads(), outboundReads());
                    change.outboundReads(reads);
                    change.retries(Math.min(change.retries(), MOST_RETRIES));
                    if (options.ackTimeout() > 0) {
                        change.ackTimeout(options.ackTimeout());
                    }
                    QueuePair.this.outboundReads = reads;
                }
            }
            return control.change(address, change);
        }

        @Override
        public boolean usable() {
            return !flushed;
        }

        @Override
        public void open(boolean invalidatable, Runnable onDeath) {
            onBreak = onDeath;
            InetSocketAddress there = towards;
            peer = there == null ? null : Peer.of(there);
            sends.connect(invalidatable, outboundReads);
            established = true;
        }

        @Override
        public void shut() {
            sends.disconnect();
        }

        @Override
        public void drain() {
            sends.drain();
        }

        @Override
        public boolean drained() {
            return sends.drained();
        }

        @Override
        public void flush() {
            cancel();
        }

        @Override
        public void release(boolean fresh) {
            if (released.compareAndSet(false, true)) {
                if (fresh) {
                    connecting.set(false);
                    if (flushed) { // looked at after: whoever flushes sets it before
                        connecting.set(true);
                    }
                }
                use.end();
                letGo();
            }
        }
    }

    // ---- NDK's requests

    /**
     * Sends a message (NdkSend). It goes into one receive of the peer's, in order. Ends in a
     * completion of type {@link OperationType#SEND} on the initiator's completion queue.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes; an empty list sends an empty message
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, SEND_AND_SOLICIT_EVENT, INLINE,
     *     DEFER
     * @return SUCCESS; or, with no effect: CONNECTION_INVALID when not connected, flushed or
     *     closed, NO_MORE_ENTRIES when as many requests as the queue is deep are under way,
     *     INVALID_PARAMETER for flags it does not know, too many buffers or too many bytes,
     *     ACCESS_VIOLATION for memory that has no token, whose arena is closed or, inline, that is
     *     confined to another thread, or the provider's refusal
     */
    public Status send(long context, BufferList buffers, OpFlags flags) {
        return post(Operation.SEND, context, buffers, 0, 0, 0, 0, flags);
    }

    /**
     * Sends a message with no flags.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes; an empty list sends an empty message
     * @return as {@link #send(long, BufferList, OpFlags)}
     */
    public Status send(long context, BufferList buffers) {
        return send(context, buffers, OpFlags.NONE);
    }

    /**
     * Sends a message that kills a token of the peer's as it arrives (NdkSendAndInvalidate): no
     * later than the peer's receive completes, with {@link OperationType#RECEIVE_AND_INVALIDATE},
     * nobody reads or writes through it any more. Ends in a completion of type {@link
     * OperationType#SEND} here.
     *
     * <p>A token that is not good ends the connection, from the peer's side: this side may still be
     * told SUCCESS, and sees the end with its next request. Never send one a second time: kernels
     * with Soft-RoCE as of 6.12 at the other end panic.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes
     * @param remoteToken the token, as the peer handed it out
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, SEND_AND_SOLICIT_EVENT, INLINE,
     *     DEFER
     * @return as {@link #send(long, BufferList, OpFlags)}; and NOT_SUPPORTED when this device
     *     cannot, or the peer did not announce that it can be invalidated ({@link
     *     QueuePairAddress#invalidatable})
     */
    public Status sendAndInvalidate(
            long context, BufferList buffers, int remoteToken, OpFlags flags) {
        return post(Operation.SEND_AND_INVALIDATE, context, buffers, 0, remoteToken, 0, 0, flags);
    }

    /**
     * Writes into the peer's memory (NdkWrite). The peer is not told. Ends in a completion of type
     * {@link OperationType#WRITE}.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param remoteAddress where they go: the address that the peer handed out, plus an offset
     * @param remoteToken the peer's token for that memory
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, INLINE, DEFER
     * @return as {@link #send(long, BufferList, OpFlags)}
     */
    public Status write(
            long context, BufferList buffers, long remoteAddress, int remoteToken, OpFlags flags) {
        return post(Operation.WRITE, context, buffers, remoteAddress, remoteToken, 0, 0, flags);
    }

    /**
     * Writes into the peer's memory (NdkWrite), as {@link #write(long, BufferList, long, int,
     * OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param target the peer's memory
     * @param offset where in it they go
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, INLINE, DEFER
     * @return as {@link #send(long, BufferList, OpFlags)}; INVALID_PARAMETER also for bytes that
     *     would go beyond the target
     */
    public Status write(
            long context, BufferList buffers, RemoteMemory target, long offset, OpFlags flags) {
        return post(Operation.WRITE, context, buffers, target, offset, 0, 0, flags);
    }

    /**
     * Reads from the peer's memory (NdkRead). The peer is not told. Ends in a completion of type
     * {@link OperationType#READ}, and the bytes are here then.
     *
     * @param context what the completion will carry
     * @param buffers where the bytes go; at most {@link AdapterInfo#maxReadBuffers}
     * @param remoteAddress where they come from: the address that the peer handed out, plus an
     *     offset
     * @param remoteToken the peer's token for that memory
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER, and
     *     RDMA_READ_LOCAL_INVALIDATE without effect
     * @return as {@link #send(long, BufferList, OpFlags)}; ACCESS_VIOLATION also for memory that
     *     may not be written to, NOT_SUPPORTED when the peer lets no reads in or this side asked
     *     for none
     */
    public Status read(
            long context, BufferList buffers, long remoteAddress, int remoteToken, OpFlags flags) {
        return post(Operation.READ, context, buffers, remoteAddress, remoteToken, 0, 0, flags);
    }

    /**
     * Reads from the peer's memory (NdkRead), as {@link #read(long, BufferList, long, int,
     * OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers where the bytes go; at most {@link AdapterInfo#maxReadBuffers}
     * @param source the peer's memory
     * @param offset where in it they are
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER, and
     *     RDMA_READ_LOCAL_INVALIDATE without effect
     * @return as {@link #read(long, BufferList, long, int, OpFlags)}; INVALID_PARAMETER also for
     *     bytes beyond the source
     */
    public Status read(
            long context, BufferList buffers, RemoteMemory source, long offset, OpFlags flags) {
        return post(Operation.READ, context, buffers, source, offset, 0, 0, flags);
    }

    /**
     * Makes room for a message (NdkReceive). May be posted before the connection exists, and after
     * a flush, where it ends in CANCELLED. Ends in a completion of type {@link
     * OperationType#RECEIVE}, {@link OperationType#RECEIVE_AND_INVALIDATE} or {@link
     * OperationType#RECEIVE_OF_WRITE} on the receive completion queue.
     *
     * @param context what the completion will carry
     * @param buffers where the message goes, filled in order
     * @return SUCCESS; or, with no effect: CONNECTION_INVALID when closed, NO_MORE_ENTRIES when as
     *     many receives as the queue is deep are posted, INVALID_PARAMETER for too many buffers,
     *     ACCESS_VIOLATION for memory that may not be written to or whose arena is closed,
     *     INVALID_DEVICE_REQUEST when this queue pair takes its receives from a {@link
     *     SharedReceiveQueue}, or the provider's refusal
     */
    public Status receive(long context, BufferList buffers) {
        if (receives == null) {
            return Status.INVALID_DEVICE_REQUEST;
        }
        return status(receives.post(context, buffers.buffers));
    }

    /**
     * Gives a window's next token to a part of a region (NdkBind), for the peer of this queue pair.
     * The token, {@link MemoryWindow#remoteToken}, is known when this returns, and may travel in
     * the next message of this queue pair without waiting; over any other way only after the
     * completion, of type {@link OperationType#BIND}.
     *
     * <p>The peer's addresses are those of the region's memory, not counted from the window's
     * start. Soft-RoCE checks the region's bounds only, not the window's. A window that is bound
     * takes an invalidate before it is bound again; both may be posted at once: {@code
     * invalidate(…, DEFER)} and {@code bind}.
     *
     * @param context what the completion will carry
     * @param window a window of this domain that is not bound
     * @param region a region of this domain
     * @param offset where the window starts, counted from the region's start
     * @param length how long it is, at least 1, at most {@link AdapterInfo#maxWindowBytes}
     * @param flags {@link OpFlags}: ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE, SILENT_SUCCESS,
     *     READ_FENCE, DEFER
     * @return SUCCESS; or, with no effect: CONNECTION_INVALID, NO_MORE_ENTRIES and the provider's
     *     refusal as {@link #send(long, BufferList, OpFlags)}; INVALID_PARAMETER for a range
     *     outside the region, or flags it does not know; INVALID_PARAMETER_MIX for objects of
     *     another domain; ACCESS_VIOLATION for ALLOW_REMOTE_WRITE on a region without LOCAL_WRITE,
     *     and for a region that is not {@linkplain MemoryRegion#bindable bindable} or whose
     *     memory's arena is closed; INVALID_DEVICE_REQUEST for a window that is bound; DEVICE_BUSY
     *     for one whose requests on another queue pair are under way
     * @throws IllegalStateException for a closed window or region
     */
    public Status bind(
            long context,
            MemoryWindow window,
            MemoryRegion region,
            long offset,
            long length,
            OpFlags flags) {
        try {
            window.ensureOpen();
            region.hold();
            boolean kept = false;
            try {
                synchronized (window) {
                    window.ensureOpen(); // again: its close waits for this lock
                    int refusal =
                            sends.bind(
                                    context,
                                    window.window(),
                                    region.registered(),
                                    offset,
                                    length,
                                    flags.bits);
                    kept = refusal == Refusal.NONE && window.bind(region, offset, length);
                    return status(refusal);
                }
            } finally {
                if (!kept) {
                    region.letGo();
                }
            }
        } catch (RuntimeException | Error e) {
            sends.postDeferred();
            throw e;
        }
    }

    /**
     * Kills a window's token from this side (NdkInvalidate). Ends in a completion of type {@link
     * OperationType#INVALIDATE}; from then on the peer's reads and writes through it fail.
     *
     * <p>Looks for receives first that have invalidated the window already. One that arrives
     * between this look and the invalidate makes the request fail, and with it the connection, as
     * NDK has it; the kernel of a Soft-RoCE device panics then (seen on 6.1), so agree with the
     * peer on who invalidates.
     *
     * @param context what the completion will carry
     * @param window a window that is bound on this queue pair
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return SUCCESS; or, with no effect: INVALID_DEVICE_REQUEST when it is not bound on this
     *     queue pair, also because it was invalidated before, by either side; CONNECTION_INVALID,
     *     NO_MORE_ENTRIES, INVALID_PARAMETER and the provider's refusal as {@link #send(long,
     *     BufferList, OpFlags)}
     * @throws IllegalStateException for a closed window
     */
    public Status invalidate(long context, MemoryWindow window, OpFlags flags) {
        try {
            window.ensureOpen();
            synchronized (window) {
                window.ensureOpen(); // again: its close waits for this lock
                return status(sends.invalidate(context, window.window(), flags.bits));
            }
        } catch (RuntimeException | Error e) {
            sends.postDeferred();
            throw e;
        }
    }

    /**
     * Cancels what is under way (NdkFlush): each request and receive ends in CANCELLED, silent and
     * deferred ones too, unless it was over already. Returns at once; poll to see the ends. In
     * verbs this ends the connection: initiator requests posted later are refused with
     * CONNECTION_INVALID, receives end in CANCELLED. Receives in a {@link SharedReceiveQueue} stay.
     *
     * <p>Works on a queue pair that was never connected, too. May run beside posts.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException when the device refuses
     */
    public void flush() {
        hold();
        try {
            flushed = true;
            connecting.set(true); // or connect() finds the initiator queue ended
            VerbenaException.check(cancel(), "ibv_modify_qp(ERR)", "");
        } finally {
            letGo();
        }
    }

    @CanIgnoreReturnValue
    private int cancel() {
        flushed = true;
        sends.disconnect();
        if (receives != null) {
            receives.flush(this::toError);
        }
        return toError();
    }

    // ---- what verbs has beyond NDK

    /**
     * Beyond NDK: sends a message with 32 bits of its own, which the peer's receive completion
     * tells ({@link Completions#immediate}).
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes
     * @param immediate the 32 bits; a peer in C sees {@code ntohl(wc.imm_data)}
     * @param flags as {@link #send(long, BufferList, OpFlags)}
     * @return as {@link #send(long, BufferList, OpFlags)}; and NOT_SUPPORTED when the device cannot
     */
    public Status sendWithImmediate(
            long context, BufferList buffers, int immediate, OpFlags flags) {
        return post(Operation.SEND_WITH_IMMEDIATE, context, buffers, 0, 0, immediate, 0, flags);
    }

    /**
     * Beyond NDK: writes into the peer's memory and tells the peer so: one of its receives ends,
     * with {@link OperationType#RECEIVE_OF_WRITE} and the 32 bits, its buffers untouched.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param remoteAddress where they go: the address that the peer handed out, plus an offset
     * @param remoteToken the peer's token for that memory
     * @param immediate the 32 bits; a peer in C sees {@code ntohl(wc.imm_data)}
     * @param flags as {@link #send(long, BufferList, OpFlags)}
     * @return as {@link #send(long, BufferList, OpFlags)}; and NOT_SUPPORTED when the device cannot
     */
    public Status writeWithImmediate(
            long context,
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            int immediate,
            OpFlags flags) {
        return post(
                Operation.WRITE_WITH_IMMEDIATE,
                context,
                buffers,
                remoteAddress,
                remoteToken,
                immediate,
                0,
                flags);
    }

    /**
     * Beyond NDK: writes and tells the peer, as {@link #writeWithImmediate(long, BufferList, long,
     * int, int, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param buffers the bytes
     * @param target the peer's memory
     * @param offset where in it they go
     * @param immediate what the peer's completion will carry
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, SEND_AND_SOLICIT_EVENT, INLINE,
     *     DEFER
     * @return as that does; INVALID_PARAMETER also for bytes that would go beyond the target
     */
    public Status writeWithImmediate(
            long context,
            BufferList buffers,
            RemoteMemory target,
            long offset,
            int immediate,
            OpFlags flags) {
        return post(
                Operation.WRITE_WITH_IMMEDIATE,
                context,
                buffers,
                target,
                offset,
                immediate,
                0,
                flags);
    }

    /**
     * Beyond NDK: compares 64 bits at the peer and, if they are as expected, puts others in their
     * place, as one step for all that go through the peer's device. Ends in a completion of type
     * {@link OperationType#COMPARE_AND_SWAP}, and what was there before is in the buffer then, as a
     * long of this machine's byte order.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param remoteAddress where at the peer, a multiple of 8
     * @param remoteToken the peer's token for that memory: registered with REMOTE_READ and
     *     REMOTE_WRITE
     * @param expected what is compared with
     * @param value what is put there
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as {@link #read}; NOT_SUPPORTED when the device cannot, INVALID_PARAMETER for another
     *     buffer or address
     */
    public Status compareAndSwap(
            long context,
            BufferList result,
            long remoteAddress,
            int remoteToken,
            long expected,
            long value,
            OpFlags flags) {
        return post(
                Operation.COMPARE_AND_SWAP,
                context,
                result,
                remoteAddress,
                remoteToken,
                expected,
                value,
                flags);
    }

    /**
     * Beyond NDK: adds to 64 bits at the peer, as one step for all that go through the peer's
     * device. Ends in a completion of type {@link OperationType#FETCH_AND_ADD}, and what was there
     * before is in the buffer then, as a long of this machine's byte order.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param remoteAddress where at the peer, a multiple of 8
     * @param remoteToken the peer's token for that memory: registered with REMOTE_READ and
     *     REMOTE_WRITE
     * @param added what is added
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as {@link #compareAndSwap}
     */
    public Status fetchAndAdd(
            long context,
            BufferList result,
            long remoteAddress,
            int remoteToken,
            long added,
            OpFlags flags) {
        return post(
                Operation.FETCH_AND_ADD,
                context,
                result,
                remoteAddress,
                remoteToken,
                added,
                0,
                flags);
    }

    /**
     * Beyond NDK: compares and swaps, as {@link #compareAndSwap(long, BufferList, long, int, long,
     * long, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param target the peer's memory
     * @param offset where in it; the address is a multiple of 8
     * @param expected what is compared with
     * @param value what is put there
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as that does; INVALID_PARAMETER also for bytes beyond the target
     */
    public Status compareAndSwap(
            long context,
            BufferList result,
            RemoteMemory target,
            long offset,
            long expected,
            long value,
            OpFlags flags) {
        return post(
                Operation.COMPARE_AND_SWAP,
                context,
                result,
                target,
                offset,
                expected,
                value,
                flags);
    }

    /**
     * Beyond NDK: adds, as {@link #fetchAndAdd(long, BufferList, long, int, long, OpFlags)} does.
     *
     * @param context what the completion will carry
     * @param result where the old value goes: one buffer of 8 bytes
     * @param target the peer's memory
     * @param offset where in it; the address is a multiple of 8
     * @param added what is added
     * @param flags {@link OpFlags}: SILENT_SUCCESS, READ_FENCE, DEFER
     * @return as that does; INVALID_PARAMETER also for bytes beyond the target
     */
    public Status fetchAndAdd(
            long context,
            BufferList result,
            RemoteMemory target,
            long offset,
            long added,
            OpFlags flags) {
        return post(Operation.FETCH_AND_ADD, context, result, target, offset, added, 0, flags);
    }

    // ---- how a request is posted

    private Status post(
            Operation operation,
            long context,
            BufferList buffers,
            long remoteAddress,
            int remoteToken,
            long operand,
            long swap,
            OpFlags flags) {
        if (buffers == null || flags == null) {
            sends.postDeferred();
            throw new NullPointerException(buffers == null ? "buffers" : "flags");
        }
        return status(
                sends.post(
                        operation,
                        context,
                        buffers.buffers,
                        remoteAddress,
                        remoteToken,
                        operand,
                        swap,
                        flags.bits));
    }

    private Status post(
            Operation operation,
            long context,
            BufferList buffers,
            RemoteMemory memory,
            long offset,
            long operand,
            long swap,
            OpFlags flags) {
        if (memory == null || buffers == null) {
            sends.postDeferred();
            throw new NullPointerException(memory == null ? "memory" : "buffers");
        }
        if (!memory.holds(offset, buffers.bytes())) {
            return status(sends.refuseOutside(operation, Refusal.OUTSIDE_REMOTE_MEMORY.code()));
        }
        return post(
                operation,
                context,
                buffers,
                memory.address() + offset,
                memory.token(),
                operand,
                swap,
                flags);
    }

    static Status status(int refusal) {
        return refusal == Refusal.NONE ? Status.SUCCESS : Refusals.status(refusal);
    }

    // ---- its end

    Status completionStatus(int raw, RequestType type) {
        Provider provider = adapter.provider();
        if (type.isReceive() && provider.isOverlongReceive(raw)) {
            return Status.BUFFER_OVERFLOW;
        }
        if (type.isReceive() && provider.isBadTokenToInvalidate(raw)) {
            return Status.ACCESS_VIOLATION;
        }
        boolean sends = type == RequestType.SEND || type == RequestType.WRITE;
        return sends && provider.isBadLocalMemory(raw)
                ? Status.ACCESS_VIOLATION
                : CompletionStatus.of(raw, type);
    }

    /**
     * One of its requests has failed, which in verbs is the end of the connection: initiator
     * requests are refused from now on, with a connector or without. Receives posted from now on
     * end cancelled; those that were posted since are flushed by asking again: rxe's library does
     * not tell the kernel of receives, which has flushed already.
     */
    private void fail() {
        try {
            hold();
        } catch (IllegalStateException e) {
            return; // closed meanwhile
        }
        try {
            if (!flushed) {
                failed = true;
            }
            sends.disconnect();
            if (receives != null) {
                receives.flush(this::toError);
            }
            toError();
            onBreak.run();
        } finally {
            letGo();
        }
    }

    /**
     * Finds out about a death that no completion tells of: the peer's mistake, with nothing under
     * way here. On rxe a receive posted since would never end.
     */
    void lookForFailure() {
        if (receives != null && receives.waiting()) {
            try {
                hold();
            } catch (IllegalStateException e) {
                return; // closed meanwhile
            }
            try {
                if (control.inError(address, stateQuery)) {
                    fail();
                }
            } finally {
                letGo();
            }
        }
    }

    /**
     * Ends what is under way after {@link #flush}, when a completion queue of this queue pair may
     * have lost completions or has none to come.
     *
     * @param queue the completion queue
     * @param nanoseconds how long to wait for the device
     * @param rest the provider's status of what the device does not end
     */
    void finish(CompletionQueue queue, long nanoseconds, int rest) {
        hold();
        try {
            if (queue == initiatorCompletions) {
                sends.finish(nanoseconds, rest);
            }
            if (queue == receiveCompletions && receives != null) {
                receives.finish(nanoseconds, rest);
            }
        } finally {
            letGo();
        }
    }

    @Override
    void checkMayClose() {
        initiatorCompletions.poller().lock().adopt();
        receiveCompletions.poller().lock().adopt();
        sends.lock().adopt();
        if (receives != null) {
            receives.lock().adopt();
        }
    }

    @Override
    void shut() {
        flushed = true;
        connecting.set(true);
        Teardown end = new Teardown(this);
        end.run(() -> sends.close(closeTimeout()));
        end.run(this::shutReceives);
        end.finish();
    }

    private void shutReceives() {
        if (receives == null) {
            // From here on it takes no more of the shared receives; what it has used up is told.
            if (control.toError(address) == 0) {
                awaitLastReceive();
            }
            receiveCompletions.poller().drain();
        } else {
            receives.close(closeTimeout(), this::toError);
        }
    }

    /** Waits until it has ended the shared receives that it took, where the provider says so. */
    private void awaitLastReceive() {
        if (!reachable || !adapter.provider().announcesLastReceive()) {
            return;
        }
        long deadline = System.nanoTime() + closeTimeout();
        boolean interrupted = false;
        boolean waiting = true;
        while (waiting) {
            try {
                // When the time runs out, it is destroyed all the same, and may lose a receive.
                lastReceive.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
                waiting = false;
            } catch (InterruptedException e) {
                interrupted = true; // closing is not given up half way
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The device says that no shared receive that this queue pair took is outstanding. */
    void lastReceiveReached() {
        lastReceive.countDown();
    }

    /** For how long a close waits for the device to end what is outstanding. */
    private long closeTimeout() {
        return adapter.failed() ? FAILED_DEVICE_TIMEOUT : CLOSE_TIMEOUT;
    }

    /** Frees something when no request can name it any more; false when that is so already. */
    synchronized boolean keep(MemoryWindow.Remains left) {
        return remains != null && remains.add(left);
    }

    private synchronized List<MemoryWindow.Remains> takeRemains() {
        List<MemoryWindow.Remains> taken = Objects.requireNonNull(remains); // taken once
        remains = null;
        return taken;
    }

    @Override
    void destroy() {
        Teardown end = new Teardown(this, adapter);
        end.run(() -> initiatorCompletions.remove(this));
        end.run(() -> receiveCompletions.remove(this));
        if (receives == null) {
            end.run(() -> adapter.events().removeSharingQueuePair(address));
            end.run(() -> receiveCompletions.poller().share(number, null));
        }
        end.run(() -> initiatorCompletions.poller().release(initiatorSlot));
        end.run(() -> receiveCompletions.poller().release(receiveSlot));
        end.run(memory::free);
        // Before the queue pair: rxe waits for the windows that are bound on it.
        end.run(
                () -> {
                    for (WindowTable.Lost lost : domain.windows().lost(endpoint)) {
                        end.check(control.freeWindow(lost.address()), "ibv_dealloc_mw");
                        end.run(lost.window()::freeFormer);
                    }
                });
        takeRemains().forEach(left -> left.free(control, end));
        end.check(control.destroyQp(address), "ibv_destroy_qp");
        end.finish();
    }

    @Override
    String describe() {
        return "QueuePair %d".formatted(number);
    }
}
