package dev.verbena.internal.queue;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.AdapterEvent;
import dev.verbena.AdapterInfo;
import dev.verbena.OperationType;
import dev.verbena.Peer;
import dev.verbena.Port;
import dev.verbena.PostResult;
import dev.verbena.QueuePairLimits;
import dev.verbena.QueuePairState;
import dev.verbena.VerbenaException;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.NativeMemory;
import dev.verbena.internal.verbs.QueuePairShape;
import dev.verbena.internal.verbs.ReceiveRequest;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.SendChains;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.WorkCompletions;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * A queue pair: the {@code ibv_qp}, a slot in each of its completion queues, native memory, and the
 * two queues. Creates all of it, moves the queue pair through its states, connects it by address,
 * ends and destroys it. Requests are posted by {@link SendQueue} and {@link ReceiveQueue}.
 *
 * <p>Any thread may call it; the queues have rules of their own. Its abstract methods give it
 * access to the API's object for this queue pair.
 */
public abstract class NativeQueuePair extends Endpoint {
    /** How long a device that has failed has for outstanding requests, in nanoseconds. */
    static final long FAILED_DEVICE_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(10);

    private static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(1);

    private final QueueDevice device;
    private final DeviceControl control;
    private final Domain domain;
    private final CompletionArming sendCompletions;
    private final CompletionArming receiveCompletions;
    private final AdapterInfo info;
    private final QueuePairLimits limits;
    private final AddressedConnection byAddress;
    private final NativeMemory memory = new NativeMemory();
    private final long sendSlot;
    private final long receiveSlot;
    private final long address;
    private final int number;
    private final SendQueue sends;
    private @Nullable WindowRequests windowRequests; // null until they are asked for
    private final @Nullable ReceiveQueue receives; // null with a shared receive queue
    private final @Nullable CompletableFuture<Void> lastReceive; // null if receives are its own

    private final QueuePairProgress progress = new QueuePairProgress();
    private volatile @Nullable Peer peer; // null until it was connected, and where it is not known
    private volatile Runnable onFailure = () -> {}; // the connector's
    private volatile Runnable onData = () -> {}; // the connector's, too
    private @Nullable StallWatch watch; // null until it is turned on; guarded by this

    /**
     * Creates everything; when that fails, nothing is left.
     *
     * @param info the limits of the device, which were compared with those of the queue pair
     * @param gid the GID that was chosen for it, or null
     */
    protected NativeQueuePair(
            QueueDevice device,
            Domain domain,
            CompletionArming sendCompletions,
            CompletionArming receiveCompletions,
            @Nullable SharedReceives sharedReceives,
            QueuePairLimits limits,
            AdapterInfo info,
            Port port,
            Port.@Nullable GidEntry gid) {
        super(domain.windows());
        this.device = device;
        this.control = device.control();
        this.domain = domain;
        this.sendCompletions = sendCompletions;
        this.receiveCompletions = receiveCompletions;
        this.limits = limits;
        this.info = info;
        this.byAddress = new AddressedConnection(this, port, gid);
        this.lastReceive = sharedReceives == null ? null : new CompletableFuture<>();
        long send = CompletionPoller.NO_SLOT;
        long receive = CompletionPoller.NO_SLOT;
        long made = 0;
        try {
            send = sendCompletions.poller().reserve(false);
            this.sendSlot = send;
            receive = receiveCompletions.poller().reserve(true);
            this.receiveSlot = receive;
            int interval = SendLimits.interval(limits.initiatorDepth());
            made = create(sharedReceives, interval);
            this.address = made;
            Errno.check(
                    control.toInit(made, port.number(), remoteRights()), "ibv_modify_qp(INIT)", "");
            this.number = control.queuePairNumber(made);
            this.sends = createSendQueue(interval, port.maxMessageBytes());
            this.receives = sharedReceives == null ? createReceiveQueue() : null;
            if (sharedReceives != null) {
                receiveCompletions.poller().share(number, this, true);
            }
        } catch (Throwable t) {
            undo(send, receive, made, sharedReceives != null);
            throw t;
        }
    }

    /** Destroys what there is of one that could not be created. */
    private void undo(long send, long receive, long made, boolean shares) {
        if (made != 0) {
            if (shares) {
                receiveCompletions.poller().share(control.queuePairNumber(made), this, false);
            }
            memory.free();
            control.destroyQp(made);
        }
        if (receive != CompletionPoller.NO_SLOT) {
            receiveCompletions.poller().release(receive);
        }
        if (send != CompletionPoller.NO_SLOT) {
            sendCompletions.poller().release(send);
        }
    }

