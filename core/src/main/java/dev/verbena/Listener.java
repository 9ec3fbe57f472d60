package dev.verbena;

import dev.verbena.internal.connect.ConnectionInput;
import dev.verbena.internal.connect.ConnectionStateMachine;
import dev.verbena.internal.connect.Listening;
import dev.verbena.internal.device.Addresses;
import dev.verbena.internal.runtime.LimitedExecutor;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.Uncaught;

import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;

/**
 * Listens on an address for peers that connect: NDK's listener.
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
 * answered within 70 s is refused: its connector is closed, which is logged, and given to the
 * thread's handler of uncaught exceptions if the program has set one. When the backlog is full and
 * another request comes, the same happens to the oldest request whose handler returned at least 2 s
 * before, unless the listener has an executor of yours. A request that cannot be served (no thread
 * can be started, the executor rejects it, the handler throws) is refused; the others go on.
 *
 * <p>Its close frees the address at once. The connectors that came from it go on, whatever listens
 * there next.
 *
 * <p>May be used from any thread. After its adapter is closed, it refuses all peers.
 */
public final class Listener extends NativeObject {
    private static final int USUAL_BACKLOG = 128;
    private static final int HANDLERS = 16;

    // The peer's kernel sends a request 16 times, at intervals of 4.3 s, and then gives up (cma.c:
    // CMA_MAX_CM_RETRIES, CMA_CM_RESPONSE_TIMEOUT); no event reports that to this side. It waits
    // longer if it was asked to (MRA, sent for the second copy of a request), which few programs
    // need.
    static final Duration ANSWER_WITHIN = Duration.ofSeconds(70);

    // Enough time for a program that answers on another thread, even in a burst of requests.
    static final Duration FORGOTTEN_AFTER = Duration.ofSeconds(2);

    private final Adapter adapter;
    private final Executor executor;
    private final Consumer<Connector> handler;
    private final Listening listening;
    private volatile boolean stopped; // requests still waiting for a thread are then refused

    /** Threads for the handler. The backlog limits how many requests wait for them. */
    static Executor threads() {
        return new LimitedExecutor(Threads.POOL, HANDLERS);
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
                throw new IllegalArgumentException("The backlog must be 0 or more, not " + backlog);
            }
            Addresses.check(adapter.device().ports(), address, "listen on");
            begun =
                    new Listening(
                            adapter.device().connectionEvents(),
                            adapter.name(),
                            address,
                            new Listening.Limits(
                                    backlog == 0 ? USUAL_BACKLOG : backlog,
                                    forgottenAfter,
                                    answerWithin),
                            this::request);
            this.listening = begun;
            begun.resume();
        } catch (Throwable t) {
            if (begun != null) {
                begun.close();
            }
            abandon();
            throw t;
        }
    }

    /** Called on the event thread, which must not wait for a handler. */
    private void request(ConnectionStateMachine request) {
        Connector connector;
        try {
            connector = new Connector(adapter, this, request);
        } catch (IllegalStateException e) {
            // This listener or the adapter closed meanwhile: refused.
            var _ = request.call(new ConnectionInput.Close(() -> {}));
            return;
        }
        try {
            Runnable task = () -> Uncaught.run(() -> handle(connector, request));
            request.onExpired(why -> expire(connector, task, why));
            executor.execute(task);
        } catch (RejectedExecutionException e) {
            connector.close(); // refuses the request: the executor is full
        } catch (Throwable t) {
            connector.close();
            throw t;
        }
    }

    /** The backlog does not count the request any more, so its task must not wait either. */
    private void expire(Connector connector, Runnable task, VerbenaException why) {
        if (executor instanceof LimitedExecutor own) {
            own.remove(task);
        }
        connector.expire(why);
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
            connector.close(); // refuses the request
            throw t;
        } finally {
            listening.handled(request);
        }
    }

    /**
     * The address that peers connect to (NdkGetListenerLocalAddress).
     *
     * @return the address, with the actual port if port 0 was requested
     */
    public InetSocketAddress localAddress() {
        return listening.address();
    }

    /**
     * Refuses peers from now on as if no program listened (NdkControlConnectEvents with pause), but
     * keeps the address. Existing connectors stay usable, and the handler may still receive
     * requests that arrived before. Does nothing if already paused.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException SHARING_VIOLATION if another program bound the address during the
     *     call: the listener is then unusable, close it
     */
    public void pause() {
        run(listening::pause);
    }

    /**
     * Lets peers connect again (NdkControlConnectEvents without pause). Does nothing if it is not
     * paused.
     *
     * @throws IllegalStateException when closed
     * @throws VerbenaException DEVICE_REMOVED, or the status of the failed call
     */
    public void resume() {
        run(listening::resume);
    }

    /** Stops listening, and frees the address: connectors from this listener do not need it. */
    @Override
    void shut(Teardown end) {
        stopped = true;
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
