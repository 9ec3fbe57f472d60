package dev.verbena;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.NativeObject.Teardown;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.queue.Endpoint;
import dev.verbena.internal.queue.ReceiveQueue;
import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.queue.SynthesizedStatus;
import dev.verbena.internal.queue.WindowRequests;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.PathAttributes;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.VerbsContext;

import org.jspecify.annotations.Nullable;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The native half of a {@link QueuePair}: moves it through its states, connects it by address, and
 * ends it. What it consists of, and how that is created and destroyed, is in {@link
 * QueuePairParts}; how requests are posted in {@link SendQueue} and {@link ReceiveQueue}; what a
 * connector does with it in {@link ConnectionEnd}.
 *
 * <p>Any thread may call it; the queues have rules of their own.
 */
final class NativeQueuePair implements Endpoint.Listener {
    private static final VarHandle CONNECTING;
    private static final VarHandle CONNECTED_BY_ADDRESS;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            CONNECTING = lookup.findVarHandle(NativeQueuePair.class, "connecting", boolean.class);
            CONNECTED_BY_ADDRESS =
                    lookup.findVarHandle(
                            NativeQueuePair.class, "connectedByAddress", boolean.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private static final int SEQUENCE_BITS = 0xFF_FFFF;
    private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(1);

    /** How long a device that has failed has for outstanding requests, in nanoseconds. */
    static final long FAILED_DEVICE_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(10);

    private final QueuePair owner;
    private final Adapter adapter;
    private final CompletionQueue sendCompletions;
    private final CompletionQueue receiveCompletions;
    private final @Nullable SharedReceiveQueue sharedReceives;
    private final Endpoint endpoint;
    private final QueuePairParts parts;
    private volatile Port.@Nullable GidEntry gid; // null until it is asked for
    private final SendQueue sends;
    private final @Nullable ReceiveQueue receives; // null with a shared receive queue
    private final int firstSequence = ThreadLocalRandom.current().nextInt() & SEQUENCE_BITS;
    private final @Nullable CountDownLatch lastReceive; // null without a shared receive queue

    private volatile boolean connecting; // or connected, or flushed
    private volatile boolean connectedByAddress; // and not ended
    private volatile boolean reachable; // was moved to ready-to-receive
    private volatile boolean established; // set when posts have been accepted, not before
    private volatile boolean requestFailed; // for whatever reason
    private volatile boolean failed; // by a failed request, before any flush
    private volatile boolean flushed; // for good, whatever a connector says
    private volatile boolean stalled; // its watchdog has failed it
    private volatile boolean ownRequestFailed; // with a status of its own, not flushed
    private volatile boolean failedByItself; // flushed although neither this side nor that did it
    private volatile boolean broken; // IBV_EVENT_QP_FATAL
    private @Nullable StallWatch watch; // guarded by this
    private volatile @Nullable Peer peer; // null until it was connected, and where it is not known
    private volatile Runnable onFailure = () -> {}; // the connector's

    /** Creates the queue pair; when that fails, nothing of it is left. */
    NativeQueuePair(
            QueuePair owner,
            ProtectionDomain domain,
            CompletionQueue sendCompletions,
            CompletionQueue receiveCompletions,
            @Nullable SharedReceiveQueue sharedReceives,
            QueuePairLimits limits) {
        this.owner = owner;
        this.adapter = domain.adapter();
        this.sendCompletions = sendCompletions;
        this.receiveCompletions = receiveCompletions;
        this.sharedReceives = sharedReceives;
        this.endpoint = new Endpoint(owner, domain.windows(), this);
        this.lastReceive = sharedReceives == null ? null : new CountDownLatch(1);
        this.parts =
                new QueuePairParts(
                        domain,
                        sendCompletions,
                        receiveCompletions,
                        sharedReceives,
                        limits,
                        endpoint);
        this.gid = parts.gid == null ? null : parts.gid.gid();
        this.sends = parts.sends;
        this.receives = parts.receives;
    }

    /**
     * Makes its owner known to the completion queues, whose breakdown ends it, and to events. Apart
     * from the constructor: from then on other threads call the owner.
     */
    void register() {
        adapter.events().register(parts.address, owner, this::handle);
        sendCompletions.add(owner);
        receiveCompletions.add(owner);
    }

    // ---- what the public half and a connector ask for

    QueuePair owner() {
        return owner;
    }

    Adapter adapter() {
        return adapter;
    }

    DeviceControl control() {
        return adapter.control();
    }

    AdapterInfo info() {
        return parts.info;
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
                endpoint.sendCounts().counters(sends.ledger()),
                endpoint.receiveCounts().counters(receives == null ? null : receives.ledger()));
    }