    private long create(@Nullable SharedReceives shared, int interval) {
        long made =
                control.createQp(
                        domain.address(),
                        sendCompletions.address(),
                        receiveCompletions.address(),
                        shared == null ? 0 : shared.address(),
                        // The native queue has one slot more than callers can fill, for the
                        // internal request of a disconnect or close.
                        QueuePairShape.of(limits, interval, shared != null));
        if (made < 0) {
            throw new VerbenaException(
                    "ibv_create_qp",
                    (int) -made,
                    "Each of these limits is supported on its own; the device may lack memory for all of them: "
                            + limits);
        }
        return made;
    }

    private SendQueue createSendQueue(int interval, long maxMessageBytes) {
        CompletionPoller poller = sendCompletions.poller();
        RequestLedger ledger =
                new RequestLedger(this, sendSlot, limits.initiatorDepth(), interval, poller.lock());
        SendChains chains =
                new SendChains(
                        device.provider(),
                        Math.min(limits.maxDeferred(), limits.initiatorDepth()),
                        limits.maxInitiatorBuffers(),
                        limits.maxInlineBytes(),
                        memory,
                        poller.sharedChain());
        SendQueue queue =
                new SendQueue(
                        poller.shared(SendLimits.of(domain, limits, info, maxMessageBytes)),
                        ledger,
                        chains,
                        device.context(),
                        address,
                        poller,
                        this::toError);
        poller.enter(ledger);
        return queue;
    }

    private ReceiveQueue createReceiveQueue() {
        CompletionPoller poller = receiveCompletions.poller();
        RequestLedger ledger =
                new RequestLedger(this, receiveSlot, limits.receiveDepth(), 1, poller.lock());
        ReceiveQueue queue =
                new ReceiveQueue(
                        ledger,
                        address,
                        new ReceiveRequest(device.context(), memory),
                        poller,
                        domain,
                        limits.maxReceiveBuffers());
        poller.enter(ledger);
        return queue;
    }

    /**
     * Registers it for events, which name the API's object, and with the completion queues, whose
     * breakdown ends it. Not part of the constructor, because other threads may call it from then
     * on.
     *
     * @param otherwise destroys it when that fails
     */
    public void register(Object object, Teardown otherwise) {
        try {
            device.events().register(address, object, this::handle);
            sendCompletions.queuePairs().add(this);
            receiveCompletions.queuePairs().add(this);
        } catch (Throwable t) {
            otherwise.failed(t);
            destroy(otherwise);
            throw t;
        }
    }

    // ---- the API's object for this queue pair

    /** Runs something, during which nothing of it is destroyed, unless it is closed. */
    protected abstract void runUnlessClosed(Runnable what);

    /** Finds the GID that a port's queue pairs have if none was chosen; throws when closed. */
    protected abstract Port.GidEntry preferredGid(int portNumber);

    // ---- what is known of it

    public SendQueue sends() {
        return sends;
    }

    /** Binds and invalidates on its send queue. */
    public WindowRequests windowRequests() {
        WindowRequests made = windowRequests; // two threads may make one each, which does no harm
        if (made == null) {
            made = new WindowRequests(sends, receiveCompletions.poller());
            windowRequests = made;
        }
        return made;
    }

    /** Its receive queue, or null when it takes receives from a shared one. */
    public @Nullable ReceiveQueue receives() {
        return receives;
    }

    public long address() {
        return address;
    }

    public int number() {
        return number;
    }

    /** What the peer may do through this queue pair. */
    public int remoteRights() {
        return Rights.REMOTE_WRITE
                | (inboundReads() > 0 ? Rights.REMOTE_READ : 0)
                | (inboundReads() > 0 && info.atomics() ? Rights.REMOTE_ATOMIC : 0);
    }

    public boolean invalidatable() {
        return info.invalidatableWindows();
    }

    public int inboundReads() {
        return Math.min(limits.inboundReads(), info.maxInboundReads());
    }

    public int outboundReads() {
        return Math.min(limits.outboundReads(), info.maxOutboundReads());
    }

    public @Nullable Peer peer() {
        return peer;
    }

    /** How far it has come, unless it is closed. */
    public QueuePairState state() {
        return progress.state(sends);
    }

    /** What has happened to it so far. */
    public QueuePairProgress progress() {
        return progress;
    }

    public String deviceName() {
        return device.name();
    }

