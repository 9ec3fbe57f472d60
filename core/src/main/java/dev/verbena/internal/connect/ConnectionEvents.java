package dev.verbena.internal.connect;

import dev.verbena.internal.verbs.ConnectionControl;
import dev.verbena.internal.verbs.ConnectionEvent;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The event channel of one adapter: passes events on to what they are about.
 *
 * <p>Has no thread of its own; the adapter's looks at {@link #descriptor} and calls {@link
 * #handle}. Events name what they are about by a key that is never used again, not by the
 * identifier's address, which the library may give to the next one.
 */
public final class ConnectionEvents {
    /** Whom events may be about. */
    public interface Handler {
        /**
         * An event came; called by the adapter's thread.
         *
         * @param event what it was
         */
        void handle(ConnectionEvent event);

        /**
         * The adapter's thread is gone: no event will come any more.
         *
         * @param cause why
         */
        void orphan(Throwable cause);
    }

    private final ConnectionControl control;
    private final Timers timers;
    private final long channel;
    private final int descriptor;
    private final AtomicLong keys = new AtomicLong(1);
    private final Map<Long, Handler> handlers = new ConcurrentHashMap<>();
    private final Map<Long, Dialogue> accepting = new ConcurrentHashMap<>();
    private volatile Throwable death;

    /**
     * Opens the channel.
     *
     * @param control the connection manager
     * @param timers the adapter thread's
     * @throws Failure when there is none to be had
     */
    public ConnectionEvents(ConnectionControl control, Timers timers) throws Failure {
        this.control = control;
        this.timers = timers;
        this.channel =
                Failure.check(
                        control.openChannel(),
                        "rdma_create_event_channel",
                        "Connecting needs the kernel's module rdma_ucm (modprobe rdma_ucm) and read and"
                                + " write access to /dev/infiniband/rdma_cm; in a container, pass the"
                                + " device in (--device).");
        this.descriptor = control.descriptor(channel);
    }

    /**
     * What becomes readable with an event.
     *
     * @return an open descriptor
     */
    public int descriptor() {
        return descriptor;
    }

    ConnectionControl control() {
        return control;
    }

    Timers timers() {
        return timers;
    }

    /** A new identifier, whose events go to a handler. */
    Identifier create(Handler handler) throws Failure {
        long key = keys.getAndIncrement();
        handlers.put(key, handler);
        long id;
        try {
            ensureAlive(); // after the handler was put where its orphaning looks
            id = Failure.check(control.create(channel, key), "rdma_create_id", "");
        } catch (Failure f) {
            handlers.remove(key);
            throw f;
        }
        return new Identifier(id, key);
    }

    boolean alive() {
        return death == null;
    }

    void ensureAlive() throws Failure {
        if (death != null) {
            throw broken(death);
        }
    }

    /** Takes an identifier over that came with a request. */
    Identifier adopt(long id, Handler handler) {
        Identifier adopted = new Identifier(id, keys.getAndIncrement());
        handlers.put(adopted.key(), handler);
        control.setKey(id, adopted.key());
        return adopted;
    }

    /** Destroys an identifier; its events end here. */
    void destroy(Identifier identifier) {
        handlers.remove(identifier.key());
        // It fails only for an identifier that the kernel does not know, which is as good.
        control.destroy(identifier.id());
    }

    /** Tells a connection that data came for its queue pair. */
    void accepting(long queuePair, Dialogue dialogue) {
        accepting.put(queuePair, dialogue);
    }

    void notAccepting(long queuePair) {
        accepting.remove(queuePair);
    }

    /**
     * Data came for a queue pair that was not told of its connection yet.
     *
     * @param queuePair the address of the {@code ibv_qp}
     */
    public void dataCame(long queuePair) {
        Dialogue dialogue = accepting.get(queuePair);
        if (dialogue != null) {
            dialogue.dataCame();
        }
    }

    /**
     * Takes one event and passes it on. What goes wrong with it is reported and ends nothing else:
     * all connections and completion queues of the adapter depend on the thread that calls this.
     *
     * @throws IllegalStateException when the channel is of no use any more
     */
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

    /**
     * The adapter's thread is gone: whatever waits fails.
     *
     * @param cause why
     */
    public void die(Throwable cause) {
        death = cause;
        handlers.values().forEach(handler -> Uncaught.run(() -> handler.orphan(cause)));
    }

    static Failure broken(Throwable cause) {
        return new Failure(
                Failure.Kind.BROKEN,
                "The adapter's event thread ended (%s): close the adapter and open it again"
                        .formatted(cause),
                cause);
    }

    /** Closes the channel; no identifier is left. */
    public void close() {
        control.closeChannel(channel);
    }

    /**
     * An {@code rdma_cm_id}.
     *
     * @param id its address
     * @param key what its events carry
     */
    record Identifier(long id, long key) {}
}
