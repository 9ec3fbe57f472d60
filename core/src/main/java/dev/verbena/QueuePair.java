package dev.verbena;

import dev.verbena.internal.queue.Gate;
import dev.verbena.internal.queue.RequestFifo;
import dev.verbena.internal.queue.WorkId;
import dev.verbena.internal.verbs.DeviceAttributes;
import dev.verbena.internal.verbs.PathAttributes;
import dev.verbena.internal.verbs.VerbsContext;
import dev.verbena.internal.verbs.VerbsObjects;
import dev.verbena.internal.verbs.WorkRequests;

import java.lang.foreign.Arena;
import java.lang.ref.Reference;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One end of a reliable connection, with an initiator queue and a receive queue: NDK's QP, verbs'
 * {@code ibv_qp} of type RC.
 *
 * <p>Posts to one of the two queues are to be serialised by the caller, as NDK asks; a send and a
 * receive may be posted at the same time, and closing may run beside both.
 */
public final class QueuePair extends NativeObject {
    private static final int SEQUENCE_BITS = 0xFF_FFFF;
    private static final int REMOTE_RIGHTS = VerbsObjects.REMOTE_READ | VerbsObjects.REMOTE_WRITE;

    private final CompletionQueue initiatorCompletions;
    private final CompletionQueue receiveCompletions;
    private final QueuePairLimits limits;
    private final Port port;
    private final Port.GidEntry gid;
    private final long address;
    private final int number;
    private final int firstSequence = ThreadLocalRandom.current().nextInt() & SEQUENCE_BITS;
    private final Arena arena;
    private final WorkRequests requests;

    private final Gate initiatorGate = new Gate();
    private final RequestFifo initiated;
    private final long initiatorQueue;
    private final AtomicBoolean connecting = new AtomicBoolean();
    private volatile boolean connected;

    private final Gate receiveGate = new Gate();
    private final RequestFifo received;
    private final long receiveQueue;

    QueuePair(
            ProtectionDomain domain,
            CompletionQueue initiatorCompletions,
            CompletionQueue receiveCompletions,
            QueuePairLimits limits) {
        super(domain, initiatorCompletions, receiveCompletions);
        this.initiatorCompletions = initiatorCompletions;
        this.receiveCompletions = receiveCompletions;
        this.limits = limits;
        Adapter adapter = domain.adapter();
        Deque<Runnable> undo = new ArrayDeque<>();
        undo.push(this::abandon);
        try {
            checkLimits(adapter, limits);
            if (initiatorCompletions.adapter() != adapter
                    || receiveCompletions.adapter() != adapter) {
                throw new VerbenaException(
                        Status.INVALID_PARAMETER_MIX,
                        "A queue pair and its completion queues are of one adapter; this domain is of "
                                + adapter.name());
            }
            this.port = adapter.activePort();
            this.gid = port.linkLayer() == Port.LinkLayer.ETHERNET ? port.preferredGid() : null;
            this.initiated = new RequestFifo(limits.initiatorDepth());
            this.received = new RequestFifo(limits.receiveDepth());
            long initiatorSlot = initiatorCompletions.reserve(false);
            undo.push(() -> initiatorCompletions.release(initiatorSlot));
            this.initiatorQueue = initiatorSlot;
            long receiveSlot = receiveCompletions.reserve(true);
            undo.push(() -> receiveCompletions.release(receiveSlot));
            this.receiveQueue = receiveSlot;
            long made =
                    VerbenaException.check(
                            VerbsObjects.createQp(
                                    domain.address(),
                                    initiatorCompletions.address(),
                                    receiveCompletions.address(),
                                    limits.initiatorDepth(),
                                    limits.receiveDepth(),
                                    limits.maxInitiatorBuffers(),
                                    limits.maxReceiveBuffers()),
                            "ibv_create_qp",
                            "The device takes each of these limits, perhaps not together: "
                                    + limits);
            undo.push(() -> VerbsObjects.destroyQp(made));
            this.address = made;
            VerbenaException.check(
                    VerbsObjects.toInit(made, port.number(), REMOTE_RIGHTS),
                    "ibv_modify_qp(INIT)",
                    "");
            this.number = VerbsObjects.queuePairNumber(made);
            Arena room = Arena.ofShared();
            undo.push(room::close);
            this.arena = room;
            this.requests = new WorkRequests(adapter.context(), made, room);
            initiatorCompletions.enter(initiatorSlot, this);
            receiveCompletions.enter(receiveSlot, this);
        } catch (Throwable t) {
            undo.forEach(Runnable::run);
            throw t;
        }
    }

