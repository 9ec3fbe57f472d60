package dev.verbena;

import dev.verbena.internal.connect.ConnectionStateMachine;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.Listening;
import dev.verbena.internal.runtime.LimitedExecutor;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;

/**
 * An address that peers connect to: NDK's listener.
 *
 * <p>Its handler gets each request as a {@link Connector}, on one of up to 16 threads; further
 * requests wait until a thread is free. A handler that serves its whole connection before it
 * returns keeps its thread busy: for more than 16 connections at a time, give {@link
 * Adapter#listen(InetSocketAddress, int, Executor, Consumer)} an executor of your own, or hand the
 * connector to another thread:
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="listen"}
 *
 * <p>Each request has to be accepted, rejected or closed, in the handler or later. One that is not
 * answered within 70 s is refused, its connector is closed, and the handler of uncaught exceptions
 * gets a report. When the backlog is full and another request comes, the same happens to the oldest
 * request whose handler returned at least 2 s before. A request that cannot be served (no thread
 * can be started, the executor rejects it, the handler throws) is refused; the others go on.
 *
 * <p>May be used from any thread. When its adapter is closed, it refuses all peers.
 */
public final class Listener extends NativeObject {
    private static final int USUAL_BACKLOG = 128;
    private static final int HANDLERS = 16;

    // InfiniBand's connection manager sends a request 16 times, 4.3 s apart, until it gives up
    // (cma.c: CMA_MAX_CM_RETRIES, CMA_CM_RESPONSE_TIMEOUT); no event reports that here. A peer's
    // kernel that was asked for more time (MRA, at the second try) waits longer, which few programs
    // need.
    private static final Duration ANSWER_WITHIN = Duration.ofSeconds(70);

    // A program that answers on another thread has had time to do so by then, even in a burst.
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
                            adapter.connectionEvents(),
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

    /** Called by the event thread, which must not wait for a handler. */
    private void request(ConnectionStateMachine request) {
        Connector connector;
        try {
            connector = new Connector(adapter, this, request);
        } catch (IllegalStateException e) {
            request.close(() -> {}); // this listener or the adapter closed meanwhile: refused
            return;
        }
        try {
            executor.execute(() -> Uncaught.run(() -> handle(connector, request)));
        } catch (RejectedExecutionException e) {
            connector.close(); // the executor has too many tasks
        } catch (Throwable t) {
            connector.close();
            throw t;
        }
    }

    private void handle(Connector connector, ConnectionStateMachine request) {
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
            connector.close(); // it will not be answered
            throw t;
        } finally {
            listening.handled(request);
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
     * address is kept. Connectors that were handed out stay, and the handler may still get one that
     * was on its way. Does nothing when it is paused.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException SHARING_VIOLATION when another program got the address in that very
     *     moment: the listener cannot be used any more, close it
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

    /** Stops at once; the address is kept while a connector that was accepted here is open. */
    @Override
    void shut() {
        stopped = true;
        try {
            listening.pause();
        } catch (Failure f) {
            listening.close(); // another program has the address already
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
