package dev.verbena.internal.connect;

import dev.verbena.internal.runtime.AdapterEvents;
import dev.verbena.internal.runtime.Timers;
import dev.verbena.internal.runtime.Uncaught;
import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;

import org.jspecify.annotations.Nullable;

import java.util.Map;
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

    private final ConnectionControl control;
    private final Timers timers;
    private final long channel;
    private final int descriptor;
    private final AtomicLong keys = new AtomicLong(1);
    private final Map<Long, Handler> handlers = new ConcurrentHashMap<>();
    private final Map<Long, ConnectionStateMachine> awaitingData = new ConcurrentHashMap<>();
    private volatile @Nullable Throwable threadEnded; // why

    /**
     * Opens the channel.
     *
     * @throws Failure when it cannot be opened
     */
    public ConnectionEvents(ConnectionControl control, Timers timers) throws Failure {
        this.control = control;
        this.timers = timers;
        this.channel = openChannel(control);
        this.descriptor = control.descriptor(channel);
    }

    static long openChannel(ConnectionControl control) throws Failure {
        return Failure.check(
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

    /** Creates an identifier whose events go to a handler. */
    ConnectionIdentifier create(Handler handler) throws Failure {
        long key = keys.getAndIncrement();
        handlers.put(key, handler);
        long id;
        try {
            ensureAlive(); // after the handler is where the end of the thread looks for it
            id = Failure.check(control.create(channel, key), "rdma_create_id", "");
        } catch (Failure | RuntimeException | Error f) {
            handlers.remove(key);
            throw f;
        }
        return new ConnectionIdentifier(this, id, key);
    }

    /** Takes over an identifier that came with a request. */
    ConnectionIdentifier adopt(long id, Handler handler) {
        ConnectionIdentifier adopted = new ConnectionIdentifier(this, id, keys.getAndIncrement());
        handlers.put(adopted.key(), handler);
        control.setKey(id, adopted.key());
        return adopted;
    }

    /** Destroys an identifier; its events end here. */
    void destroy(ConnectionIdentifier identifier) {
        handlers.remove(identifier.key());
        // It fails only for an identifier that the kernel does not know, which is as good.
        control.destroy(identifier.id());
    }

    /** Whether events still come. */
    boolean alive() {
        return threadEnded == null;
    }

    void ensureAlive() throws Failure {
        if (threadEnded != null) {
            throw broken(threadEnded);
        }
    }

    static Failure broken(Throwable cause) {
        return new Failure(
                Failure.Kind.BROKEN,
                "The adapter's event thread ended, and the cause says why: close the adapter and open it again",
                cause);
    }

    /** Has a connection informed of data that come for its queue pair. */
    void awaitData(long queuePair, ConnectionStateMachine connection) {
        awaitingData.put(queuePair, connection);
    }

    void awaitNoData(long queuePair) {
        awaitingData.remove(queuePair);
    }

    // ---- called by the event loop

    @Override
    public int descriptor() {
        return descriptor;
    }

    @Override
    public @Nullable Runnable awaitsData(long queuePair) {
        ConnectionStateMachine connection = awaitingData.get(queuePair);
        return connection == null ? null : connection::dataArrived;
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
