package dev.verbena.internal.connect;

import dev.verbena.ConnectionCounters;
import dev.verbena.ConnectionInfo;
import dev.verbena.LocalEndpoint;
import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.util.Uncaught;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;
import dev.verbena.internal.verbs.ConnectionParameters;
import dev.verbena.internal.verbs.Errno;
import dev.verbena.internal.verbs.IdentifierInfo;
import dev.verbena.internal.verbs.StateChange;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The rdma_cm event channel of one adapter: hands each event to the connection or listener that it
 * is about.
 *
 * <p>Has no thread: the adapter's event loop waits for {@link #descriptor} and calls {@link
 * #handle}. Events carry a key that is never used again, instead of the identifier's address, which
 * the library may give to the next identifier.
 */
public final class ConnectionEvents implements AdapterEvents.Source {
    /** What events may be about. */
    public interface Handler {
        /** An event came; called by the adapter's event thread. */
        void handle(ConnectionEvent event);

        /** The adapter's event thread ended: no event will come any more. */
        void eventThreadEnded(Throwable cause);
    }

    /** An {@code rdma_cm_id} of this channel, and the calls of librdmacm that take one. */
    final class Identifier {
        private final long id;
        private final long key;

        private Identifier(long id, long key) {
            this.id = id;
            this.key = key;
        }

        long id() {
            return id;
        }

        long key() {
            return key;
        }

        IdentifierInfo describe() {
            return control.describe(id);
        }

        void shareAddress() {
            Errno.check(control.shareAddress(id), "rdma_set_option(REUSEADDR)", "");
        }

        void trafficClass(int value) {
            Errno.check(control.trafficClass(id, value), "rdma_set_option(TOS " + value + ")", "");
        }

        void resolveRoute(int milliseconds) {
            Errno.check(control.resolveRoute(id, milliseconds), "rdma_resolve_route", "");
        }

        void connect(ConnectionParameters parameters, InetSocketAddress peer) {
            Errno.check(control.connect(id, parameters), "rdma_connect(" + peer + ")", "");
        }

        void accept(ConnectionParameters parameters) {
            Errno.check(control.accept(id, parameters), "rdma_accept", "");
        }

        void establish() {
            Errno.check(control.establish(id), "rdma_establish", "");
        }

        /** Asks what a queue pair has to be given to reach a state. */
        void fillIn(StateChange change, String state) {
            Errno.check(control.fillIn(id, change), "rdma_init_qp_attr(" + state + ")", "");
        }

        /** Returns 0, or a negative errno where the peer gave up before. */
        int reject(byte[] data) {
            return control.reject(id, data);
        }

        /** Returns 0, or a negative errno where the peer was first or the device is gone. */
        int disconnect() {
            return control.disconnect(id);
        }

        /** Refuses or disconnects a peer that there is; no event comes any more. */
        void destroy() {
            handlers.remove(key);
            // It fails only for an identifier that the kernel does not know, which is as good.
            control.destroy(id);
        }
    }

    private final ConnectionControl control;
    private final Timers timers;
    private final long channel;
    private final int descriptor;
    private final AtomicLong keys = new AtomicLong(1);
    private final Map<Long, Handler> handlers = new ConcurrentHashMap<>();
    private final ConnectionCounts counts = new ConnectionCounts();
    private volatile @Nullable Throwable threadEnded; // why

    public ConnectionEvents(ConnectionControl control, Timers timers) {
        this.control = control;
        this.timers = timers;
        this.channel = openChannel(control);
        this.descriptor = control.descriptor(channel);
    }

    static long openChannel(ConnectionControl control) {
        return Errno.check(
                control.openChannel(),
                "rdma_create_event_channel",
                "Connecting needs the kernel's module rdma_ucm (modprobe rdma_ucm) and read and"
                        + " write access to /dev/infiniband/rdma_cm; in a container, pass the"
                        + " device in (--device).");
    }

    ConnectionControl control() {
        return control;
    }

    Timers timers() {
        return timers;
    }

    ConnectionCounts counts() {
        return counts;
    }

    // ---- snapshots, for any thread

    public ConnectionCounters counters() {
        return counts.now();
    }

    public List<ConnectionInfo> connections() {
        return handlers.values().stream()
                .filter(ConnectionStateMachine.class::isInstance)
                .distinct() // for a moment, an attempt has a second identifier
                .map(handler -> ((ConnectionStateMachine) handler).info())
                .filter(Objects::nonNull)
                .toList();
    }

    /** The addresses that are bound. */
    public List<LocalEndpoint> localEndpoints() {
        return handlers.values().stream()
                .filter(Listening.class::isInstance)
                .map(handler -> ((Listening) handler).info())
                .toList();
    }

    // ---- identifiers

    /** Creates an identifier whose events go to a handler. */
    Identifier create(Handler handler) {
        long key = keys.getAndIncrement();
        handlers.put(key, handler);
        long id;
        try {
            ensureAlive(); // after the handler is where the end of the thread looks for it
            id = Errno.check(control.create(channel, key), "rdma_create_id", "");
        } catch (RuntimeException | Error e) {
            handlers.remove(key);
            throw e;
        }
        return new Identifier(id, key);
    }

    /** Takes over an identifier that came with a request. */
    Identifier adopt(long id, Handler handler) {
        Identifier adopted = new Identifier(id, keys.getAndIncrement());
        handlers.put(adopted.key, handler);
        control.setKey(id, adopted.key);
        return adopted;
    }

    /** Whether events still come. */
    boolean alive() {
        return threadEnded == null;
    }

    void ensureAlive() {
        if (threadEnded != null) {
            throw FailureMessages.noEvents(threadEnded);
        }
    }

    // ---- called by the event loop

    @Override
    public int descriptor() {
        return descriptor;
    }

    /**
     * Takes one event and hands it on. What goes wrong with it is reported and ends nothing else:
     * all connections and completion queues of the adapter depend on the thread that calls this.
     *
     * @throws IllegalStateException when the channel is of no use any more
     */
    @Override
    public void handle() {
        ConnectionEvent event = control.takeEvent(channel);
        try {
            handle(event);
        } catch (Throwable t) {
            Uncaught.report(t);
        }
    }

    private void handle(ConnectionEvent event) {
        if (event.kind() == ConnectionEvent.Kind.NONE) {
            return;
        }
        Handler handler = handlers.get(event.key());
        if (handler != null) {
            handler.handle(event);
        } else if (event.kind() == ConnectionEvent.Kind.REQUEST) {
            control.destroy(event.id()); // its listener closed meanwhile: refused
        }
    }

    @Override
    public void threadEnded(Throwable cause) {
        threadEnded = cause;
        handlers.values().forEach(handler -> Uncaught.run(() -> handler.eventThreadEnded(cause)));
    }

    @Override
    public void close() {
        control.closeChannel(channel); // no identifier is left
    }
}
