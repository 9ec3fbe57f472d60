package dev.verbena;

import com.google.errorprone.annotations.CanIgnoreReturnValue;

import dev.verbena.NativeObject.ClosedException;
import dev.verbena.NativeObject.Teardown;
import dev.verbena.internal.queue.CompletionPoller;
import dev.verbena.internal.queue.Endpoint;
import dev.verbena.internal.queue.ReceiveQueue;
import dev.verbena.internal.queue.RequestLedger;
import dev.verbena.internal.queue.SendQueue;
import dev.verbena.internal.queue.SendRules;
import dev.verbena.internal.queue.WindowTable;
import dev.verbena.internal.verbs.DeviceControl;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.NativeMemory;
import dev.verbena.internal.verbs.QueuePairShape;
import dev.verbena.internal.verbs.ReceiveRequest;
import dev.verbena.internal.verbs.Rights;
import dev.verbena.internal.verbs.SendChains;

import org.jspecify.annotations.Nullable;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * What a queue pair consists of: the {@code ibv_qp}, a slot in each completion queue, native
 * memory, and the two queues. Checks the limits, creates all of it, and destroys it. What happens
 * in between, connections and their ends, is in {@link NativeQueuePair}.
 */
final class QueuePairParts {
    private final Adapter adapter;
    private final DeviceControl control;
    private final ProtectionDomain domain;
    private final CompletionQueue sendCompletions;
    private final CompletionQueue receiveCompletions;
    private final @Nullable SharedReceiveQueue sharedReceives;
    private final QueuePairLimits limits;
    private final Endpoint endpoint;
    private final NativeMemory memory;
    private final long sendSlot;
    private final long receiveSlot;

    final AdapterInfo info;
    final int inboundReads; // outstanding ones of the peer
    final Port port;
    final @Nullable GidChoice gid; // by Adapter.useGid
    final long address;
    final int number;
    final Runnable modifyToError = this::toError;
    final SendQueue sends;
    final @Nullable ReceiveQueue receives; // null with a shared receive queue

    // Windows and regions that were closed while requests of this queue pair named them; null when
    // the queue pair is destroyed.
    private @Nullable List<MemoryWindow.PendingFree> remains = new ArrayList<>();

    private volatile boolean movedToError; // by this side

    /** Creates everything; when that fails, nothing is left. */
    QueuePairParts(
            ProtectionDomain domain,
            CompletionQueue sendCompletions,
            CompletionQueue receiveCompletions,
            @Nullable SharedReceiveQueue sharedReceives,
            QueuePairLimits limits,
            Endpoint endpoint) {
        this.domain = domain;
        this.adapter = domain.adapter();
        this.control = adapter.control();
        this.sendCompletions = sendCompletions;
        this.receiveCompletions = receiveCompletions;
        this.sharedReceives = sharedReceives;
        this.limits = limits;
        this.endpoint = endpoint;
        this.memory = new NativeMemory();
        long send = CompletionPoller.NO_SLOT;
        long receive = CompletionPoller.NO_SLOT;
        long made = 0;
        try {
            this.info = adapter.queryInfo();
            checkLimits();
            this.inboundReads = Math.min(limits.inboundReads(), info.maxInboundReads());
            this.gid = adapter.portTable().chosen();
            this.port = adapter.portTable().portOf(gid);
            send = reserve(sendCompletions, false);
            this.sendSlot = send;
            receive = reserve(receiveCompletions, true);
            this.receiveSlot = receive;
            int interval = SendQueue.interval(limits.initiatorDepth());
            made = create(interval);
            this.address = made;
            Errno.check(
                    control.toInit(made, port.number(), remoteRights()), "ibv_modify_qp(INIT)", "");
            this.number = control.queuePairNumber(made);
            this.sends = createSendQueue(interval);
            this.receives = sharedReceives == null ? createReceiveQueue() : null;
            if (sharedReceives != null) {
                receiveCompletions.poller().share(number, endpoint, true);
            }
        } catch (Throwable t) {
            undo(send, receive, made);
            throw t;
        }
    }

    /** Destroys what there is of one that could not be created. */
    private void undo(long send, long receive, long made) {
        if (made != 0) {
            if (sharedReceives != null) {
                receiveCompletions.poller().share(control.queuePairNumber(made), endpoint, false);
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

    private void checkLimits() {
        if (sendCompletions.adapter() != adapter
                || receiveCompletions.adapter() != adapter
                || (sharedReceives != null && sharedReceives.domain() != domain)) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A queue pair's completion queues must be of the adapter of its domain, and its shared receive queue of that domain; the domain is of "
                            + adapter.name());
        }
        if (sendCompletions.owner() != receiveCompletions.owner()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "Both completion queues of a queue pair must be shared, or both confined to the same thread");
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
                    "A queue pair of %s has at most %d initiator requests with %d buffers and %d bytes inline, and %d receives with %d buffers; asked for: %s"
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
                    "A completion queue serves at most 65536 send and receive queues: create another one");
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
                    "Each of these limits is supported on its own; the device may lack memory for all of them: "
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
                new SendRules(
                        domain,
                        limits.maxInitiatorBuffers(),
                        Math.min(limits.maxInitiatorBuffers(), info.maxReadBuffers()),
                        limits.maxInlineBytes(),
                        port.maxMessageBytes(),
                        info.maxWindowBytes(),
                        info.sendsWithInvalidate(),
                        info.immediateData(),
                        info.atomics());
        SendQueue queue =
                new SendQueue(
                        rules,
                        ledger,
                        chains,
                        adapter.context(),
                        address,
                        sendCompletions.poller(),
                        modifyToError);
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

    /** Moves the queue pair to the error state; 0, or a negative errno. */
    @CanIgnoreReturnValue
    int toError() {
        movedToError = true; // first: what the device flushes from now on is not its own doing
        return control.toError(address);
    }

    /** Whether this side has moved the queue pair to the error state, or is about to. */
    boolean movedToError() {
        return movedToError;
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

    /** Others find these windows free at once, and wait until they are. */
    private void freeWindows(Teardown end) {
        List<WindowTable.Lost> lost;
        synchronized (domain.windows()) {
            lost = domain.windows().lost(endpoint);
            for (WindowTable.Lost one : lost) {
                end.check(control.freeWindow(one.address()), "ibv_dealloc_mw");
            }
        }
        for (WindowTable.Lost one : lost) {
            end.run(one.window()::freeFormer);
        }
    }

    /** Adds the steps that destroy everything. */
    void destroy(Teardown end) {
        if (receives == null) {
            end.run(() -> receiveCompletions.poller().share(number, endpoint, false));
        }
        end.run(() -> sendCompletions.poller().release(sendSlot));
        end.run(() -> receiveCompletions.poller().release(receiveSlot));
        end.run(memory::free);
        // Before the queue pair: rxe waits for the windows that are bound on it.
        end.run(() -> freeWindows(end));
        takeRemains().forEach(left -> left.free(control, end));
        end.check(control.destroyQp(address), "ibv_destroy_qp");
    }
}
