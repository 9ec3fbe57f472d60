package dev.verbena;

import dev.verbena.internal.connect.CloseReason;
import dev.verbena.internal.connect.ConnectionStateMachine;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.PeerParameters;
import dev.verbena.internal.connect.PrivateData;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.runtime.Uncaught;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;

/**
 * One connection between a {@link QueuePair} here and one at the peer: NDK's connector, an {@code
 * rdma_cm_id} of librdmacm.
 *
 * <p>The connecting side calls {@link #connect}, which ends when the peer has accepted. {@link
 * #connectionData} then has the peer's private data, and {@link #completeConnect} establishes the
 * connection, or {@link #reject} refuses it after all. The accepting side gets its connector from a
 * {@link Listener}: it reads {@link #connectionData}, then calls {@link #accept}, which ends when
 * the peer has completed, or {@link #reject}. {@link #disconnect} ends the connection from either
 * side.
 *
 * <p><b>Waiting.</b> Each step that waits for the peer exists twice: as a plain call, which suits
 * virtual threads (it holds no carrier thread while it waits), and as a future, with {@code Async}
 * behind its name. Each has a {@link ConnectionOptions#withDeadline deadline}. Futures end with the
 * {@link VerbenaException} that the plain call would throw. Cancelling or completing a future gives
 * the step up, unless it has ended already: the next step shows in which state the connection is
 * then, or close it.
 *
 * <p><b>Threads.</b> May be used from any thread, one step at a time. Callbacks, and stages that
 * depend on futures, run on threads of their own, never under a lock of this library's. They may
 * wait, and close any object.
 *
 * <p><b>Lifetime.</b> A connector whose attempt failed may connect again, and so may the queue pair
 * if the peer had not accepted. {@link #close} refuses a request that was not accepted. It cuts a
 * connection: its queue pair is flushed when it returns, and the native objects stay until the peer
 * has confirmed, for at most 10 s.
 */
public final class Connector extends NativeObject {
    private final Adapter adapter;
    private final ConnectionStateMachine connection;
    private volatile @Nullable Failure expired; // why this request cannot be answered any more

