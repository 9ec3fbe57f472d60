package dev.verbena;

import dev.verbena.internal.connect.Dialogue;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.Listening;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;

/**
 * An address that peers connect to: NDK's listener.
 *
 * <p>Its handler gets each request as a {@link Connector}, on one of up to 16 threads; further
 * requests wait for one of them. A handler that serves its whole connection before it returns holds
 * its thread meanwhile: for more than 16 connections at a time, give {@link Adapter#listen(
 * InetSocketAddress, int, Executor, Consumer)} an executor of your own, or hand the connector over
 * to another thread.
 *
 * <p>Each request has to be accepted, rejected or closed, in the handler or later. One that is not
 * answered within 70 s is refused, its connector is closed, and that is reported to the handler of
 * uncaught exceptions. So is the oldest whose handler has returned 2 s ago or earlier, when another
 * request comes and the backlog is full. A request that cannot be served (no thread can be started,
 * the executor rejects it, the handler throws) is refused, alone.
 *
 * <p>May be used from any thread. When its adapter is closed, it refuses all peers.
 */
public final class Listener extends NativeObject {
    private static final int USUAL_BACKLOG = 128;
    private static final int HANDLERS = 16;

    // InfiniBand's connection manager sends a request 16 times, 4.3 s apart, until it gives up
    // (cma.c: CMA_MAX_CM_RETRIES, CMA_CM_RESPONSE_TIMEOUT), and the kernel here does not say so. A
    // peer's kernel that was asked for more time (MRA, at the second try) waits longer, which few
    // programs do.
    private static final Duration ANSWER_WITHIN = Duration.ofSeconds(70);

    // Who answers from a thread of its own has had time to by then, even in a burst.
    private static final Duration FORGOTTEN_AFTER = Duration.ofSeconds(2);

    private final Adapter adapter;
    private final Executor executor;
    private final Consumer<Connector> handler;
    private final Listening listening;
    private volatile boolean stopped; // requests that wait for a thread are refused then

    /** With threads of its own. */
    Listener(Adapter adapter, InetSocketAddress address, int backlog, Consumer<Connector> handler) {
        this(
                adapter,
                address,
                backlog,
                new LimitedExecutor(Threads.POOL, HANDLERS, backlog <= 0 ? USUAL_BACKLOG : backlog),
                handler,
                FORGOTTEN_AFTER,
                ANSWER_WITHIN);
    }

    /** With threads of the caller's. */
    Listener(
            Adapter adapter,
            InetSocketAddress address,
            int backlog,
            Executor executor,
            Consumer<Connector> handler) {
        this(adapter, address, backlog, executor, handler, FORGOTTEN_AFTER, ANSWER_WITHIN);
    }

    Listener(
            Adapter adapter,
            InetSocketAddress address,
            int backlog,
            Executor executor,
            Consumer<Connector> handler,
            Duration forgottenAfter,
            Duration answerWithin) {
        super(adapter);
        this.adapter = adapter;
        this.executor = executor;
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
                            new Listening.Limits(
                                    backlog == 0 ? USUAL_BACKLOG : backlog,
                                    forgottenAfter,
                                    answerWithin),
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
        try {
            executor.execute(() -> Threads.runCallback(() -> handle(connector, dialogue)));
        } catch (RejectedExecutionException e) {
            connector.close(); // too many for the executor, which is its way to say so
        } catch (Throwable t) {
            connector.close();
            throw t;
        }
    }

    private void handle(Connector connector, Dialogue dialogue) {
        if (connector.expired()) {
            return; // it waited too long for a thread
        }
        if (stopped) {
            connector.close();
            return;
        }
        try {
            handler.accept(connector);
        } catch (Throwable t) {
            connector.close(); // nobody will answer it
            throw t;
        } finally {
            listening.handled(dialogue);
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
        stopped = true;
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
    String describe() {
        return "Listener of %s on %s%s"
                .formatted(
                        adapter.name(),
                        listening.address(),
                        listening.listens() || isClosed() ? "" : ", paused or closed");
    }
}
