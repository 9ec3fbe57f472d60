package dev.verbena;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.Endpoint;
import dev.verbena.internal.queue.ReceiveQueue;
import dev.verbena.internal.queue.RequestLedger;
import dev.verbena.internal.queue.RequestType;
import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.queue.SendRules;
import dev.verbena.internal.queue.WindowRequests;
import dev.verbena.internal.queue.WindowTable;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.NativeMemory;
import dev.verbena.internal.verbs.PathAttributes;
import dev.verbena.internal.verbs.QueuePairShape;
import dev.verbena.internal.verbs.ReceiveRequest;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.SendChains;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateQuery;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The native half of a {@link QueuePair}: creates the {@code ibv_qp} and its two queues, moves it
 * through its states, and ends it. How requests are posted is in {@link SendQueue} and {@link
 * ReceiveQueue}, and what a connector does with it in {@link ConnectionEnd}.
 *
 * <p>Any thread may call it; the queues have rules of their own.
 */
final class NativeQueuePair implements Endpoint.Listener {
    private static final int SEQUENCE_BITS = 0xFF_FFFF;
    private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(1);

    /** How long a device that has failed has for outstanding requests, in nanoseconds. */
    static final long FAILED_DEVICE_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(10);

    private final QueuePair owner;
    private final Adapter adapter;
    private final DeviceControl control;
    private final ProtectionDomain domain;
    private final CompletionQueue sendCompletions;
    private final CompletionQueue receiveCompletions;
    private final @Nullable SharedReceiveQueue sharedReceives;
    private final QueuePairLimits limits;
    private final AdapterInfo info;
    private final int inboundReads;
    private final Port port;
    private volatile Port.@Nullable GidEntry gid; // null until it is asked for
    private final long address;
    private final int number;
    private final int firstSequence = ThreadLocalRandom.current().nextInt() & SEQUENCE_BITS;
    private final NativeMemory memory;
    private final StateQuery stateQuery;
    private final Endpoint endpoint;
    private final long sendSlot;
    private final long receiveSlot;
    private final SendQueue sends;
    private final @Nullable ReceiveQueue receives; // null with a shared receive queue
    private final CountDownLatch lastReceive = new CountDownLatch(1); // with a shared one

    private final AtomicBoolean connecting = new AtomicBoolean(); // or connected, or flushed
    private final AtomicBoolean connectedByAddress = new AtomicBoolean(); // and not ended
    private volatile boolean reachable; // was moved to ready-to-receive
    private volatile boolean established; // set when posts have been accepted, not before
    private volatile boolean failed; // by a failed request, before any flush
    private volatile boolean flushed; // for good, whatever a connector says
    private volatile @Nullable Peer peer; // null until it was connected, and where it is not known
    private volatile Runnable onFailure = () -> {}; // the connector's

    // Windows and regions that were closed while requests of this queue pair named them; null when
    // the queue pair is destroyed.
    private @Nullable List<MemoryWindow.PendingFree> remains = new ArrayList<>();

    /** Creates the queue pair; when that fails, nothing of it is left. */
    NativeQueuePair(
            QueuePair owner,
            ProtectionDomain domain,
            CompletionQueue sendCompletions,
            CompletionQueue receiveCompletions,
            @Nullable SharedReceiveQueue sharedReceives,
            QueuePairLimits limits) {
        this.owner = owner;
        this.domain = domain;
        this.adapter = domain.adapter();
        this.control = adapter.control();
        this.sendCompletions = sendCompletions;
        this.receiveCompletions = receiveCompletions;
        this.sharedReceives = sharedReceives;
        this.limits = limits;
        this.endpoint = new Endpoint(owner, domain.windows(), this);
        Deque<Runnable> undo = new ArrayDeque<>();
        try {
            this.info = adapter.queryInfo();
            checkLimits();
            this.inboundReads = Math.min(limits.inboundReads(), info.maxInboundReads());
            GidChoice chosen = adapter.portTable().chosen();
            this.gid = chosen == null ? null : chosen.gid();
            this.port = adapter.portTable().portOf(chosen);
            this.sendSlot = reserve(sendCompletions, false);
            undo.push(() -> sendCompletions.poller().release(sendSlot));
            this.receiveSlot = reserve(receiveCompletions, true);
            undo.push(() -> receiveCompletions.poller().release(receiveSlot));
            int interval = SendQueue.interval(limits.initiatorDepth());
            long made = create(interval);
            undo.push(() -> control.destroyQp(made));
            this.address = made;
            VerbenaException.check(
                    control.toInit(made, port.number(), remoteRights()), "ibv_modify_qp(INIT)", "");
            this.number = control.queuePairNumber(made);
            this.memory = new NativeMemory();
            undo.push(memory::free);
            this.stateQuery = new StateQuery(memory);
            this.sends = createSendQueue(interval);
            this.receives = sharedReceives == null ? createReceiveQueue() : null;
            if (sharedReceives != null) {
                CompletionPoller poller = receiveCompletions.poller();
                undo.push(() -> poller.share(number, null));
                poller.share(number, endpoint);
                undo.push(() -> adapter.events().removeSharingQueuePair(made));
                adapter.events().addSharingQueuePair(made, lastReceive::countDown);
            }
        } catch (Throwable t) {
            undo.forEach(Runnable::run);
            throw t;
        }
    }