    private static void checkLimits(Adapter adapter, QueuePairLimits limits) {
        DeviceAttributes device = adapter.attributes();
        if (Math.max(limits.initiatorDepth(), limits.receiveDepth()) > device.maxWorkRequests()
                || Math.max(limits.maxInitiatorBuffers(), limits.maxReceiveBuffers())
                        > device.maxSge()) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER,
                    "%s has queues of %d requests with %d buffers at most; asked for: %s"
                            .formatted(
                                    adapter.name(),
                                    device.maxWorkRequests(),
                                    device.maxSge(),
                                    limits));
        }
    }

    /**
     * Where this queue pair can be reached: what the peer's {@link #connect} takes.
     *
     * @return its address
     */
    public QueuePairAddress address() {
        return new QueuePairAddress(
                number,
                firstSequence,
                gid == null ? new Gid(0, 0) : gid.gid(),
                port.lid(),
                port.mtuBytes());
    }

    /**
     * Connects to a queue pair whose address came over a channel of the caller's own. The other
     * side does the same with this one's {@link #address}; a side may send once both have.
     *
     * @param peer the other queue pair's address
     * @throws IllegalStateException when it is connected already, or closed
     * @throws VerbenaException when the device refuses the address
     */
    public void connect(QueuePairAddress peer) {
        hold();
        try {
            if (!connecting.compareAndSet(false, true)) {
                throw new IllegalStateException(this + " is connected already");
            }
            try {
                modifyToConnected(peer);
            } finally {
                connecting.set(connected);
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
        int mtu = Math.min(port.mtuBytes(), peer.mtuBytes());
        VerbenaException.check(
                VerbsObjects.toReadyToReceive(
                        address,
                        new PathAttributes(
                                port.number(),
                                gid == null ? 0 : gid.index(),
                                gid != null,
                                VerbsContext.mtuOf(mtu),
                                peer.queuePairNumber(),
                                peer.firstSequenceNumber(),
                                peer.lid(),
                                peer.gid().high(),
                                peer.gid().low(),
                                1)),
                "ibv_modify_qp(RTR, peer %s)".formatted(peer.gid()),
                "Is the peer's address reachable from GID %s (ip route get)?".formatted(gid));
        VerbenaException.check(
                VerbsObjects.toReadyToSend(address, firstSequence, 1), "ibv_modify_qp(RTS)", "");
        connected = true;
    }

    /**
     * Sends a message (NdkSend). It goes into one receive of the peer's, in order. Ends in a
     * completion of type {@link OperationType#SEND} on the initiator's completion queue.
     *
     * <p>The bytes are the caller's again at the completion, {@code buffers} itself when this
     * returns. Allocates nothing.
     *
     * @param context what the completion will carry
     * @param buffers the message's bytes; an empty list sends an empty message
     * @return SUCCESS; or, with no effect: CONNECTION_INVALID when not connected or closed,
     *     NO_MORE_ENTRIES when as many sends as the queue is deep are under way, INVALID_PARAMETER
     *     for too many buffers or bytes, or the provider's refusal
     */
    public Status send(long context, BufferList buffers) {
        if (!initiatorGate.enter()) {
            return Status.CONNECTION_INVALID;
        }
        try {
            if (!connected) {
                return Status.CONNECTION_INVALID;
            }
            if (buffers.size() > limits.maxInitiatorBuffers()
                    || buffers.bytes() > port.maxMessageBytes()) {
                return Status.INVALID_PARAMETER;
            }
            if (initiated.full()) {
                return Status.NO_MORE_ENTRIES;
            }
            long id = WorkId.of(initiatorQueue, initiated.add(context));
            int answer = requests.postSend(id, buffers.address(), buffers.size());
            if (answer != 0) {
                initiated.takeBack();
            }
            return postStatus(answer);
        } finally {
            initiatorGate.leave();
            Reference.reachabilityFence(buffers);
        }
    }

    /**
     * Makes room for a message (NdkReceive). May be posted before the connection exists. Ends in a
     * completion of type {@link OperationType#RECEIVE} on the receive completion queue.
     *
     * <p>The bytes are the device's until the completion, {@code buffers} itself is the caller's
     * again when this returns. Allocates nothing.
     *
     * @param context what the completion will carry
     * @param buffers where the message goes, filled in order
     * @return SUCCESS; or, with no effect: CONNECTION_INVALID when closed, NO_MORE_ENTRIES when as
     *     many receives as the queue is deep are posted, INVALID_PARAMETER for too many buffers, or
     *     the provider's refusal
     */
    public Status receive(long context, BufferList buffers) {
        if (!receiveGate.enter()) {
            return Status.CONNECTION_INVALID;
        }
        try {
            if (buffers.size() > limits.maxReceiveBuffers()) {
                return Status.INVALID_PARAMETER;
            }
            if (received.full()) {
                return Status.NO_MORE_ENTRIES;
            }
            long id = WorkId.of(receiveQueue, received.add(context));
            int answer = requests.postReceive(id, buffers.address(), buffers.size());
            if (answer != 0) {
                received.takeBack();
            }
            return postStatus(answer);
        } finally {
            receiveGate.leave();
            Reference.reachabilityFence(buffers);
        }
    }

    /** What a provider's refusal means; some answer a negative errno (siw), some the errno. */
    private static Status postStatus(int answer) {
        return VerbenaException.statusOf(Math.abs(answer));
    }

    /**
     * Whether a completion is of a request of this queue pair, and not of an earlier one in the
     * same slot.
     */
    boolean owns(long id) {
        return WorkId.belongsTo(id, WorkId.isReceive(id) ? receiveQueue : initiatorQueue);
    }

    /**
     * Retires a request that has completed and returns its context; called under the completion
     * queue's gate.
     */
    long retire(long id) {
        RequestFifo queue = WorkId.isReceive(id) ? received : initiated;
        int sequence = WorkId.sequence(id);
        long context = queue.context(sequence);
        queue.retire(sequence);
        return context;
    }

    @Override
    void shut() {
        initiatorGate.shut();
        receiveGate.shut();
    }

    @Override
    void destroy() {
        initiatorCompletions.release(initiatorQueue);
        receiveCompletions.release(receiveQueue);
        arena.close();
        VerbenaException.check(VerbsObjects.destroyQp(address), "ibv_destroy_qp", "");
    }

    @Override
    public String toString() {
        return "QueuePair %d".formatted(number);
    }
}
