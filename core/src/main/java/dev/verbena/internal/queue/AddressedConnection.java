package dev.verbena.internal.queue;

import dev.verbena.Gid;
import dev.verbena.Peer;
import dev.verbena.Port;
import dev.verbena.QueuePairAddress;
import dev.verbena.VerbenaException;
import dev.verbena.internal.events.FlightRecording;
import dev.verbena.internal.events.FlightRecording.ConnectEvent;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.StateChange;

import org.jspecify.annotations.Nullable;

import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/**
 * Connects a queue pair by address, without the connection manager. Knows this side's address, and
 * makes the transitions that connect it to the peer's. Any thread may call it.
 */
public final class AddressedConnection {
    private static final int SEQUENCE_BITS = 0xFF_FFFF;

    private final NativeQueuePair pair;
    // Copied from its port when the queue pair is created: a whole Port takes 140 bytes more.
    private final int portNumber;
    private final int mtuBytes;
    private final int lid;
    private final boolean ethernet;
    private volatile Port.@Nullable GidEntry gid; // null until it is asked for
    private boolean connected; // and not ended; guarded by this
    private final int firstSequence = ThreadLocalRandom.current().nextInt() & SEQUENCE_BITS;

    AddressedConnection(NativeQueuePair pair, Port port, Port.@Nullable GidEntry gid) {
        this.pair = pair;
        this.portNumber = port.number();
        this.mtuBytes = port.mtuBytes();
        this.lid = port.lid();
        this.ethernet = port.linkLayer() == Port.LinkLayer.ETHERNET;
        this.gid = gid;
    }

    /** The address that a peer needs to connect to it. */
    public QueuePairAddress address() {
        Port.GidEntry own = ownGid();
        return QueuePairAddress.of(
                        pair.number(),
                        firstSequence,
                        own == null ? new Gid(0, 0) : own.gid(),
                        mtuBytes)
                .withLid(lid)
                .withInboundReads(pair.inboundReads())
                .withInvalidatable(pair.invalidatable())
                .withSharedReceives(pair.receives() == null);
    }

    /** The GID that peers know it by, or null on InfiniBand, where the LID is enough. */
    private Port.@Nullable GidEntry ownGid() {
        if (!ethernet) {
            return null;
        }
        Port.GidEntry known = gid;
        if (known == null) {
            known = pair.preferredGid(portNumber);
            gid = known;
        }
        return known;
    }

    /**
     * Connects the queue pair, which is reserved for this. Holds no lock: the step to
     * ready-to-receive may ask the network for the peer's Ethernet address.
     *
     * @param options changes the attributes of a step
     * @param advice what to do about a failed step, after a first sentence
     */
    public void connect(
            QueuePairAddress to,
            Peer peer,
            Consumer<StateChange> options,
            UnaryOperator<String> advice) {
        ConnectEvent event =
                FlightRecording.connecting(pair.deviceName(), pair.number(), "by address", peer);
        boolean changed = false;
        try {
            moveToReadyToReceive(to, options, advice);
            changed = true;
            int reads = Math.min(pair.outboundReads(), to.inboundReads());
            try (StateChange change =
                    StateChange.readyToSend(firstSequence, reads, to.sharedReceives())) {
                options.accept(change);
                Errno.check(pair.change(change), "ibv_modify_qp(RTS)", advice.apply(""));
            }
            setConnected(true); // first: it may end as soon as it stands
            pair.connected(peer, to.invalidatable(), reads);
        } catch (Throwable t) {
            setConnected(false);
            if (changed) {
                var _ = pair.flush(); // of no other use: no state leads back to the first
            } else {
                pair.progress().giveUpConnecting();
            }
            if (event != null) {
                event.end(t);
            }
            throw t;
        }
        if (event != null) {
            event.end(null);
        }
    }

    private synchronized void setConnected(boolean to) {
        connected = to;
    }

    /** Records the end of the connection, once, as no connector does. */
    void ended(boolean byRequest) {
        synchronized (this) {
            if (!connected) {
                return;
            }
            connected = false;
        }
        String reason = byRequest && !pair.progress().flushed() ? "REQUEST_FAILED" : "LOCAL";
        FlightRecording.disconnected(pair.deviceName(), pair.number(), pair.peer(), reason);
    }

    private void moveToReadyToReceive(
            QueuePairAddress to, Consumer<StateChange> options, UnaryOperator<String> advice) {
        Port.GidEntry own = ownGid();
        try (StateChange change =
                StateChange.readyToReceive(portNumber, mtuBytes, own, to, pair.inboundReads())) {
            options.accept(change);
            int error = pair.change(change);
            if (error < 0) {
                throw new VerbenaException(
                        "ibv_modify_qp(RTR, peer %s)".formatted(to.gid()),
                        -error,
                        advice.apply(
                                "Is the peer's address reachable from GID %s (ip route get)?"
                                        .formatted(own)));
            }
        }
    }
}