    /**
     * Makes its owner known to the completion queues, whose breakdown ends it, and to events. Apart
     * from the constructor: from then on other threads call the owner.
     */
    void register() {
        adapter.listeners().know(address, owner);
        sendCompletions.add(owner);
        receiveCompletions.add(owner);
    }

    private void checkLimits() {
        if (sendCompletions.adapter() != adapter
                || receiveCompletions.adapter() != adapter
                || (sharedReceives != null && sharedReceives.domain() != domain)) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A queue pair and its completion queues are of one adapter, and it and its shared receives of one domain; this domain is of "
                            + adapter.name());
        }
        if (sendCompletions.owner() != receiveCompletions.owner()) {
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

    private long create(int interval) {
        boolean shared = sharedReceives != null;
        long made =
                control.createQp(
                        domain.address(),
                        sendCompletions.address(),
                        receiveCompletions.address(),
                        sharedReceives != null ? sharedReceives.address() : 0,
                        new QueuePairShape(
                                // Requests take one less: a disconnect and a close post one of
                                // their own.
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
        return made;
    }

    private SendQueue createSendQueue(int interval) {
        RequestLedger ledger =
                new RequestLedger(endpoint, sendSlot, limits.initiatorDepth(), interval);
        SendChains chains =
                new SendChains(
                        adapter.provider(),
                        Math.min(limits.maxDeferred(), limits.initiatorDepth()),
                        limits.maxInitiatorBuffers(),
                        limits.maxInlineBytes(),
                        memory,
                        sendCompletions.poller().sharedChain());
        SendRules rules =
                domain.rules(
                        new SendRules(
                                domain,
                                limits.maxInitiatorBuffers(),
                                Math.min(limits.maxInitiatorBuffers(), info.maxReadBuffers()),
                                limits.maxInlineBytes(),
                                port.maxMessageBytes(),
                                info.maxWindowBytes(),
                                info.sendsWithInvalidate(),
                                info.immediateData(),
                                info.atomics()));
        SendQueue queue =
                new SendQueue(
                        rules,
                        ledger,
                        chains,
                        adapter.context(),
                        address,
                        sendCompletions.poller(),
                        interval,
                        this::toError);
        sendCompletions.poller().enter(ledger);
        return queue;
    }

    private ReceiveQueue createReceiveQueue() {
        CompletionPoller poller = receiveCompletions.poller();
        RequestLedger ledger = new RequestLedger(endpoint, receiveSlot, limits.receiveDepth(), 1);
        ReceiveQueue queue =
                new ReceiveQueue(
                        ledger,
                        address,
                        new ReceiveRequest(adapter.context(), memory),
                        poller,
                        domain,
                        limits.maxReceiveBuffers());
        poller.enter(ledger);
        return queue;
    }

    /** What the peer may do through this queue pair. */
    int remoteRights() {
        return Rights.REMOTE_WRITE
                | (inboundReads > 0 ? Rights.REMOTE_READ : 0)
                | (inboundReads > 0 && info.atomics() ? Rights.REMOTE_ATOMIC : 0);
    }

    // ---- what the public half and a connector ask for

    QueuePair owner() {
        return owner;
    }

    Adapter adapter() {
        return adapter;
    }

    DeviceControl control() {
        return control;
    }

    AdapterInfo info() {
        return info;
    }

    SendQueue sends() {
        return sends;
    }

    WindowRequests windowRequests() {
        return new WindowRequests(sends, receiveCompletions.poller());
    }

    /** A snapshot, from any thread. */
    QueuePairCounters counters() {
        return new QueuePairCounters(
                RequestCounters.of(endpoint.sendCounts(), sends.ledger()),
                RequestCounters.of(
                        endpoint.receiveCounts(), receives == null ? null : receives.ledger()));
    }

    Endpoint endpoint() {
        return endpoint;
    }

    /** Its receive queue, or null when it takes receives from a shared one. */
    @Nullable ReceiveQueue receives() {
        return receives;
    }

    long nativeAddress() {
        return address;
    }

    int number() {
        return number;
    }

    int inboundReads() {
        return inboundReads;
    }

    int outboundReads() {
        return Math.min(limits.outboundReads(), info.maxOutboundReads());
    }

    boolean sharesReceives() {
        return sharedReceives != null;
    }

    boolean flushed() {
        return flushed;
    }

    @Nullable Peer peer() {
        return peer;
    }

    /** How far it has come, unless it is closed. */
    QueuePairState state() {
        if (failed) {
            return QueuePairState.FAILED;
        }
        if (flushed) {
            return QueuePairState.FLUSHED;
        }
        boolean wasConnected = established; // first: it is set after posts are accepted
        if (sends.connected()) {
            return QueuePairState.CONNECTED;
        }
        if (wasConnected) {
            return QueuePairState.DISCONNECTED;
        }
        return connecting.get() ? QueuePairState.CONNECTING : QueuePairState.INITIALIZED;
    }

    QueuePairAddress address() {
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

    /** The GID that peers know it by, or null on InfiniBand, where the LID is enough. */
    private Port.@Nullable GidEntry ownGid() {
        if (port.linkLayer() != Port.LinkLayer.ETHERNET) {
            return null;
        }
        Port.GidEntry known = gid;
        if (known == null) {
            owner.acquire();
            try {
                known = adapter.portTable().preferredGidOf(port.number());
                gid = known;
            } finally {
                owner.release();
            }
        }
        return known;
    }

    // ---- the connection

    /** Reserves it for one connection; false when it is or was connected, or flushed. */
    boolean beginConnecting() {
        return connecting.compareAndSet(false, true);
    }

    /** Gives it back after an attempt that did not change it. */
    void giveUpConnecting() {
        connecting.set(false);
        if (flushed) { // read after: a flush sets it before it looks at this
            connecting.set(true);
        }
    }

    /**
     * Connects it to an address. Holds no lock: the step to ready-to-receive may ask the network
     * for the peer's Ethernet address.
     */
    void connect(QueuePairAddress to, PathOptions options) {
        Port.GidEntry own = ownGid();
        reachable = true;
        StateChange toReceive =
                StateChange.readyToReceive(
                        new PathAttributes(
                                port.number(),
                                own == null ? 0 : own.index(),
                                own != null,
                                VerbsContext.mtuOf(Math.min(port.mtuBytes(), to.mtuBytes())),
                                to.queuePairNumber(),
                                to.firstSequenceNumber(),
                                to.lid(),
                                to.gid().high(),
                                to.gid().low(),
                                inboundReads));
        options.applyTo(toReceive);
        int error = control.change(address, toReceive);
        if (error < 0) {
            throw VerbenaException.of(
                    "ibv_modify_qp(RTR, peer %s)".formatted(to.gid()),
                    error,
                    options.advice(
                            "Is the peer's address reachable from GID %s (ip route get)?"
                                    .formatted(own)));
        }
        int reads = Math.min(outboundReads(), to.inboundReads());
        StateChange toSend = StateChange.readyToSend(firstSequence, reads, to.sharedReceives());
        options.applyTo(toSend);
        VerbenaException.check(
                control.change(address, toSend), "ibv_modify_qp(RTS)", options.advice(""));
        connectedByAddress.set(true);
        connected(Peer.of(to), to.invalidatable(), reads);
    }

    /** A connector moves it to ready-to-receive. */
    void becomesReachable() {
        reachable = true;
    }

    /** Posts are accepted from now on. */
    void connected(@Nullable Peer to, boolean invalidatable, int reads) {
        peer = to;
        sends.connect(invalidatable, reads);
        established = true;
    }

    /** What a connector wants to know of: a request has failed, and with it the connection. */
    void onFailure(Runnable what) {
        onFailure = what;
    }

    // ---- its end

    @CanIgnoreReturnValue
    private int toError() {
        return control.toError(address);
    }

    /** Cancels everything that is posted; 0, or a negative errno. */
    @CanIgnoreReturnValue
    int flush() {
        endedByAddress(false);
        flushed = true;
        connecting.set(true); // or connect() would find the send queue ended
        return cancel();
    }

    @CanIgnoreReturnValue
    private int cancel() {
        sends.disconnect();
        if (receives != null) {
            receives.flush(this::toError);
        }
        return toError();
    }

    /**
     * A request has failed, which in verbs is the end of the connection: requests are refused from
     * now on. Receives posted from now on are cancelled; those posted since are flushed by asking
     * again, because rxe's library does not report receives to the kernel, which has flushed
     * already.
     */
    @Override
    public void connectionFailed() {
        fail();
    }

    @Override
    public void requestFailed(RequestType type, long context, int status, int vendorError) {
        if (FlightRecording.on()) {
            QueuePairEvents.failed(this, type, context, status, vendorError);
        }
    }

    @Override
    public void tokenInvalidated(int token) {
        if (FlightRecording.on()) {
            QueuePairEvents.invalidated(this, token, true);
        }
    }

    /** Where no connector notes the end of the connection, this does, once. */
    private void endedByAddress(boolean requestFailed) {
        if (established && connectedByAddress.compareAndSet(true, false) && FlightRecording.on()) {
            QueuePairEvents.disconnected(
                    this,
                    requestFailed && !flushed
                            ? QueuePairEvents.REQUEST_FAILED
                            : QueuePairEvents.LOCAL);
        }
    }

    private void fail() {
        endedByAddress(true);
        if (!holdUnlessClosed()) {
            return;
        }
        try {
            if (!flushed) {
                failed = true;
            }
            cancel();
            onFailure.run();
        } finally {
            owner.release();
        }
    }

    private boolean holdUnlessClosed() {
        try {
            owner.acquire();
            return true;
        } catch (IllegalStateException e) {
            return false; // closed meanwhile
        }
    }

    /**
     * Looks for a failure that no completion reports: the peer's mistake, with no request
     * outstanding here. On rxe a receive posted since would never end.
     */
    void lookForFailure() {
        if (receives != null && receives.waiting() && holdUnlessClosed()) {
            try {
                if (control.inError(address, stateQuery)) {
                    fail();
                }
            } finally {
                owner.release();
            }
        }
    }

    /**
     * Ends what is outstanding after a flush, when a completion queue of this queue pair may have
     * lost completions or gets no more.
     *
     * @param queue the completion queue
     * @param nanoseconds how long to wait for the device
     * @param rest the provider's status of what the device does not end
     */
    void finish(CompletionQueue queue, long nanoseconds, int rest) {
        owner.acquire();
        try {
            if (queue == sendCompletions) {
                sends.finish(nanoseconds, rest);
            }
            if (queue == receiveCompletions && receives != null) {
                receives.finish(nanoseconds, rest);
            }
        } finally {
            owner.release();
        }
    }

    /** Throws when the queues are confined to another thread that is alive. */
    void checkMayClose() {
        sendCompletions.poller().lock().adopt();
        receiveCompletions.poller().lock().adopt();
        sends.adopt();
        if (receives != null) {
            receives.adopt();
        }
    }

    /** Closes both queues: every request has ended when this returns. */
    void close() {
        endedByAddress(false);
        flushed = true;
        connecting.set(true);
        Teardown end = new Teardown(owner);
        end.run(() -> sends.close(closeTimeout()));
        end.run(this::closeReceives);
        end.finish();
    }

    private void closeReceives() {
        if (receives == null) {
            // In the error state it takes no more of the shared receives; what it has used up is
            // reported.
            if (toError() == 0) {
                awaitLastReceive();
            }
            receiveCompletions.poller().drain();
        } else {
            receives.close(closeTimeout(), this::toError);
        }
    }

    /** Waits until it has ended the shared receives that it took, where the provider says so. */
    private void awaitLastReceive() {
        if (!reachable || !adapter.provider().reportsLastReceive()) {
            return;
        }
        long deadline = System.nanoTime() + closeTimeout();
        boolean interrupted = false;
        boolean waiting = true;
        while (waiting) {
            try {
                // When the time runs out, it is destroyed all the same, and may lose a receive.
                var _ = lastReceive.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
                waiting = false;
            } catch (InterruptedException e) {
                interrupted = true; // closing is not given up half way
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** For how long a close waits for the device to end what is outstanding. */
    private long closeTimeout() {
        return adapter.failed() ? FAILED_DEVICE_TIMEOUT : CLOSE_TIMEOUT;
    }

    /** Keeps something until no request can name it any more; false when that is so already. */
    synchronized boolean keep(MemoryWindow.PendingFree left) {
        return remains != null && remains.add(left);
    }

    private synchronized List<MemoryWindow.PendingFree> takeRemains() {
        List<MemoryWindow.PendingFree> taken = Objects.requireNonNull(remains, "destroyed twice");
        remains = null;
        return taken;
    }

    void destroy() {
        Teardown end = new Teardown(owner, adapter);
        end.run(() -> adapter.listeners().forget(address));
        end.run(() -> sendCompletions.remove(owner));
        end.run(() -> receiveCompletions.remove(owner));
        if (receives == null) {
            end.run(() -> adapter.events().removeSharingQueuePair(address));
            end.run(() -> receiveCompletions.poller().share(number, null));
        }
        end.run(() -> sendCompletions.poller().release(sendSlot));
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
}
