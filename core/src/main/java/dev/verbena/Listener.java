package dev.verbena;

import dev.verbena.internal.cm.Dialogue;
import dev.verbena.internal.cm.Failure;
import dev.verbena.internal.cm.Listening;

import java.net.InetSocketAddress;
import java.util.function.Consumer;

/**
 * An address that peers connect to: NDK's listener.
 *
 * <p>May be used from any thread. When its adapter is closed, it refuses all peers.
 */
public final class Listener extends NativeObject {
    private static final int USUAL_BACKLOG = 128;

    private final Adapter adapter;
    private final Consumer<Connector> handler;
    private final Listening listening;

    Listener(Adapter adapter, InetSocketAddress address, int backlog, Consumer<Connector> handler) {
        super(adapter);
        this.adapter = adapter;
        this.handler = handler;
        Listening begun = null;
        try {
            if (backlog < 0) {
                throw new IllegalArgumentException("A backlog of " + backlog);
            }
            Addresses.check(adapter, address, "listen on");
            begun =
                    new Listening(
                            adapter.events().connections(),
                            adapter.name(),
                            address,
                            backlog == 0 ? USUAL_BACKLOG : backlog,
                            this::request);
            this.listening = begun;
            begun.resume();
        } catch (Failure f) {
            if (begun != null) {
                begun.close();
            }
            abandon();
            throw VerbenaException.of(f);
        } catch (Throwable t) {
            if (begun != null) {
                begun.close();
            }
            abandon();
            throw t;
        }
    }

    /** On the adapter's thread, which has other things to do than to wait for a handler. */
    private void request(Dialogue dialogue) {
        Connector connector;
        try {
            connector = new Connector(adapter, this, dialogue);
        } catch (IllegalStateException e) {
            dialogue.close(() -> {}); // this listener or the adapter closed meanwhile: refused
            return;
        }
        Threads.CALLBACKS.execute(() -> Threads.runCallback(() -> handle(connector)));
    }

    private void handle(Connector connector) {
        try {
            handler.accept(connector);
        } catch (Throwable t) {
            connector.close(); // nobody will answer it
            throw t;
        }
    }

    /**
     * Where peers can connect to (NdkGetLocalAddress).
     *
     * @return with the port that was chosen when 0 was asked for
     */
    public InetSocketAddress localAddress() {
        return listening.address();
    }

    /**
     * Refuses peers from now on as if nobody listened (NdkControlConnectEvents with pause); the
     * address is kept. Connectors that were handed out stay, and one may come that was on its way.
     * Does nothing when it is paused.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException SHARING_VIOLATION when somebody else got the address in that very
     *     moment: the listener is of no use any more
     */
    public void pause() {
        run(listening::pause);
    }

    /**
     * Lets peers connect again (NdkControlConnectEvents without pause). Does nothing when it is not
     * paused.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException DEVICE_REMOVED, or when the device refuses
     */
    public void resume() {
        run(listening::resume);
    }

    private interface Change {
        void make() throws Failure;
    }

    private void run(Change change) {
        hold();
        try {
            change.make();
        } catch (Failure f) {
            throw VerbenaException.of(f);
        } finally {
            letGo();
        }
    }

    /** Stops at once; the address is kept while a connector from here lives. */
    @Override
    void shut() {
        try {
            listening.pause();
        } catch (Failure f) {
            listening.close(); // somebody else has the address already
        }
    }

    @Override
    void destroy() {
        listening.close();
    }

    @Override
    public String toString() {
        return "Listener of %s on %s%s"
                .formatted(
                        adapter.name(),
                        listening.address(),
                        listening.listens() ? "" : ", paused or closed");
    }
}