    /** Makes one that may connect. */
    Connector(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        try {
            this.connection =
                    new ConnectionStateMachine(adapter.connectionEvents(), adapter.name());
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /** Makes one of a peer's request. */
    Connector(Adapter adapter, Listener listener, ConnectionStateMachine connection) {
        super(adapter, listener);
        this.adapter = adapter;
        this.connection = connection;
        connection.onExpired(this::expire);
    }

    // ---- the connecting side

    /**
     * Asks a peer for a connection (NdkConnect), and waits for its answer.
     *
     * @param queuePair this side's end, not connected before
     * @param peer where the peer listens
     * @param options deadline, private data, local address
     * @throws VerbenaException CONNECTION_REFUSED when no program listens or the peer's refuses,
     *     whose private data {@link #connectionData} has then; NETWORK_UNREACHABLE,
     *     HOST_UNREACHABLE; IO_TIMEOUT when it does not answer in time; INVALID_ADDRESS for an
     *     address that RDMA cannot reach from this adapter; CONNECTION_ACTIVE when connector or
     *     queue pair are connected; INVALID_BUFFER_SIZE for too much private data; CANCELLED when
     *     interrupted or closed; DEVICE_REMOVED
     */
    public void connect(QueuePair queuePair, InetSocketAddress peer, ConnectionOptions options) {
        await(begin(queuePair, peer, null, options));
    }

    /**
     * Asks a peer for a connection with {@link ConnectionOptions#DEFAULTS}, and waits for its
     * answer.
     *
     * @param queuePair this side's end, not connected before
     * @param peer where the peer listens
     * @throws VerbenaException as {@link #connect(QueuePair, InetSocketAddress, ConnectionOptions)}
     */
    public void connect(QueuePair queuePair, InetSocketAddress peer) {
        connect(queuePair, peer, ConnectionOptions.DEFAULTS);
    }

    /**
     * Asks a peer for a connection (NdkConnect).
     *
     * @param queuePair this side's end, not connected before
     * @param peer where the peer listens
     * @param options deadline, private data, local address
     * @return ends with the peer's answer, as {@link #connect(QueuePair, InetSocketAddress,
     *     ConnectionOptions)}
     */
    public CompletableFuture<Void> connectAsync(
            QueuePair queuePair, InetSocketAddress peer, ConnectionOptions options) {
        return async(() -> begin(queuePair, peer, null, options));
    }

    /**
     * Asks a peer for a connection from an address that several connectors share
     * (NdkConnectWithSharedEndpoint), and waits for its answer.
     *
     * @param queuePair this side's end, not connected before
     * @param endpoint the local address; its own close pends on this connector
     * @param peer where the peer listens
     * @param options deadline and private data
     * @throws VerbenaException as {@link #connect(QueuePair, InetSocketAddress,
     *     ConnectionOptions)}, and ADDRESS_ALREADY_EXISTS when a connection between these two
     *     addresses exists
     */
    public void connectWithSharedEndpoint(
            QueuePair queuePair,
            SharedEndpoint endpoint,
            InetSocketAddress peer,
            ConnectionOptions options) {
        await(begin(queuePair, peer, Objects.requireNonNull(endpoint, "endpoint"), options));
    }

    /**
     * Asks a peer for a connection from an address that several connectors share
     * (NdkConnectWithSharedEndpoint).
     *
     * @param queuePair this side's end, not connected before
     * @param endpoint the local address; its own close pends on this connector
     * @param peer where the peer listens
     * @param options deadline and private data
     * @return ends with the peer's answer, as {@link #connectWithSharedEndpoint}
     */
    public CompletableFuture<Void> connectWithSharedEndpointAsync(
            QueuePair queuePair,
            SharedEndpoint endpoint,
            InetSocketAddress peer,
            ConnectionOptions options) {
        Objects.requireNonNull(endpoint, "endpoint");
        return async(() -> begin(queuePair, peer, endpoint, options));
    }

    private CompletableFuture<Void> begin(
            QueuePair queuePair,
            InetSocketAddress peer,
            @Nullable SharedEndpoint endpoint,
            ConnectionOptions options) {
        hold(); // asks the device for its addresses
        try {
            return beginHeld(queuePair, peer, endpoint, options);
        } finally {
            letGo();
        }
    }

    private CompletableFuture<Void> beginHeld(
            QueuePair queuePair,
            InetSocketAddress peer,
            @Nullable SharedEndpoint endpoint,
            ConnectionOptions options) {
        Addresses.check(adapter, peer, "connect to");
        InetSocketAddress local = endpoint == null ? options.local() : endpoint.localAddress();
        List<@Nullable InetSocketAddress> sources = Addresses.sources(adapter, local, peer);
        SharedEndpoint.Use use = endpoint == null ? SharedEndpoint.NO_USE : endpoint.use(peer);
        QueuePair.End end;
        try {
            end = queuePair.claim(adapter, options, use);
        } catch (Throwable t) {
            use.end();
            throw t;
        }
        end.towards(peer);
        try {
            return connection.connect(
                    end,
                    sources,
                    endpoint != null,
                    peer,
                    new PrivateData(options.privateData(), options.announced()),
                    options.deadline());
        } catch (Failure f) {
            end.release(true);
            throw VerbenaException.of(f);
        } catch (Throwable t) {
            end.release(true);
            throw t;
        }
    }

    /**
     * Establishes the connection that the peer has accepted (NdkCompleteConnect). Does not wait for
     * the network; requests may be posted when it returns. The peer's accept ends no earlier than
     * this.
     *
     * @param options only {@link ConnectionOptions#assumingInvalidatablePeer} is used
     * @throws VerbenaException CONNECTION_ABORTED when the peer gave up meanwhile or the device
     *     refuses; CONNECTION_INVALID when no peer has accepted
     */
    public void completeConnect(ConnectionOptions options) {
        ensureOpen();
        try {
            connection.complete(options.assumeInvalidatable());
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    /**
     * Establishes the connection that the peer has accepted.
     *
     * @throws VerbenaException as {@link #completeConnect(ConnectionOptions)}
     */
    public void completeConnect() {
        completeConnect(ConnectionOptions.DEFAULTS);
    }

    // ---- the other side

    /**
     * Accepts a peer's request (NdkAccept), and waits until the peer has completed the connection.
     *
     * @param queuePair this side's end, not connected before; receives that the peer's first
     *     messages need are best posted before
     * @param options deadline and private data
     * @throws VerbenaException CONNECTION_ABORTED when the peer gave up or refused after all, or
     *     was refused because this call comes too late (see {@link Listener}); IO_TIMEOUT when it
     *     does not complete in time; CONNECTION_ACTIVE when connector or queue pair are connected;
     *     CONNECTION_INVALID when this is no request; INVALID_BUFFER_SIZE for too much private
     *     data; CANCELLED when interrupted or closed; DEVICE_REMOVED
     */
    public void accept(QueuePair queuePair, ConnectionOptions options) {
        await(beginAccept(queuePair, options));
    }

    /**
     * Accepts a peer's request with {@link ConnectionOptions#DEFAULTS}, and waits until the peer
     * has completed the connection.
     *
     * @param queuePair this side's end, not connected before
     * @throws VerbenaException as {@link #accept(QueuePair, ConnectionOptions)}
     */
    public void accept(QueuePair queuePair) {
        accept(queuePair, ConnectionOptions.DEFAULTS);
    }

    /**
     * Accepts a peer's request (NdkAccept).
     *
     * @param queuePair this side's end, not connected before
     * @param options deadline and private data
     * @return ends when the peer has completed the connection, as {@link #accept(QueuePair,
     *     ConnectionOptions)}
     */
    public CompletableFuture<Void> acceptAsync(QueuePair queuePair, ConnectionOptions options) {
        return async(() -> beginAccept(queuePair, options));
    }

    private CompletableFuture<Void> beginAccept(QueuePair queuePair, ConnectionOptions options) {
        ensureAnswerable();
        QueuePair.End end = queuePair.claim(adapter, options, SharedEndpoint.NO_USE);
        end.towards(connection.peer());
        try {
            return connection.accept(
                    end,
                    new PrivateData(options.privateData(), options.announced()),
                    options.assumeInvalidatable(),
                    options.deadline());
        } catch (Failure f) {
            end.release(true); // does nothing if it was released already
            throw VerbenaException.of(f);
        } catch (Throwable t) {
            end.release(true);
            throw t;
        }
    }

    /**
     * The request was not answered, and the peer was refused. Closes this connector, so that it
     * holds neither adapter nor listener; later answers throw the reason.
     */
    private void expire(Failure why) {
        expired = why; // first: a thread that finds this closed reads it
        try {
            close();
        } finally {
            Uncaught.report(VerbenaException.of(why));
        }
    }

    boolean expired() {
        return expired != null;
    }

    private void ensureAnswerable() {
        try {
            ensureOpen();
        } catch (IllegalStateException e) {
            Failure why = expired;
            if (why != null) {
                throw VerbenaException.of(why);
            }
            throw e;
        }
    }

    // ---- either side

    /**
     * Refuses a peer's request, or a peer that has accepted (NdkReject).
     *
     * @param privateData for the peer; may be empty
     * @throws VerbenaException CONNECTION_INVALID when there is nothing to refuse,
     *     CONNECTION_ABORTED when the peer gave up or was refused before, INVALID_BUFFER_SIZE for
     *     too much private data
     */
    public void reject(byte[] privateData) {
        ensureAnswerable();
        try {
            connection.reject(new PrivateData(privateData.clone(), true));
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    /**
     * Ends the connection (NdkDisconnect), and waits until the peer has confirmed. Posts are
     * refused at once. Outstanding requests may still end, for half of the deadline; then the rest,
     * receives too, is cancelled as by {@link QueuePair#flush}. Does nothing when it was
     * disconnected already.
     *
     * @param options only the deadline is used
     * @throws VerbenaException IO_TIMEOUT when the peer does not confirm in time: the connection is
     *     over here all the same; CONNECTION_INVALID when there never was one
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
     * @return ends when the peer has confirmed, as {@link #disconnect(ConnectionOptions)}
     */
    public CompletableFuture<Void> disconnectAsync(ConnectionOptions options) {
        return async(() -> beginDisconnect(options));
    }

    private CompletableFuture<Void> beginDisconnect(ConnectionOptions options) {
        ensureOpen();
        try {
            return connection.disconnect(options.deadline());
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    /**
     * Sets a callback for the end of the connection (NDK_FN_DISCONNECT_EVENT_CALLBACK). It is
     * called exactly once, whichever side ended it; at once when the connection has ended already;
     * never when none was established.
     *
     * <p>When the peer ended it, nothing outstanding is cancelled: receives stay until {@link
     * #disconnect}, {@link QueuePair#flush} or a close; requests fail, as the peer is gone.
     *
     * @param callback gets SUCCESS when this side disconnected or closed, CONNECTION_INVALID when
     *     the peer did or its process ended, CONNECTION_ABORTED when a request failed (as with
     *     IO_TIMEOUT, when the peer's host is gone) and its completion was polled, DEVICE_REMOVED,
     *     or INTERNAL_ERROR when the adapter's event thread ended. May wait, and close any object
     */
    public void onDisconnect(Consumer<Status> callback) {
        Objects.requireNonNull(callback, "callback");
        var _ =
                connection
                        .closeReason()
                        .thenAcceptAsync(
                                reason -> Uncaught.run(() -> callback.accept(status(reason))),
                                Threads.CALLBACKS);
    }

    private static Status status(CloseReason reason) {
        return switch (reason) {
            case LOCAL -> Status.SUCCESS;
            case PEER -> Status.CONNECTION_INVALID;
            case REQUEST_FAILED -> Status.CONNECTION_ABORTED;
            case DEVICE_REMOVED -> Status.DEVICE_REMOVED;
            case EVENT_THREAD_ENDED -> Status.INTERNAL_ERROR;
        };
    }

    /**
     * The peer's private data and parameters (NdkGetConnectionData), from its request, its reply or
     * its rejection, whichever came last.
     *
     * @return a copy; empty before any of them came
     * @throws VerbenaException CONNECTION_ABORTED for a request that was not answered in time
     * @throws IllegalStateException when closed
     */
    public ConnectionData connectionData() {
        ensureAnswerable();
        hold(); // may ask the device for its limits
        try {
            AdapterInfo info = adapter.queryInfo();
            PeerParameters peer = connection.peerParameters();
            return new ConnectionData(
                    peer.data(),
                    peer.exact(),
                    peer.invalidatable(),
                    Math.min(peer.outboundReads(), info.maxInboundReads()),
                    Math.min(peer.inboundReads(), info.maxOutboundReads()));
        } finally {
            letGo();
        }
    }

    /**
     * This side's address (NdkGetLocalAddress).
     *
     * @return with its port
     * @throws VerbenaException CONNECTION_INVALID while there is none: before {@link #connect}, and
     *     after the connection has ended
     */
    public InetSocketAddress localAddress() {
        return known(connection.local(), "local");
    }

    /**
     * The peer's address (NdkGetPeerAddress).
     *
     * @return with its port
     * @throws VerbenaException CONNECTION_INVALID before {@link #connect}
     */
    public InetSocketAddress peerAddress() {
        return known(connection.peer(), "peer");
    }

    private InetSocketAddress known(@Nullable InetSocketAddress address, String which) {
        if (address == null) {
            throw new VerbenaException(
                    Status.CONNECTION_INVALID, "There is no %s address: %s".formatted(which, this));
        }
        return address;
    }

    // ---- waiting

    /** Begins a step. */
    private interface Step {
        CompletableFuture<Void> begin();
    }

    private void await(CompletableFuture<Void> step) {
        boolean interrupted = false;
        while (true) {
            try {
                step.get();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
                // If it has ended meanwhile, this does nothing: as if the interrupt came after.
                connection.cancel(step, "Interrupted while waiting; the step was given up");
            } catch (ExecutionException e) {
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
                throw failure(e.getCause());
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * The internal future ends on the event thread; stages that depend on the caller's must not.
     */
    private CompletableFuture<Void> async(Step step) {
        CompletableFuture<Void> forCaller = new CompletableFuture<>();
        CompletableFuture<Void> begun;
        try {
            begun = step.begin();
        } catch (VerbenaException e) {
            forCaller.completeExceptionally(e);
            return forCaller;
        }
        var _ =
                begun.whenCompleteAsync(
                        (nothing, thrown) -> {
                            if (thrown == null) {
                                forCaller.complete(null);
                                return;
                            }
                            try {
                                forCaller.completeExceptionally(failure(thrown));
                            } catch (Throwable t) { // of memory, for example: it has to end all the
                                // same
                                forCaller.completeExceptionally(t);
                            }
                        },
                        Threads.CALLBACKS);
        var _ =
                forCaller.whenComplete(
                        (nothing, thrown) -> {
                            if (!begun.isDone()) { // the caller cancelled or completed it
                                connection.cancel(
                                        begun, "The future was ended; the step was given up");
                            }
                        });
        return forCaller;
    }

    private static VerbenaException failure(@Nullable Throwable thrown) {
        if (thrown instanceof Failure f) {
            return VerbenaException.of(f);
        }
        throw new AssertionError("steps end with a Failure", thrown);
    }

    // ---- its end

    @Override
    void shut() {
        pend();
        connection.close(this::letGo);
    }

    @Override
    void destroy() {} // the state machine has destroyed the identifier

    @Override
    String describe() {
        return "Connector of %s: %s".formatted(adapter.name(), connection);
    }
}
