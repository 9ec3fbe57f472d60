package dev.verbena;

import dev.verbena.internal.connect.ConnectionInput;
import dev.verbena.internal.connect.ConnectionStateMachine;
import dev.verbena.internal.connect.FailureMessages;
import dev.verbena.internal.connect.PrivateData;
import dev.verbena.internal.device.Addresses;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Iterator;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One connection between a {@link QueuePair} here and one at the peer: NDK's connector, an {@code
 * rdma_cm_id} of librdmacm.
 *
 * <p>The connecting side calls {@link #connect}, which returns when the peer has accepted. {@link
 * #connectionData} then returns the peer's private data, and {@link #completeConnect} establishes
 * the connection, or {@link #reject} refuses it after all. The accepting side gets its connector
 * from a {@link Listener}: it reads {@link #connectionData}, then calls {@link #accept}, which
 * returns when the peer has completed the connection, or {@link #reject}. {@link #disconnect} ends
 * the connection from either side.
 *
 * {@snippet file="dev/verbena/examples/Hello.java" region="connect"}
 *
 * <p><b>Waiting.</b> Each step that waits for the peer exists in two forms: a blocking call, which
 * suits virtual threads (it holds no carrier thread while it waits), and one that returns a future,
 * whose name ends in {@code Async}. Each has a {@link ConnectionOptions#withDeadline deadline}.
 * Futures fail with the {@link VerbenaException} that the blocking call would throw. Cancelling or
 * completing a future aborts the step, unless it is already complete. After that, close the
 * connector, or attempt the next step, whose result shows the state of the connection.
 *
 * <p><b>Threads.</b> May be used from any thread, one step at a time. Callbacks, and stages that
 * depend on futures, run on callback threads, never while this library holds a lock. They may
 * block, and close any object.
 *
 * <p><b>Lifetime.</b> A connector whose attempt failed may connect again, and so may the queue pair
 * if the peer had not accepted. {@link #close} refuses a request that was not accepted, and ends an
 * established connection: when it returns, the queue pair is flushed; the native objects are kept
 * until the peer has confirmed, for at most 10 s. Call {@link #awaitClosed} before the process
 * ends: the kernel does not repeat a lost message for a process that is gone, so the peer might
 * never learn of the end.
 */
public final class Connector extends NativeObject {
    private final Adapter adapter;
    private final ConnectionStateMachine connection;
    private volatile @Nullable ConnectionHandle handle; // of the last attempt
    private volatile @Nullable VerbenaException expired; // why the request was not answered in time

    /** Creates a connector for the connecting side. */
    Connector(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        try {
            this.connection =
                    new ConnectionStateMachine(adapter.device().connectionEvents(), adapter.name());
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /** Creates a connector for a peer's request. */
    Connector(Adapter adapter, Listener listener, ConnectionStateMachine connection) {
        super(adapter, listener);
        this.adapter = adapter;
        this.connection = connection;
    }

    // ---- the connecting side

    /**
     * Asks a peer for a connection (NdkConnect), and waits for its answer.
     *
     * @param queuePair the queue pair of this side, not connected before
     * @param peer the address that the peer listens on
     * @param options deadline, private data, local address, path
     * @throws VerbenaException CONNECTION_REFUSED if no program listens, or the peer's program
     *     rejects the request ({@link #connectionData} then returns its private data);
     *     NETWORK_UNREACHABLE, HOST_UNREACHABLE; IO_TIMEOUT if the peer does not answer in time;
     *     INVALID_ADDRESS for an address that RDMA cannot reach from this adapter;
     *     CONNECTION_ACTIVE if connector or queue pair is connected; CONNECTION_INVALID if the
     *     queue pair was flushed; INVALID_PARAMETER_MIX if it is of another adapter;
     *     ADDRESS_ALREADY_EXISTS if the local address is in use, or a connection from the {@link
     *     SharedEndpoint} to this peer exists; TOO_MANY_ADDRESSES if no local port is free;
     *     CONNECTION_ABORTED if the local address has changed meanwhile; INVALID_BUFFER_SIZE for
     *     too much private data; CANCELLED when interrupted or closed; DEVICE_REMOVED;
     *     INTERNAL_ERROR when the adapter takes no events any more
     * @throws IllegalStateException if this connector is closed
     */
    public void connect(QueuePair queuePair, InetSocketAddress peer, ConnectionOptions options) {
        await(call(() -> begin(queuePair, peer, options)));
    }

    /**
     * Asks a peer for a connection with {@link ConnectionOptions#DEFAULTS}, and waits for its
     * answer.
     *
     * @param queuePair the queue pair of this side, not connected before
     * @param peer the address that the peer listens on
     * @throws VerbenaException as {@link #connect(QueuePair, InetSocketAddress, ConnectionOptions)}
     */
    public void connect(QueuePair queuePair, InetSocketAddress peer) {
        connect(queuePair, peer, ConnectionOptions.DEFAULTS);
    }

    /**
     * Asks a peer for a connection (NdkConnect).
     *
     * @param queuePair the queue pair of this side, not connected before
     * @param peer the address that the peer listens on
     * @param options deadline, private data, local address, path
     * @return a future that completes when the peer has accepted, and fails as {@link
     *     #connect(QueuePair, InetSocketAddress, ConnectionOptions)} does
     */
    public CompletableFuture<Void> connectAsync(
            QueuePair queuePair, InetSocketAddress peer, ConnectionOptions options) {
        return async(() -> call(() -> begin(queuePair, peer, options)));
    }

    private CompletableFuture<Void> begin(
            QueuePair queuePair, InetSocketAddress peer, ConnectionOptions options) {
        Addresses.check(adapter.device().ports(), peer, "connect to");
        SharedEndpoint endpoint = options.endpoint;
        InetSocketAddress local = endpoint == null ? options.local : endpoint.localAddress();
        Iterator<@Nullable InetSocketAddress> sources =
                Addresses.sources(adapter.device().ports(), local, peer);
        SharedEndpoint.Use use = endpoint == null ? SharedEndpoint.NO_USE : endpoint.use(peer);
        ConnectionHandle claimed;
        try {
            claimed = ConnectionHandle.claim(queuePair, adapter, options, use);
        } catch (Throwable t) {
            use.release();
            throw t;
        }
        return attempt(
                "connect",
                claimed,
                peer,
                new ConnectionInput.Connect(
                        claimed,
                        sources,
                        endpoint != null,
                        peer,
                        new PrivateData(options.privateData, options.announced),
                        options.deadline));
    }

    /** Begins a step that connects a queue pair. */
    @SuppressWarnings("ReferenceEquality") // the same handle
    private CompletableFuture<Void> attempt(
            String side,
            ConnectionHandle claimed,
            @Nullable InetSocketAddress peer,
            ConnectionInput.Call call) {
        claimed.towards(peer);
        ConnectionHandle before = handle;
        handle = claimed; // the connection's steps may use it before the call returns
        CompletableFuture<Void> step;
        try {
            step = connection.call(call);
        } catch (Throwable t) {
            if (handle == claimed) {
                handle = before; // the handle of an established connection
            }
            claimed.release(true); // no effect if it was released already
            throw t;
        }
        return claimed.watched(side, step);
    }

    /**
     * Establishes the connection that the peer has accepted (NdkCompleteConnect,
     * NdkCompleteConnectEx). Does not wait for the network; requests may be posted when it returns.
     * The accept of the peer returns only after this call.
     *
     * @param options only {@link ConnectionOptions#assumingInvalidatablePeer} is used
     * @throws VerbenaException CONNECTION_ABORTED if the peer gave up meanwhile or a verb failed;
     *     CONNECTION_INVALID when no peer has accepted; INSUFFICIENT_RESOURCES; DEVICE_REMOVED
     * @throws IllegalStateException when closed
     */
    public void completeConnect(ConnectionOptions options) {
        ensureOpen();
        var _ = connection.call(new ConnectionInput.Complete(options.assumeInvalidatable));
    }

    /**
     * Establishes the connection that the peer has accepted.
     *
     * @throws VerbenaException as {@link #completeConnect(ConnectionOptions)}
     */
    public void completeConnect() {
        completeConnect(ConnectionOptions.DEFAULTS);
    }

    // ---- the accepting side

    /**
     * Accepts a peer's request (NdkAccept, NdkAcceptEx), and waits until the peer has completed the
     * connection.
     *
     * @param queuePair the queue pair of this side, not connected before; post the receives for the
     *     peer's first messages before this call
     * @param options deadline, private data and path; what the path leaves out is as the peer asked
     * @throws VerbenaException CONNECTION_ABORTED when the peer gave up or refused after all, if it
     *     was refused because this call came too late (see {@link Listener}), or if a verb failed;
     *     IO_TIMEOUT if the peer does not complete in time; CONNECTION_ACTIVE if connector or queue
     *     pair is connected; CONNECTION_INVALID if this connector is not a request;
     *     INVALID_BUFFER_SIZE for too much private data; CANCELLED when interrupted or closed;
     *     INSUFFICIENT_RESOURCES; DEVICE_REMOVED
     * @throws IllegalStateException when closed before the call
     */
    public void accept(QueuePair queuePair, ConnectionOptions options) {
        await(beginAccept(queuePair, options));
    }

    /**
     * Accepts a peer's request with {@link ConnectionOptions#DEFAULTS}, and waits until the peer
     * has completed the connection.
     *
     * @param queuePair the queue pair of this side, not connected before
     * @throws VerbenaException as {@link #accept(QueuePair, ConnectionOptions)}
     */
    public void accept(QueuePair queuePair) {
        accept(queuePair, ConnectionOptions.DEFAULTS);
    }

    /**
     * Accepts a peer's request (NdkAccept).
     *
     * @param queuePair the queue pair of this side, not connected before
     * @param options deadline, private data and path
     * @return a future that completes when the peer has completed the connection, and fails as
     *     {@link #accept(QueuePair, ConnectionOptions)} does
     */
    public CompletableFuture<Void> acceptAsync(QueuePair queuePair, ConnectionOptions options) {
        return async(() -> beginAccept(queuePair, options));
    }

    private CompletableFuture<Void> beginAccept(QueuePair queuePair, ConnectionOptions options) {
        ensureAnswerable();
        ConnectionHandle claimed =
                ConnectionHandle.claim(queuePair, adapter, options, SharedEndpoint.NO_USE);
        return attempt(
                "accept",
                claimed,
                connection.peer(),
                new ConnectionInput.Accept(
                        claimed,
                        new PrivateData(options.privateData, options.announced),
                        options.assumeInvalidatable,
                        options.deadline));
    }

    /**
     * Called when the request was not answered in time and the peer was refused. Closes this
     * connector, so that it keeps neither adapter nor listener open; later calls that would answer
     * throw the reason.
     */
    void expire(VerbenaException why) {
        expired = why; // before close(): a thread that finds this closed reads it
        try {
            close();
        } finally {
            Uncaught.report(why);
        }
    }

    boolean expired() {
        return expired != null;
    }

    private void ensureAnswerable() {
        if (isClosed()) {
            VerbenaException why = expired;
            throw why == null ? new ClosedException(this) : FailureMessages.again(why);
        }
    }

    // ---- either side

    /**
     * Refuses a peer's request, or, on the connecting side, a connection that the peer has accepted
     * (NdkReject).
     *
     * @param privateData sent to the peer; may be empty
     * @throws VerbenaException CONNECTION_INVALID if there is nothing to refuse, CONNECTION_ABORTED
     *     when the peer gave up or was refused before, INVALID_BUFFER_SIZE for too much private
     *     data
     * @throws IllegalStateException when closed
     */
    public void reject(byte[] privateData) {
        ensureAnswerable();
        var _ =
                connection.call(
                        new ConnectionInput.Reject(new PrivateData(privateData.clone(), true)));
    }

    /**
     * Ends the connection (NdkDisconnect), and waits until the peer has confirmed. Posts are
     * refused immediately. For up to half of the deadline, outstanding requests may still complete;
     * then the rest, including receives, is cancelled as by {@link QueuePair#flush}. Does nothing
     * if already disconnected. While another call disconnects, this one waits for that: its own
     * deadline, interrupt or cancel ends only the wait.
     *
     * @param options only the deadline is used
     * @throws VerbenaException IO_TIMEOUT if the peer does not confirm in time (the connection has
     *     ended on this side nevertheless, unless another call still disconnects; that call's
     *     failure is this one's, too); CANCELLED when interrupted or closed (it has ended, too, and
     *     what was outstanding is cancelled); CONNECTION_INVALID if there never was one;
     *     DEVICE_REMOVED
     * @throws IllegalStateException when closed before the call
     */
    public void disconnect(ConnectionOptions options) {
        await(beginDisconnect(options));
    }

    /**
     * Ends the connection with {@link ConnectionOptions#DEFAULTS}, and waits until the peer has
     * confirmed.
     *
     * @throws VerbenaException as {@link #disconnect(ConnectionOptions)}
     */
    public void disconnect() {
        disconnect(ConnectionOptions.DEFAULTS);
    }

    /**
     * Ends the connection (NdkDisconnect).
     *
     * @param options only the deadline is used
     * @return a future that completes when the peer has confirmed, and fails as {@link
     *     #disconnect(ConnectionOptions)} does
     */
    public CompletableFuture<Void> disconnectAsync(ConnectionOptions options) {
        return async(() -> beginDisconnect(options));
    }

    private CompletableFuture<Void> beginDisconnect(ConnectionOptions options) {
        ensureOpen();
        return connection.call(new ConnectionInput.Disconnect(options.deadline));
    }

    /**
     * Adds a callback for the end of the connection (NdkDisconnectEventCallback,
     * NdkDisconnectEventCallbackEx). It is called exactly once, whichever side ended it:
     * immediately if the connection already ended, and never if none was established.
     *
     * <p>If the peer ended it, outstanding requests are not cancelled: receives stay posted until
     * {@link #disconnect}, {@link QueuePair#flush} or a close; other requests fail because the peer
     * does not answer.
     *
     * <p>A request that the peer refuses, as one with a wrong token, fails the queue pairs of both
     * sides. Either may find out first and disconnect; the other then hears CONNECTION_INVALID.
     *
     * @param callback called with SUCCESS if this side disconnected or closed; CONNECTION_INVALID
     *     if the peer did or its process ended; CONNECTION_ABORTED if a request failed and its
     *     completion was polled (for example with IO_TIMEOUT, if the peer's host is unreachable),
     *     if the device reports that the queue pair has failed, or if the connection manager gives
     *     the connection up ({@link #disconnectReason}); DEVICE_REMOVED; or INTERNAL_ERROR if the
     *     adapter's event thread ended. It may block, and close any object
     */
    public void onDisconnect(Consumer<Status> callback) {
        Arguments.notNull(callback, "callback");
        connection.onEnd(
                reason -> {
                    Runnable call = () -> Uncaught.run(() -> callback.accept(reason.status()));
                    Uncaught.run(() -> Threads.CALLBACKS.execute(call));
                });
    }

    /**
     * The provider's reason of a disconnect, for logs (NDK: ProviderDisconnectReason): the event of
     * the connection manager that ended the connection, and its status, which is 0, a negative
     * errno, or a reject reason of the InfiniBand specification.
     *
     * <ul>
     *   <li>{@code RDMA_CM_EVENT_DISCONNECTED, status 0}: the peer's disconnect
     *   <li>the same with status -110: the kernel disconnected because the peer's host asked for a
     *       new connection of the same queue pair number, and the old one did not answer
     *   <li>{@code RDMA_CM_EVENT_REJECTED, status 28}: the peer's program gave up before it knew
     *       that the connection was established; with another status, its kernel did
     *   <li>{@code RDMA_CM_EVENT_UNREACHABLE}: the peer did not confirm that the connection was
     *       established, or the link-layer address of the next hop changed (from Linux 6.0 on)
     * </ul>
     *
     * <p>Only the first, and status 28 of a rejection, are a close by the peer. All others are
     * reported as CONNECTION_ABORTED: what the peer sent last may not have arrived.
     *
     * <p>The peer's program cannot add a reason of its own: the kernel sends none.
     *
     * @return the event; "" while connected, and if this side, a failed request or the device ended
     *     the connection
     */
    public String disconnectReason() {
        return connection.disconnectReason();
    }

    /**
     * The peer's private data and parameters (NdkGetConnectionData), from its request, its reply or
     * its rejection, whichever came last. If the peer gives up after it has accepted, the data of
     * its reply stay.
     *
     * @return a copy; empty before the first of them
     * @throws VerbenaException CONNECTION_ABORTED for a request that was not answered in time
     * @throws IllegalStateException when closed
     */
    public ConnectionData connectionData() {
        ensureAnswerable();
        return connection.peerData(
                adapter.device().reported()); // without a probe, which takes 10 ms
    }

    /**
     * This side's address (NdkGetLocalAddress).
     *
     * @return the address and port
     * @throws VerbenaException CONNECTION_INVALID if there is none: before {@link #connect}, and
     *     after the connection ended
     */
    public InetSocketAddress localAddress() {
        return known(connection.local(), "local");
    }

    /**
     * The peer's address (NdkGetPeerAddress).
     *
     * @return the address and port
     * @throws VerbenaException CONNECTION_INVALID before {@link #connect}
     */
    public InetSocketAddress peerAddress() {
        return known(connection.peer(), "peer");
    }

    private InetSocketAddress known(@Nullable InetSocketAddress address, String which) {
        if (address == null) {
            throw new VerbenaException(
                    Status.CONNECTION_INVALID,
                    "The %s address is not known before the connect: %s".formatted(which, this));
        }
        return address;
    }

    // ---- waiting

    private void await(CompletableFuture<Void> step) {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    awaitOnce(step);
                    return;
                } catch (InterruptedException e) {
                    interrupted = true;
                    // Has no effect if the step has ended meanwhile, as if the interrupt came
                    // later.
                    connection.cancel(step, "Interrupted while waiting; the step was aborted");
                }
            }
        } catch (ExecutionException e) { // its cause is always a VerbenaException
            throw FailureMessages.again((VerbenaException) Objects.requireNonNull(e.getCause()));
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Waits for a step. The owner of a confined queue pair polls as long as requests are
     * outstanding: its disconnect may wait for them, or that of another queue pair on the same
     * completion queue, and no other thread may poll that.
     */
    private void awaitOnce(CompletableFuture<Void> step)
            throws InterruptedException, ExecutionException {
        ConnectionHandle confined = handle;
        if (confined != null && confined.confinedHere()) {
            while (!step.isDone() && confined.serve()) {
                try {
                    step.get(1, TimeUnit.MILLISECONDS);
                    return;
                } catch (TimeoutException e) {
                    // polls once more
                }
            }
        }
        step.get();
    }

    /**
     * Returns a future whose dependent stages run on callback threads. The internal future
     * completes on the event thread, which must not run them.
     */
    private CompletableFuture<Void> async(Supplier<CompletableFuture<Void>> step) {
        CompletableFuture<Void> forCaller = new CompletableFuture<>();
        CompletableFuture<Void> begun;
        try {
            begun = step.get();
        } catch (VerbenaException e) {
            forCaller.completeExceptionally(e);
            return forCaller;
        }
        var _ =
                begun.whenCompleteAsync(
                        (nothing, thrown) -> {
                            if (thrown == null) {
                                forCaller.complete(null);
                            } else {
                                forCaller.completeExceptionally(thrown);
                            }
                        },
                        Threads.CALLBACKS);
        var _ =
                forCaller.whenComplete(
                        (nothing, thrown) -> {
                            if (!begun.isDone()) { // the caller cancelled or completed it
                                connection.cancel(
                                        begun,
                                        "The future was cancelled or completed; the step was aborted");
                            }
                        });
        return forCaller;
    }

    // ---- close

    @Override
    void shut(Teardown end) {
        pend(); // the state machine destroys the identifier
        forClose(this, one -> one.connection.closing(one::release)).run();
    }

    @Override
    String describe() {
        return "Connector of %s: %s".formatted(adapter.name(), connection);
    }
}