    CompletionArming sendCompletions() {
        return sendCompletions;
    }

    CompletionArming receiveCompletions() {
        return receiveCompletions;
    }

    // ---- the connection

    public AddressedConnection byAddress() {
        return byAddress;
    }

    /** Applies a state change of its connection. Returns 0 or a negative errno. */
    public int change(StateChange change) {
        if (change.state() == StateChange.READY_TO_RECEIVE) {
            progress.becomesReachable();
        }
        return control.change(address, change);
    }

    /**
     * Admits posts, because a connector has connected it.
     *
     * @param whenFailed called when a request has failed, by the thread that polled its completion
     * @return false when one had failed before this: the peer may send as soon as it is ready to
     *     receive
     */
    public boolean open(
            @Nullable Peer to, boolean peerInvalidatable, int reads, Runnable whenFailed) {
        onFailure = whenFailed; // first: a failure meanwhile runs it, or is seen below
        connected(to, peerInvalidatable, reads);
        return !progress.requestFailed();
    }

    /** Has something run when the first data of the peer come: IBV_EVENT_COMM_EST. */
    public void onData(Runnable whenArrived) {
        onData = whenArrived;
    }

    void connected(@Nullable Peer to, boolean peerInvalidatable, int reads) {
        peer = to;
        sends.connect(peerInvalidatable, reads);
        progress.established();
    }

    // ---- its end

    /** Cancels everything that is posted; 0, or a negative errno. */
    @CanIgnoreReturnValue
    public int flush() {
        sends.refusePosts(); // first: near the end of the stack it throws
        endConnecting();
        return cancel();
    }

    private void endConnecting() {
        byAddress.ended(false);
        progress.flush();
    }

    @CanIgnoreReturnValue
    private int cancel() {
        if (receives != null) {
            receives.flush(this::toError);
        }
        return toError();
    }

    /** Moves the queue pair to the error state; 0, or a negative errno. */
    @CanIgnoreReturnValue
    private int toError() {
        progress.movesToError(); // first: what the device flushes from now on is not its own doing
        return control.toError(address);
    }

    /**
     * A request has failed, which in verbs is the end of the connection: requests are refused from
     * now on. Receives posted from now on are cancelled; those posted since are flushed by asking
     * again, because rxe's library does not report receives to the kernel, which has flushed
     * already.
     */
    @Override
    void connectionFailed() {
        byAddress.ended(true);
        runUnlessClosed(
                () -> {
                    progress.fail();
                    sends.refusePosts();
                    cancel();
                    onFailure.run();
                });
    }

    /** Ends what is outstanding: a completion queue is of no use any more. */
    void breakDown() {
        runUnlessClosed(
                () -> {
                    byAddress.ended(true);
                    progress.fail(); // first: the program has not flushed it
                    flush();
                });
    }

    /** Tells its connector that it has failed, though no request may say so. */
    void reportFailure() {
        runUnlessClosed(onFailure);
    }

    // ---- whether the peer has broken it

    /** Called by the event thread. If nothing is outstanding, only an event shows a failure. */
    private void handle(AdapterEvent.Type event) {
        switch (event) {
            case QUEUE_PAIR_ACCESS_ERROR, QUEUE_PAIR_REQUEST_ERROR, QUEUE_PAIR_FAILED -> {
                if (event == AdapterEvent.Type.QUEUE_PAIR_FAILED) {
                    progress.breaks();
                }
                failByItself();
            }
            case COMMUNICATION_ESTABLISHED -> onData.run();
            case LAST_RECEIVE_REACHED -> {
                if (lastReceive != null) {
                    lastReceive.complete(null);
                }
            }
            default -> {}
        }
    }

    /** The device has moved it to the error state. */
    private void failByItself() {
        progress.failsByItself();
        connectionFailed();
    }

    /** Fails it when the device has moved it to the error state while receives are outstanding. */
    void failIfInError() {
        if (receives != null && receives.waiting()) {
            runIfInError(this::failByItself);
        }
    }

    /**
     * Whether a request of the peer ended it. On iWARP a queue pair also goes to the error state
     * when the peer just disconnects.
     */
    public boolean failedByPeer() {
        if (!progress.failedByItself()) {
            runIfInError(progress::failsByItself);
        }
        return progress.failedByItself()
                && !device.events().deviceFailed()
                && !info.readSinkRequired();
    }

    private void runIfInError(Runnable what) {
        runUnlessClosed(
                () -> {
                    if (control.inError(address)) {
                        what.run();
                    }
                });
    }

