package dev.verbena;

import dev.verbena.internal.connect.CloseReason;
import dev.verbena.internal.connect.QueuePairHandle;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.ConnectEvent;
import dev.verbena.internal.verbs.StateChange;
import dev.verbena.internal.verbs.StateChange.Attribute;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.concurrent.CompletableFuture;

/**
 * The operations of a connector on its queue pair, from the call that names the queue pair to
 * {@link #release}. Until then, the queue pair is not destroyed. This class is not internal,
 * because it connects two objects of the API.
 */
final class ConnectionHandle extends QueuePairHandle {
    private static final int MOST_READS = 255; // the connection manager's messages have a byte
    private static final int NOT_ASKED_FOR = -1;

    private final QueuePair.Handle queuePair;
    private final PathOptions path;
    private final SharedEndpoint.Use use;
    private boolean released; // guarded by this
    private volatile @Nullable InetSocketAddress towards; // null as long as it is not known
    private volatile int reads; // as negotiated
    private volatile boolean opened;

    /**
     * Takes a queue pair for a connector, which gives it back by {@link #release}.
     *
     * @throws VerbenaException when it is or was connected, or flushed
     */
    static ConnectionHandle claim(
            QueuePair queuePair, Adapter of, ConnectionOptions options, SharedEndpoint.Use use) {
        Adapter own = queuePair.domain().adapter();
        if (own != of) {
            throw new VerbenaException(
                    Status.INVALID_PARAMETER_MIX,
                    "A connector and its queue pair must be of the same Adapter object; the connector is of %s, the queue pair of %s"
                            .formatted(of.name(), own.name()));
        }
        queuePair.acquire();
        if (!queuePair.handle().progress().beginConnecting()) {
            queuePair.release();
            throw new VerbenaException(
                    queuePair.handle().progress().flushed()
                            ? Status.CONNECTION_INVALID
                            : Status.CONNECTION_ACTIVE,
                    queuePair
                            + " is connected, or was connected or flushed. A queue pair serves one connection: create another");
        }
        return new ConnectionHandle(queuePair.handle(), options.path, use);
    }

    private ConnectionHandle(QueuePair.Handle queuePair, PathOptions path, SharedEndpoint.Use use) {
        this.queuePair = queuePair;
        this.path = path;
        this.use = use;
    }

    @Override
    public Traits traits() {
        return new Traits(
                queuePair.number(),
                queuePair.receives() == null,
                queuePair.invalidatable(),
                Math.min(queuePair.inboundReads(), MOST_READS),
                Math.min(queuePair.outboundReads(), MOST_READS),
                path.retries(StateChange.MOST_RETRIES),
                path.trafficClass(NOT_ASKED_FOR));
    }

    /** Says where the peer is, before the connection is established. */
    void towards(@Nullable InetSocketAddress address) {
        towards = address;
    }

    /** A step towards the connection has begun; the Flight Recorder may want to know its end. */
    CompletableFuture<Void> watched(String side, CompletableFuture<Void> step) {
        ConnectEvent event =
                FlightRecording.connecting(
                        queuePair.deviceName(), queuePair.number(), side, towards);
        if (event != null) {
            event.endWith(step);
        }
        return step;
    }

    @Override
    public void ended(CloseReason reason) {
        if (opened) {
            FlightRecording.disconnected(
                    queuePair.deviceName(), queuePair.number(), queuePair.peer(), reason.name());
        }
    }

    /** Whether its queues are confined to the current thread. */
    boolean confinedHere() {
        return queuePair.sends().owner() == Thread.currentThread();
    }

    /**
     * Does what a poll would do, while the owner of confined queues waits for something else.
     *
     * @return whether requests are outstanding, of any of the owner's queue pairs here
     */
    boolean serve() {
        return queuePair.sends().serve();
    }

    @Override
    public int change(StateChange change) {
        switch (change.state()) {
            case StateChange.INITIALIZED -> change.set(Attribute.ACCESS, queuePair.remoteRights());
            case StateChange.READY_TO_RECEIVE -> {
                int asked = change.get(Attribute.INBOUND_READS);
                change.set(Attribute.INBOUND_READS, Math.min(asked, traits().inboundReads()));
            }
            default -> {
                reads = Math.min(change.get(Attribute.OUTBOUND_READS), traits().outboundReads());
                change.set(Attribute.OUTBOUND_READS, reads);
                int retries = change.get(Attribute.RETRIES);
                change.set(Attribute.RETRIES, Math.min(retries, StateChange.MOST_RETRIES));
            }
        }
        // On the accepting side nothing else would do: there the connection manager takes all that
        // it says from the peer's request, and rdma_set_option(TOS) has no effect (cma.c, cm.c).
        path.applyTo(change);
        return queuePair.change(change);
    }

    @Override
    public boolean usable() {
        return !queuePair.progress().flushed();
    }

    @Override
    public boolean failed() {
        return queuePair.progress().failed();
    }

    @Override
    public boolean open(boolean invalidatable, Runnable onFailure) {
        InetSocketAddress there = towards;
        opened = true;
        Peer peer = there == null ? null : Peer.of(there);
        return queuePair.open(peer, invalidatable, reads, onFailure);
    }

    @Override
    public void onData(Runnable arrived) {
        queuePair.onData(arrived);
    }

    @Override
    public void refusePosts() {
        queuePair.sends().refusePosts();
    }

    @Override
    public void drain() {
        queuePair.sends().drain();
    }

    @Override
    public boolean drained() {
        return queuePair.sends().drained();
    }

    @Override
    public void flush() {
        queuePair.flush();
    }

    @Override
    public void release(boolean fresh) {
        if (releasesFirst()) {
            if (fresh) {
                queuePair.progress().giveUpConnecting();
            }
            use.release();
            queuePair.queuePair().release();
        }
    }

    private synchronized boolean releasesFirst() {
        boolean first = !released;
        released = true;
        return first;
    }
}