    Endpoint endpoint() {
        return endpoint;
    }

    /** Its receive queue, or null when it takes receives from a shared one. */
    @Nullable ReceiveQueue receives() {
        return receives;
    }

    long nativeAddress() {
        return parts.address;
    }

    int number() {
        return parts.number;
    }

    /** What the peer may do through this queue pair. */
    int remoteRights() {
        return parts.remoteRights();
    }

    int inboundReads() {
        return parts.inboundReads;
    }

    int outboundReads() {
        return Math.min(owner.limits().outboundReads(), parts.info.maxOutboundReads());
    }

    boolean sharesReceives() {
        return sharedReceives != null;
    }

    boolean flushed() {
        return flushed;
    }

    /** Whether a request has failed, or was cancelled by a flush. */
    boolean requestFailed() {
        return requestFailed;
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
        return connecting ? QueuePairState.CONNECTING : QueuePairState.INITIALIZED;
    }

    QueuePairAddress address() {
        Port.GidEntry own = ownGid();
        Port port = parts.port;
        return QueuePairAddress.of(
                        parts.number,
                        firstSequence,
                        own == null ? new Gid(0, 0) : own.gid(),
                        port.mtuBytes())
                .withLid(port.lid())
                .withInboundReads(parts.inboundReads)
                .withInvalidatable(parts.info.invalidatableWindows())
                .withSharedReceives(sharedReceives != null);
    }

