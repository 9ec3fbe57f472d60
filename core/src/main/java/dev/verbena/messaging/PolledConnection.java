package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.Completions;
import dev.verbena.ConnectionData;
import dev.verbena.ConnectionOptions;
import dev.verbena.Connector;
import dev.verbena.OperationType;
import dev.verbena.QueuePair;
import dev.verbena.QueuePairLimits;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Closing;
import dev.verbena.internal.util.Log;

import org.jspecify.annotations.Nullable;

import java.net.InetSocketAddress;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A connection on a {@link Poller}: a queue pair with posted receives, a ring of requests with
 * callbacks and deadlines, and one place that records why the connection ended. {@link
 * RawConnection} posts what its user wants on top of that; {@link MessageChannel} posts frames, by
 * credit.
 *
 * <p>Whatever goes wrong with one connection, the others of its poller continue. An Error in a
 * connection's part of the polling thread ends only that connection, at the next tick if there is
 * not enough memory to end it at once.
 *
 * @param <C> the type of the callback that is called when a request is complete
 */
abstract sealed class PolledConnection<C> implements AutoCloseable
        permits MessageChannel, RawConnection {
    private static final long MOST_RETURN_SECONDS = 1;

    /**
     * Added to the poller's tasks at the end. Created in advance, because that step must not fail.
     */
    private final Tasks.Task tearDown = new Tasks.Task(this::tearDown, true);

    final Poller poller;
    final ConnectionLock lock;
    final EndReason reason;
    final RequestRing<C> requests;
    final RawReceives receives;
    // Not public: a program could attach an object of its own to the queue pair, or close its
    // completion queue, and so harm every connection of the poller.
    final QueuePair pair;
    final PollerQueue queue;
    private final int completions; // of the queue, that are reserved for this connection
    private final CompletableFuture<Status> closed = new CompletableFuture<>();
    Runnable whenClosed = () -> {}; // of the polling thread: less than what depends on a future
    private volatile @Nullable Connector connector;
    volatile @Nullable ConnectionData connectionData; // of the peer, where it is asked for later

    private volatile @Nullable Throwable trouble; // the reason why it has to end, if any

    // Of the polling thread.
    private boolean connectionClosed;
    private boolean pairClosed;
    private boolean partsEnded; // what the subclass adds
    private boolean tornDown;
    private @Nullable CompletableFuture<Void> returned; // the shared receives, by the device

    /**
     * Creates the queue pair and posts its receives. The subclass then calls {@link #start} or
     * {@link #discard}.
     *
     * @param limits of the queue pair
     * @param shared where its receives come from; null for receives of its own
     * @param receiveBytes the length of each receive
     * @param completions how many its send queue needs of a completion queue
     * @param requests those that may be outstanding
     */
    PolledConnection(
            Poller poller,
            QueuePairLimits limits,
            @Nullable RawReceives shared,
            int receiveBytes,
            int completions,
            RequestRing<C> requests) {
        this.poller = poller;
        this.lock = ConnectionLock.of(poller);
        this.reason =
                new EndReason(this instanceof MessageChannel) {
                    @Override
                    String describe() {
                        return PolledConnection.this.describe();
                    }

                    @Override
                    boolean failedByPeer() {
                        return pair.failedByPeer();
                    }

                    @Override
                    void tearDown() {
                        tearDownAgain();
                    }
                };
        this.requests = requests;
        this.completions = completions + (shared == null ? limits.receiveDepth() : 0);
        this.queue = poller.reserve(this.completions);
        RawReceives own = null;
        try {
            RawReceives used = shared;
            if (used == null) {
                own =
                        RawReceives.of(
                                poller,
                                queue,
                                limits.receiveDepth(),
                                receiveBytes,
                                this instanceof MessageChannel);
                used = own;
            }
            this.receives = used;
            this.pair = used.createPair(queue, limits);
        } catch (Throwable t) {
            if (own != null) {
                own.close();
            }
            poller.release(queue, this.completions);
            throw t;
        }
    }

    /** The last step of a constructor: from now on the poller calls it. */
    final void start() {
        pair.attach(this);
        poller.connections().add(this);
        if (queue.broken() || receives.queue().broken()) { // before the poller knew of this one
            fail(Status.INTERNAL_ERROR, "its completion queue is broken", null);
        }
    }

    /** Undoes this constructor when a later step of it throws. */
    final void discard() {
        pair.close();
        receives.release();
        poller.release(queue, completions);
    }

    // ---- what the two kinds add

    /** A message has arrived. Called by the polling thread. */
    abstract void received(RawMessage message);

    /** The request of a slot has succeeded, and its callback was taken. Called under the lock. */
    abstract void requestEnded(int slot);

    abstract void call(C callback, @Nullable Object attachment, Status status);

    /** Whether a callback is not the program's: it completes a future, and throws nothing else. */
    boolean completesFuture(@Nullable C callback) {
        return false;
    }

    /** A sentence that describes what is late, or null if nothing is. Called under the lock. */
    abstract @Nullable String late(int now);

    /** Whether there may be something late soon. By the polling thread, for a confined one. */
    abstract boolean awaits();

    /**
     * Notifies the user of the end, and frees the rest. Called by the polling thread after all
     * callbacks, and again at the next tick if it throws.
     *
     * @return false if that has to wait for something, which then runs {@link #tearDownAgain}
     */
    abstract boolean ended(MessagingException why);

    abstract String describe();

    // ---- connecting

    /**
     * Connects, and waits until requests may be posted. If that fails, the connection ends.
     *
     * @param check gets what the peer has accepted with, before anything can be posted
     */
    final void connectAndWait(
            InetSocketAddress peer,
            ConnectionOptions options,
            Consumer<? super ConnectionData> check) {
        poller.checkMayWait();
        Connector by = null;
        try {
            by = poller.adapter().createConnector();
            open(by);
            by.connect(pair, peer, options);
            ConnectionData accepted = by.connectionData();
            check.accept(accepted);
            by.completeConnect(options);
        } catch (IllegalStateException e) {
            RuntimeException why = reasonBehind(e);
            notConnected(by, why);
            throw why;
        } catch (Throwable t) {
            notConnected(by, t);
            throw t;
        }
    }

    /** What a closed object is the consequence of: the end of the connection, if it has ended. */
    final RuntimeException reasonBehind(IllegalStateException thrown) {
        MessagingException why = reason.get();
        return why == null ? thrown : why.again();
    }

    /**
     * The attempt to connect has failed. Keeps the data of a peer that refused, and ends the
     * connection.
     */
    final void notConnected(@Nullable Connector by, Throwable thrown) {
        if (by != null && status(thrown) == Status.CONNECTION_REFUSED) {
            keepData(by);
        }
        fail(status(thrown), "it could not be connected", thrown);
    }

    private void keepData(Connector by) {
        try {
            connectionData = by.connectionData();
        } catch (IllegalStateException e) {
            return; // closed meanwhile, by an abort
        }
    }

    /**
     * From now on it ends when its connector is disconnected, and closes it when it ends. To be
     * called before the connection is established, as messages may arrive from then on.
     */
    final void open(Connector by) {
        connector = by;
        by.onDisconnect(this::disconnected);
        if (!reason.isOpen()) {
            by.close(); // it has ended meanwhile
        }
    }

    private static Status status(Throwable thrown) {
        return thrown instanceof VerbenaException e ? e.status() : Status.INTERNAL_ERROR;
    }

    /**
     * Its connector, for its addresses and for {@link Connector#awaitClosed}. The connection closes
     * it.
     *
     * @return empty before it connects or is accepted
     */
    @CheckReturnValue
    public final Optional<Connector> connector() {
        return Optional.ofNullable(connector);
    }

    // ---- by the polling thread

    final boolean reportsTo(PollerQueue other) {
        return queue == other || receives.queue() == other;
    }

    /** A completion of its queue pair's, whatever that throws. */
    final void dispatch(Completions from, int index) {
        try {
            completed(from, index);
        } catch (Throwable t) {
            endFor(t);
        }
    }

    private void completed(Completions from, int index) {
        Status status = from.status(index);
        OperationType type = from.type(index);
        int slot = (int) from.context(index);
        boolean taken = reason.takesCompletions(); // otherwise the end calls the callback
        switch (type) {
            case RECEIVE, RECEIVE_AND_INVALIDATE, RECEIVE_OF_WRITE -> {
                if (taken && status.isSuccess()) {
                    RawMessage message = receives.message(slot);
                    message.arrived(type, from, index);
                    received(message);
                } else {
                    receives.giveBack(slot);
                }
                if (index == PollerQueue.BATCH - 1) {
                    receives.busy(); // last: there may be no memory for it
                }
            }
            default -> {
                if (taken && status.isSuccess()) { // unsignaled requests complete only on failure
                    requestEndedIn(slot);
                    return;
                }
            }
        }
        if (!status.isSuccess()) {
            reason.requestFailed(from, index);
        }
    }

    private void requestEndedIn(int slot) {
        C callback = null;
        Object attachment = null;
        try {
            try (var _ = lock.hold()) {
                callback = requests.callback(slot);
                attachment = requests.attachment(slot);
                requests.ended(slot);
                requestEnded(slot);
            }
        } finally { // also if what waited for the slot could not be posted for lack of memory
            callSafely(callback, attachment, Status.SUCCESS);
        }
    }

    final void callSafely(@Nullable C callback, @Nullable Object attachment, Status status) {
        try {
            if (callback != null) {
                call(callback, attachment, status);
            }
        } catch (Throwable t) {
            failedInProgram("a callback", t);
        }
    }

    /** Looks at deadlines, whatever that throws; and ends it if that had to wait. */
    final void tickSafely(int now) {
        try {
            if (trouble == null) {
                tick(now);
            } else {
                endFor(trouble);
            }
        } catch (Throwable t) {
            endFor(t);
        }
    }

    private void tick(int now) {
        String late = null;
        try (var held = lock.tryHold()) { // a thread that copies a GiB does not stop the poller
            if (held != null && reason.isOpen()) {
                late = late(now);
            }
        }
        if (late != null) {
            fail(Status.IO_TIMEOUT, late, null);
        }
    }

    final void endFor(Throwable t) {
        trouble = t;
        try {
            fail(Status.INTERNAL_ERROR, "an event of it could not be handled", t);
            trouble = null;
        } catch (Throwable again) {
            // The next tick tries again.
        }
    }

    /** The program's code threw, which ends the connection and is logged. */
    final void failedInProgram(String code, Throwable t) {
        fail(Status.INTERNAL_ERROR, code + " threw", t);
        Log.error("%s: %s threw, which ends it".formatted(this, code), t);
    }

    // ---- the end

    /** Ends it, if it has not ended before. From any thread; does not wait. */
    final void fail(Status status, String why, @Nullable Throwable cause) {
        reason.failed(status, why, cause);
    }

    final void disconnected(Status status) {
        Connector by = connector;
        reason.disconnected(status, by == null ? "" : by.disconnectReason());
    }

    /** Whether it is open, and not being closed. */
    final boolean takesRequests() {
        return reason.isOpen() && !reason.isClosing();
    }

    /** What a call throws that came too late: the reason, or what it was refused with. */
    final MessagingException exception(Status refused) {
        MessagingException why = reason.get();
        return why != null
                ? why.again()
                : new MessagingException(
                        refused,
                        reason.isClosing()
                                ? this + " takes no more requests: this side is closing it"
                                : "%s refused a request: %s".formatted(this, refused));
    }

    /**
     * Begins to close it: disconnects the peer, which waits for what is outstanding, then ends the
     * connection: at once if the connector is closed, by the program or by an end for another
     * reason, which was noted before.
     */
    final void beginClose(ConnectionOptions options) {
        reason.closing();
        Connector by = reason.isOpen() ? connector : null;
        if (by == null) {
            reason.closedHere();
            return;
        }
        CompletableFuture<Void> ended;
        try {
            ended = by.disconnectAsync(options);
        } catch (IllegalStateException connectorClosed) {
            reason.closedHere();
            return;
        }
        var _ = ended.whenComplete((nothing, thrown) -> reason.closedHere());
    }

    /**
     * By the polling thread, after the end: delivers what had come before it and, once the device
     * has let go of all memory, calls all callbacks. What it could not do, for lack of memory, it
     * does when it is called again, at the next tick.
     */
    private void tearDown() {
        if (tornDown) {
            return;
        }
        if (!connectionClosed) {
            drain();
            connectionClosed = true; // an object that fails to close is not closed again
            Closing.quietly(this, connector);
        }
        if (!pairClosed) {
            if (!poller.isClosing() && !receivesAreBack()) {
                return;
            }
            pairClosed = true;
            Closing.quietly(this, pair);
        }
        MessagingException why = Objects.requireNonNull(reason.get());
        while (cancelOldest(why.status())) {
            continue;
        }
        partsEnded = partsEnded || ended(why);
        if (partsEnded) {
            poller.connections().remove(this);
            tornDown = true; // last: what follows needs no memory
            poller.release(queue, completions);
            closed.complete(why.status());
            whenClosed.run();
        }
    }

    /** Begins or continues the tear-down: by the polling thread, soon. From any thread. */
    final void tearDownAgain() {
        poller.execute(tearDown);
    }

    /** Delivers what had come, and reports what had been acknowledged, before the end. */
    private void drain() {
        try {
            if (reason.isDraining()) {
                poller.drain(receives.queue());
                if (receives.queue() != queue) {
                    poller.drain(queue);
                }
            }
        } finally {
            reason.drained();
        }
    }

    /**
     * Whether the device has returned the shared receives that the queue pair took. That may take a
     * moment, and the other connections of the poller must not wait for it.
     *
     * @return false if it has not: {@link #tearDown} follows when it has, or after a second
     */
    private boolean receivesAreBack() {
        if (!receives.isShared()) {
            return true;
        }
        CompletableFuture<Void> future = returned;
        if (future == null) {
            try {
                pair.flush();
            } catch (VerbenaException e) {
                return true; // the close says what is wrong
            }
            future =
                    pair.sharedReceivesReturned()
                            .completeOnTimeout(null, MOST_RETURN_SECONDS, TimeUnit.SECONDS);
            if (!future.isDone()) {
                var _ = future.whenComplete((nothing, thrown) -> tearDownAgain());
            }
            returned = future; // last: what it needs memory for was done
        }
        return future.isDone();
    }

    /**
     * The oldest outstanding request gets the reason. A future has it before its request is
     * forgotten: there may be no memory to complete it.
     *
     * @return false when there is none
     */
    private boolean cancelOldest(Status status) {
        C callback;
        Object attachment;
        int slot;
        boolean completesFuture;
        try (var _ = lock.hold()) { // a post may have succeeded that is not noted yet
            slot = requests.oldest();
            if (slot < 0) {
                return false;
            }
            callback = requests.callback(slot);
            attachment = requests.attachment(slot);
            completesFuture = completesFuture(callback);
            if (!completesFuture) {
                requests.ended(slot);
            }
        }
        cancel(callback, attachment, status);
        if (completesFuture) {
            try (var _ = lock.hold()) {
                requests.ended(slot);
            }
        }
        return true;
    }

    /** Calls a callback at the end. Throws only if it completes a future and has no memory. */
    final void cancel(@Nullable C callback, @Nullable Object attachment, Status status) {
        if (callback != null && completesFuture(callback)) {
            call(callback, attachment, status);
        } else {
            callSafely(callback, attachment, status);
        }
    }

    /**
     * Ends the connection at once, and cancels outstanding requests. From any thread, also in
     * handlers and callbacks. The peer of a {@link MessageChannel} does not take this for a close:
     * its channel fails with CONNECTION_ABORTED.
     *
     * @param why becomes part of the {@link #closeReason}
     */
    public final void abort(String why) {
        fail(Status.CANCELLED, why, null);
    }

    @Override
    public abstract void close();

    /** Whether it has ended, and nothing of it is left. */
    final boolean isClosed() {
        return closed.isDone();
    }

    /**
     * Whether requests may be posted.
     *
     * @return false once it ended, for whatever reason
     */
    @CheckReturnValue
    public final boolean isOpen() {
        return reason.isOpen();
    }

    /**
     * Why it ended. Until {@link #closed()} is done, a failed request that is polled late may take
     * the place of what followed from it.
     *
     * @return null while it is open
     */
    @CheckReturnValue
    public final @Nullable MessagingException closeReason() {
        return reason.get();
    }

    /**
     * A future that is done when it has ended, all its callbacks were called, and what it used is
     * freed, except for messages that were not released.
     *
     * @return its value is the reason, as in {@link #closeReason}; it is completed by the polling
     *     thread
     */
    @CheckReturnValue
    public final CompletableFuture<Status> closed() {
        return closed.copy();
    }

    @Override
    public final String toString() {
        return reason.isOpen() ? describe() : describe() + ", closed";
    }
}
