package dev.verbena;

import dev.verbena.internal.connect.ConnectionEvents;
import dev.verbena.internal.connect.Dialogue;
import dev.verbena.internal.connect.Failure;
import dev.verbena.internal.connect.Uncaught;

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
 * <p>The connecting side: {@link #connect}, which ends when the peer has accepted; then {@link
 * #connectionData} has what the peer said, and {@link #completeConnect} establishes the connection,
 * or {@link #reject} refuses it after all. The other side gets its connector from a {@link
 * Listener}: {@link #connectionData}, then {@link #accept}, which ends when the peer has completed,
 * or {@link #reject}. {@link #disconnect} ends it from either side.
 *
 * <p>Each step that waits exists twice: as a plain call, fit for virtual threads (waiting holds no
 * carrier thread), and with {@code Async} behind its name as a future. Each has a {@link
 * ConnectionOptions#withDeadline deadline}. Futures end in a {@link VerbenaException} where the
 * plain calls throw one. Whoever cancels a future, or ends it otherwise, gives the step up, if it
 * is not over already: what became of the connection then is to be seen by the next step, or to be
 * closed.
 *
 * <p><b>Threads.</b> May be used from any thread, one step at a time. Callbacks, and what hangs on
 * futures, run on threads of their own, never under a lock of this library's; they may wait, and
 * close what they like.
 *
 * <p><b>Lifetime.</b> A connector whose attempt failed may connect again, and the queue pair too,
 * if the peer had not accepted. {@link #close} refuses what was not accepted, and cuts a
 * connection: its queue pair is flushed when it returns. The peer is told meanwhile, for which the
 * native objects stay until it answers, 10 s at most.
 */
public final class Connector extends NativeObject {
    private final Adapter adapter;
    private final Dialogue dialogue;
    private volatile Failure expired; // why nobody can answer this request any more; or null

    /** One that may connect. */
    Connector(Adapter adapter) {
        super(adapter);
        this.adapter = adapter;
        try {
            this.dialogue = new Dialogue(connections(adapter), adapter.name());
        } catch (Throwable t) {
            abandon();
            throw t;
        }
    }

    /** One of a peer's request. */
    Connector(Adapter adapter, Listener listener, Dialogue dialogue) {
        super(adapter, listener);
        this.adapter = adapter;
        this.dialogue = dialogue;
        dialogue.onAbandoned(this::expire);
    }

    private static ConnectionEvents connections(Adapter adapter) {
        try {
            return adapter.events().connections();
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    // ---- the connecting side

    /**
     * Asks a peer for a connection (NdkConnect), and waits for its answer.
     *
     * @param queuePair this side's end, not connected before
     * @param peer where the peer listens
     * @param options deadline, private data, local address
     * @throws VerbenaException CONNECTION_REFUSED when the peer refuses, nobody listens, with what
     *     the peer said in {@link #connectionData}; NETWORK_UNREACHABLE, HOST_UNREACHABLE;
     *     IO_TIMEOUT when it does not answer in time; INVALID_ADDRESS for what RDMA cannot reach
     *     from this adapter; CONNECTION_ACTIVE when connector or queue pair are connected;
     *     INVALID_BUFFER_SIZE for too much private data; CANCELLED when interrupted or closed;
     *     DEVICE_REMOVED
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
        return tell(() -> begin(queuePair, peer, null, options));
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
        return tell(() -> begin(queuePair, peer, endpoint, options));
    }

    private CompletableFuture<Void> begin(
            QueuePair queuePair,
            InetSocketAddress peer,
            SharedEndpoint endpoint,
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
            SharedEndpoint endpoint,
            ConnectionOptions options) {
        Addresses.check(adapter, peer, "connect to");
        InetSocketAddress local = endpoint == null ? options.local() : endpoint.localAddress();
        List<InetSocketAddress> sources = Addresses.sources(adapter, local, peer);
        SharedEndpoint.Use use = endpoint == null ? SharedEndpoint.NO_USE : endpoint.use(peer);
        QueuePair.End end;
        try {
            end = queuePair.claim(adapter, options, use);
        } catch (Throwable t) {
            use.end();
            throw t;
        }
        try {
            return dialogue.connect(
                    end,
                    sources,
                    endpoint != null,
                    peer,
                    new Dialogue.Words(options.privateData(), options.announced()),
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
     * @param options only {@link ConnectionOptions#assumingInvalidatablePeer} is looked at
     * @throws VerbenaException CONNECTION_ABORTED when the peer gave up meanwhile or the device
     *     refuses; CONNECTION_INVALID when no peer has accepted
     */
    public void completeConnect(ConnectionOptions options) {
        ensureOpen();
        try {
            dialogue.complete(options.assumeInvalidatable());
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
     *     was refused because this comes too late (see {@link Listener}); IO_TIMEOUT when it does
     *     not complete in time; CONNECTION_ACTIVE when connector or queue pair are connected;
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
        return tell(() -> beginAccept(queuePair, options));
    }

    private CompletableFuture<Void> beginAccept(QueuePair queuePair, ConnectionOptions options) {
        ensureAnswerable();
        QueuePair.End end = queuePair.claim(adapter, options, SharedEndpoint.NO_USE);
        try {
            return dialogue.accept(
                    end,
                    new Dialogue.Words(options.privateData(), options.announced()),
                    options.assumeInvalidatable(),
                    options.deadline());
        } catch (Failure f) {
            end.release(true); // does nothing where the dialogue let go of it already
            throw VerbenaException.of(f);
        } catch (Throwable t) {
            end.release(true);
            throw t;
        }
    }

    /**
     * Nobody has answered this request, and the peer was refused. It holds its adapter and its
     * listener no longer; who wants to answer it after all hears why that is too late.
     */
    private void expire(Failure why) {
        expired = why; // first: who finds this closed sees it
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
     * @param privateData what the peer is told; may be empty
     * @throws VerbenaException CONNECTION_INVALID when there is nothing to refuse,
     *     CONNECTION_ABORTED when the peer gave up or was refused before, INVALID_BUFFER_SIZE for
     *     too much private data
     */
    public void reject(byte[] privateData) {
        ensureAnswerable();
        try {
            dialogue.reject(new Dialogue.Words(privateData.clone(), true));
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    /**
     * Ends the connection (NdkDisconnect), and waits until the peer knows. Posts are refused at
     * once; requests that are under way may end, for half of the time given; then what is left,
     * receives too, is cancelled as by {@link QueuePair#flush}. Does nothing when it was
     * disconnected already.
     *
     * @param options only the deadline is looked at
     * @throws VerbenaException IO_TIMEOUT when the peer does not confirm in time: the connection is
     *     over here all the same; CONNECTION_INVALID when there never was one
     */
    public void disconnect(ConnectionOptions options) {
        await(beginDisconnect(options));
    }

    /**
     * Ends the connection with {@link ConnectionOptions#DEFAULTS}, and waits until the peer knows.
     *
     * @throws VerbenaException as {@link #disconnect(ConnectionOptions)}
     */
    public void disconnect() {
        disconnect(ConnectionOptions.DEFAULTS);
    }

    /**
     * Ends the connection (NdkDisconnect).
     *
     * @param options only the deadline is looked at
     * @return ends when the peer knows, as {@link #disconnect(ConnectionOptions)}
     */
    public CompletableFuture<Void> disconnectAsync(ConnectionOptions options) {
        return tell(() -> beginDisconnect(options));
    }

    private CompletableFuture<Void> beginDisconnect(ConnectionOptions options) {
        ensureOpen();
        try {
            return dialogue.disconnect(options.deadline());
        } catch (Failure f) {
            throw VerbenaException.of(f);
        }
    }

    /**
     * Has something called when the connection is over (NDK_FN_DISCONNECT_EVENT_CALLBACK): exactly
     * once, whoever ended it, at once when it is over already, never when none was established.
     *
     * <p>When the peer ended it, nothing that is under way is cancelled: receives stay until {@link
     * #disconnect}, {@link QueuePair#flush} or a close; requests fail, as the peer is gone.
     *
     * @param callback gets SUCCESS when this side disconnected or closed, CONNECTION_INVALID when
     *     the peer did or its process ended, CONNECTION_ABORTED when a request failed (as with
     *     IO_TIMEOUT, when the peer's host is gone) and its completion was polled, DEVICE_REMOVED,
     *     or INTERNAL_ERROR when the adapter's event thread ended. May wait, and close what it
     *     likes
     */
    public void onDisconnect(Consumer<Status> callback) {
        Objects.requireNonNull(callback, "callback");
        var _ =
                dialogue.over()
                        .thenAcceptAsync(
                                over -> Threads.runCallback(() -> callback.accept(status(over))),
                                Threads.CALLBACKS);
    }

    private static Status status(Dialogue.Over over) {
        return switch (over) {
            case HERE -> Status.SUCCESS;
            case THERE -> Status.CONNECTION_INVALID;
            case BROKEN -> Status.CONNECTION_ABORTED;
            case DEVICE_REMOVED -> Status.DEVICE_REMOVED;
            case UNKNOWN -> Status.INTERNAL_ERROR;
        };
    }

    /**
     * What the peer said last (NdkGetConnectionData): with its request, its answer, or its refusal.
     *
     * @return a copy; empty before the peer said anything
     * @throws VerbenaException CONNECTION_ABORTED for a request that was not answered in time
     * @throws IllegalStateException when closed
     */
    public ConnectionData connectionData() {
        ensureAnswerable();
        hold(); // may ask the device for its limits
        try {
            AdapterInfo info = adapter.queryInfo();
            Dialogue.Heard heard = dialogue.heard();
            return new ConnectionData(
                    heard.data(),
                    heard.exact(),
                    heard.invalidatable(),
                    Math.min(heard.outboundReads(), info.maxInboundReads()),
                    Math.min(heard.inboundReads(), info.maxOutboundReads()));
        } finally {
            letGo();
        }
    }

    /**
     * This side's address (NdkGetLocalAddress).
     *
     * @return with its port
     * @throws VerbenaException CONNECTION_INVALID while there is none: before {@link #connect}, and
     *     when the connection is over
     */
    public InetSocketAddress localAddress() {
        return known(dialogue.local(), "local");
    }

    /**
     * The peer's address (NdkGetPeerAddress).
     *
     * @return with its port
     * @throws VerbenaException CONNECTION_INVALID before {@link #connect}
     */
    public InetSocketAddress peerAddress() {
        return known(dialogue.peer(), "peer");
    }

    private InetSocketAddress known(InetSocketAddress address, String which) {
        if (address == null) {
            throw new VerbenaException(
                    Status.CONNECTION_INVALID, "There is no %s address: %s".formatted(which, this));
        }
        return address;
    }

    // ---- waiting

    /** What begins a step. */
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
                // Then it ends, or has ended: as if the interrupt had come after.
                dialogue.cancel(step, "Interrupted while waiting; the step was given up");
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

    /** The internal future ends under the event thread; what callers hang on theirs must not. */
    private CompletableFuture<Void> tell(Step step) {
        CompletableFuture<Void> told = new CompletableFuture<>();
        CompletableFuture<Void> begun;
        try {
            begun = step.begin();
        } catch (VerbenaException e) {
            told.completeExceptionally(e);
            return told;
        }
        var _ =
                begun.whenCompleteAsync(
                        (nothing, thrown) -> {
                            if (thrown == null) {
                                told.complete(null);
                                return;
                            }
                            try {
                                told.completeExceptionally(failure(thrown));
                            } catch (Throwable t) { // of memory, say: it has to end all the same
                                told.completeExceptionally(t);
                            }
                        },
                        Threads.CALLBACKS);
        var _ =
                told.whenComplete(
                        (nothing, thrown) -> {
                            if (!begun.isDone()) { // ended by its holder: cancelled, timed out,
                                // completed
                                dialogue.cancel(
                                        begun, "The future was ended; the step was given up");
                            }
                        });
        return told;
    }

    private static VerbenaException failure(Throwable thrown) {
        if (thrown instanceof Failure f) {
            return VerbenaException.of(f);
        }
        throw new AssertionError("steps fail with failures", thrown);
    }

    // ---- its end

    @Override
    void shut() {
        pend();
        dialogue.close(this::letGo);
    }

    @Override
    void destroy() {} // the dialogue has destroyed the identifier

    @Override
    String describe() {
        return "Connector of %s: %s".formatted(adapter.name(), dialogue);
    }
}