    /** The GID that peers know it by, or null on InfiniBand, where the LID is enough. */
    private Port.@Nullable GidEntry ownGid() {
        if (parts.port.linkLayer() != Port.LinkLayer.ETHERNET) {
            return null;
        }
        Port.GidEntry known = gid;
        if (known == null) {
            owner.acquire();
            try {
                known = adapter.portTable().preferredGidOf(parts.port.number());
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
        return CONNECTING.compareAndSet(this, false, true);
    }

    /** Gives it back after an attempt that did not change it. */
    void giveUpConnecting() {
        connecting = false;
        if (flushed) { // read after: a flush sets it before it looks at this
            connecting = true;
        }
    }

    /**
     * Connects it to an address. Holds no lock: the step to ready-to-receive may ask the network
     * for the peer's Ethernet address.
     */
    void connect(QueuePairAddress to, PathOptions options) {
        Port.GidEntry own = ownGid();
        Port port = parts.port;
        long address = parts.address;
        reachable = true;
        try (StateChange toReceive =
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
                                parts.inboundReads))) {
            options.applyTo(toReceive);
            int error = control().change(address, toReceive);
            if (error < 0) {
                throw VerbenaException.of(
                        "ibv_modify_qp(RTR, peer %s)".formatted(to.gid()),
                        error,
                        options.advice(
                                "Is the peer's address reachable from GID %s (ip route get)?"
                                        .formatted(own)));
            }
        }
        int reads = Math.min(outboundReads(), to.inboundReads());
        try (StateChange toSend =
                StateChange.readyToSend(firstSequence, reads, to.sharedReceives())) {
            options.applyTo(toSend);
            Errno.check(
                    control().change(address, toSend), "ibv_modify_qp(RTS)", options.advice(""));
        }
        connectedByAddress = true;
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

    /** Cancels everything that is posted; 0, or a negative errno. */
    @CanIgnoreReturnValue
    int flush() {
        endedByAddress(false);
        flushed = true;
        connecting = true; // or connect() would find the send queue ended
        return cancel();
    }

    @CanIgnoreReturnValue
    private int cancel() {
        sends.disconnect();
        if (receives != null) {
            receives.flush(parts.modifyToError);
        }
        return parts.toError();
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
    public void requestFailed(OperationType type, long context, int status, int vendorError) {
        if (status == SynthesizedStatus.FLUSHED) {
            noteFailureByItself();
        } else {
            ownRequestFailed = true;
        }
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
        if (established
                && CONNECTED_BY_ADDRESS.compareAndSet(this, true, false)
                && FlightRecording.on()) {
            QueuePairEvents.disconnected(
                    this,
                    requestFailed && !flushed
                            ? QueuePairEvents.REQUEST_FAILED
                            : QueuePairEvents.LOCAL);
        }
    }

    private void fail() {
        endedByAddress(true);
        if (!owner.tryAcquire()) {
            return;
        }
        try {
            if (!flushed) {
                failed = true;
            }
            requestFailed = true;
            cancel();
            onFailure.run();
        } finally {
            owner.release();
        }
    }

    // ---- whether the peer has broken it

    /** It is in the error state, or about to be: by itself, unless there is another reason. */
    private void noteFailureByItself() {
        if (established && !parts.movedToError() && !ownRequestFailed) {
            failedByItself = true;
        }
    }

    /** Called by the event thread. If nothing is outstanding, only an event shows a failure. */
    private void handle(AdapterEvent.Type event) {
        switch (event) {
            case QUEUE_PAIR_ACCESS_ERROR, QUEUE_PAIR_REQUEST_ERROR, QUEUE_PAIR_FAILED -> {
                if (event == AdapterEvent.Type.QUEUE_PAIR_FAILED) {
                    broken = true;
                }
                failedByItself();
            }
            case LAST_RECEIVE_REACHED -> {
                if (lastReceive != null) {
                    lastReceive.countDown();
                }
            }
            default -> {}
        }
    }

    /** The device has moved it to the error state. */
    void failedByItself() {
        noteFailureByItself();
        fail();
    }

    /** See {@link QueuePair#failedByPeer}. */
    boolean failedByPeer() {
        if (!failedByItself && owner.tryAcquire()) {
            try {
                if (control().inError(parts.address)) {
                    noteFailureByItself();
                }
            } finally {
                owner.release();
            }
        }
        return failedByItself && !ownRequestFailed && !broken && !adapter.failed() && endsOnlySo();
    }

    /** On iWARP a queue pair also goes to the error state when the peer just disconnects. */
    private boolean endsOnlySo() {
        return !adapter.reported().readSinkRequired();
    }

    // ---- its watchdog

    /** See {@link QueuePair#failIfStalled}. */
    synchronized void watch(long nanoseconds) {
        StallWatch made =
                new StallWatch(this, sends.ledger(), adapter.events().timers(), nanoseconds);
        if (watch != null) {
            watch.replaced();
        }
        watch = made;
    }

    /** Takes what has completed, unless only the owner of confined queues may. */
    void drainSends() {
        var _ = sends.drained();
    }

    /** No request completed in time: the queue pair fails, which flushes what is outstanding. */
    void stalled() {
        stalled = !flushed && !failed;
        fail();
    }

    /** Whether its watchdog has failed it, so that what was flushed had not completed in time. */
    boolean isStalled() {
        return stalled;
    }

    /** Ends what a device that stands still has not flushed either. */
    void finishStalled() {
        Stream.of(sendCompletions, receiveCompletions)
                .distinct()
                .forEach(of -> of.poller().ownerTasks().runByOwner(() -> finishStalled(of)));
    }

    private void finishStalled(CompletionQueue queue) {
        if (owner.tryAcquire()) {
            try {
                var _ = queue.poller().drain(); // what has completed did not stand still
                finish(queue, 0, SynthesizedStatus.FLUSHED);
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
        if (!owner.tryAcquire()) {
            return;
        }
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

    /** Closes both queues: every request has ended when this returns. */
    void close(Teardown end) {
        endedByAddress(false);
        flushed = true;
        connecting = true;
        end.run(() -> sends.close(closeTimeout()));
        end.run(this::closeReceives);
    }

    private void closeReceives() {
        if (receives == null) {
            // In the error state it takes no more of the shared receives; what it has used up is
            // reported.
            if (parts.toError() == 0) {
                awaitLastReceive();
            }
            receiveCompletions.poller().drain();
        } else {
            receives.close(closeTimeout(), parts.modifyToError);
        }
    }

    /** Waits until it has ended the shared receives that it took, where the provider says so. */
    private void awaitLastReceive() {
        CountDownLatch last = Objects.requireNonNull(lastReceive);
        if (!reachable || !adapter.provider().reportsLastReceive()) {
            return;
        }
        // When the time runs out, it is destroyed all the same, and may lose a receive.
        var _ = Threads.await(last, Duration.ofNanos(closeTimeout()));
    }

    /** For how long a close waits for the device to end what is outstanding. */
    private long closeTimeout() {
        return adapter.failed() ? FAILED_DEVICE_TIMEOUT : CLOSE_TIMEOUT;
    }

    /** See {@link QueuePairParts#keep}. */
    boolean keep(MemoryWindow.PendingFree left) {
        return parts.keep(left);
    }

    void destroy(Teardown end) {
        end.run(() -> sendCompletions.remove(owner));
        end.run(() -> receiveCompletions.remove(owner));
        end.run(() -> adapter.events().forget(parts.address));
        parts.destroy(end);
    }
}