    // ---- its watchdog

    /** Fails it when no request completes for some time. */
    public synchronized StallWatch watch() {
        StallWatch made = watch;
        if (made == null) {
            made = new StallWatch(this, device.events().timers());
            watch = made;
        }
        return made;
    }

    private synchronized void endWatch() {
        if (watch != null) {
            watch.end();
        }
    }

    /**
     * Ends what is outstanding after a flush, when a completion queue of this queue pair may have
     * lost completions or gets no more.
     *
     * @param nanoseconds how long to wait for the device
     * @param rest the provider's status of what the device does not end
     */
    @SuppressWarnings("ReferenceEquality") // one of its completion queues
    void finish(CompletionArming queue, long nanoseconds, int rest) {
        runUnlessClosed(
                () -> {
                    if (queue == sendCompletions) {
                        sends.finish(nanoseconds, rest);
                    }
                    if (queue == receiveCompletions && receives != null) {
                        receives.finish(nanoseconds, rest);
                    }
                });
    }

    // ---- what is reported of it

    /** Counts and records a refused post, of its sends or its receives. Returns the result. */
    public PostResult refused(RequestCounts of, String operation, PostResult result) {
        of.refused(result);
        FlightRecording.refused(device.name(), number, operation, result);
        return result;
    }

    @Override
    void requestFailed(OperationType type, long context, int status, int vendorError) {
        if (status == WorkCompletions.FLUSHED) {
            progress.failsByItself();
            return;
        }
        progress.ownRequestFailed();
        FlightRecording.failed(
                device.name(),
                number,
                peer,
                type.name(),
                context,
                CompletionStatus.of(status, type, device.provider()).name(),
                status,
                vendorError);
    }

    @Override
    void tokenInvalidated(int token) {
        FlightRecording.invalidated(device.name(), number, token, true);
    }

    // ---- its close

    /** Closes both queues: every request has ended when this returns. */
    public void close(Teardown end) {
        end.run(this, NativeQueuePair::endConnecting);
        end.run(this, pair -> pair.sends.closeAndFinish(pair.closeTimeout()));
        end.run(this, NativeQueuePair::closeReceives);
    }

    private void closeReceives() {
        if (receives == null) {
            // In the error state it takes no more of the shared receives; what it has used up is
            // reported.
            if (toError() == 0) {
                long left = closeTimeout() - (System.nanoTime() - progress.errorSince());
                // When the time runs out, it is destroyed all the same, and may lose a receive.
                var _ = Threads.await(sharedReceivesReturned(), Duration.ofNanos(left));
            }
            receiveCompletions.poller().drainShared();
        } else {
            receives.closeAndFinish(closeTimeout(), this::toError);
        }
    }

    /**
     * Completes when it takes no more shared receives; already complete if nothing reports that.
     */
    public CompletableFuture<Void> sharedReceivesReturned() {
        return lastReceive != null && progress.reachable() && device.provider().reportsLastReceive()
                ? lastReceive
                : CompletableFuture.completedFuture(null);
    }

    /** For how long a close waits for the device to end what is outstanding. */
    private long closeTimeout() {
        return device.events().deviceFailed() ? FAILED_DEVICE_TIMEOUT : CLOSE_TIMEOUT;
    }

    /** For a close that an error has cut short; of a queue that is closed, this does nothing. */
    private void closeQueues() {
        if (!sends.isForeign()) { // otherwise its owner has ended, or has closed it
            sends.close();
            if (receives != null) {
                receives.close();
            }
        }
    }

    public void destroy(Teardown end) {
        closeQueues(); // first: it may throw, and no post may reach what is freed then
        endWatch();
        end.run(this, pair -> pair.sendCompletions.queuePairs().remove(pair));
        end.run(this, pair -> pair.receiveCompletions.queuePairs().remove(pair));
        end.run(this, pair -> pair.device.events().forget(pair.address));
        if (receives == null) {
            end.run(this, pair -> pair.receiveCompletions.poller().share(pair.number, pair, false));
        }
        end.run(this, pair -> pair.sendCompletions.poller().release(pair.sendSlot));
        end.run(this, pair -> pair.receiveCompletions.poller().release(pair.receiveSlot));
        end.run(memory, NativeMemory::free);
        // Before the queue pair: rxe waits for the windows that are bound on it.
        end.run(this, (pair, all) -> pair.domain.freeWindows(pair, pair.control, all));
        freeRemains(end);
        end.check(control.destroyQp(address), "ibv_destroy_qp");
    }
}
