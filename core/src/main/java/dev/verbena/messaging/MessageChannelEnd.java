package dev.verbena.messaging;

import dev.verbena.Completions;
import dev.verbena.Connector;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The end of a {@link MessageChannel}: its reason, which is set once, and what has to be done then:
 * all callbacks, futures and waiting threads get the reason, and everything is freed.
 */
final class MessageChannelEnd {
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(30);

    private final MessageChannel channel;
    private final CompletableFuture<Status> closed = new CompletableFuture<>();

    private final EndReason reason;

    // Guarded by the lock of the channel.
    private @Nullable Connector connector;
    private boolean freed;

    private boolean connectionClosed; // of the polling thread

    MessageChannelEnd(MessageChannel channel) {
        this.channel = channel;
        this.reason =
                new EndReason(
                        channel.lock,
                        channel::describe,
                        () -> channel.pair.failedByPeer(),
                        () -> channel.poller.execute(channel.tearDown));
    }

    /** The connection, which ends with the channel. The caller holds the lock. */
    void connection(@Nullable Connector by) {
        connector = by;
    }

    /** The connection has ended. */
    void disconnected(Status status) {
        reason.disconnected(status);
    }

    /** A request has failed. */
    void requestFailed(Completions from, int index) {
        reason.requestFailed(from, index);
    }

    /** Ends the channel, if it has not ended before. From any thread; does not wait. */
    void fail(Status status, String why, @Nullable Throwable cause) {
        reason.failed(status, why, cause);
    }

    /** The provider refuses to send: the connection has ended, which its callback may say later. */
    void sendRefused(Status status) {
        reason.refused("a send", status);
    }

    /** A receive could not be posted again. What has come before is delivered. */
    void receiveRefused(Status status) {
        reason.refused("a receive", status);
    }

    /**
     * By the polling thread: calls all callbacks, and frees everything. What it could not do for
     * lack of memory, it does when it is called again.
     */
    void tearDown() {
        if (!connectionClosed) {
            drain();
            flush();
        }
        Status status = Objects.requireNonNull(reason.get()).status();
        tell(status);
        closeConnection();
        endExposures(status);
    }

    /** Delivers what had come, and reports what had been acknowledged, before the end. */
    private void drain() {
        try {
            if (reason.isDraining()) {
                channel.poller.drain(channel.queue);
            }
        } finally {
            reason.drained();
        }
    }

    /** Cancels what is outstanding; a device that is gone cannot, and does not have to. */
    private void flush() {
        try {
            channel.pair.flush();
        } catch (VerbenaException e) {
            // The close of the queue pair goes on without it.
        }
    }

    /** Each callback, future and thread gets the reason. */
    private void tell(Status status) {
        channel.lock.lock();
        try {
            channel.inbox.detachWaiting();
            channel.inbox.wakeAll();
            channel.exposures.wakeAll();
        } finally {
            channel.lock.unlock();
        }
        while (channel.dispatch.cancelOldest(status)) {
            continue;
        }
        while (channel.roomWait.cancelOldest(status)) {
            continue;
        }
    }

    private void closeConnection() {
        if (!connectionClosed) {
            connectionClosed = true; // an object that fails to close is not closed again
            channel.closeQuietly(connector);
            channel.closeQuietly(channel.pair);
        }
    }

    /** What is exposed ends when the queue pair is destroyed, which may be later. */
    private void endExposures(Status status) {
        if (!channel.exposures.inUse() || isDestroyed()) {
            channel.exposures.endAll(status);
            finish(status);
        } else {
            var _ =
                    channel.pair
                            .closed()
                            .whenComplete(
                                    (nothing, thrown) -> channel.poller.execute(channel.tearDown));
        }
    }

    private boolean isDestroyed() {
        try {
            channel.pair.awaitClosed(Duration.ZERO);
            return true;
        } catch (VerbenaException e) {
            // Otherwise the destroy has failed; or the thread was interrupted and cannot know.
            return e.status() != Status.IO_TIMEOUT && e.status() != Status.CANCELLED;
        }
    }

    /** Whether what has come is delivered: until its end, or for a moment longer. */
    boolean takesCompletions() {
        return reason.takesCompletions();
    }

    private void finish(Status status) {
        channel.lock.lock();
        try {
            freed = true;
            freeIfUnused();
        } finally {
            channel.lock.unlock();
            channel.leavePoller();
            closed.complete(status);
        }
    }

    /** Frees the memory, unless somebody reads a message in it. The caller holds the lock. */
    void freeIfUnused() {
        if (freed && !channel.inbox.inUse()) {
            channel.region.close();
        }
    }

    /** Why it has ended; null while it is open. */
    @Nullable MessagingException reason() {
        return reason.get();
    }

    boolean isOpen() {
        return reason.isOpen();
    }

    /** Whether it has ended, all that had come is delivered, and the reason stays what it is. */
    boolean isFinal() {
        return reason.isFinal();
    }

    /** Whether it is open, but being closed. */
    boolean isClosing() {
        return reason.isOpen() && reason.isClosing();
    }

    /** Whether it is open, and not being closed. */
    boolean takesRequests() {
        return reason.isOpen() && !reason.isClosing();
    }

    /** What a call throws that came too late: the reason, or what it was refused with. */
    MessagingException exception(@Nullable Status refused) {
        MessagingException why = reason.get();
        return why != null
                ? new MessagingException(
                        why.status(), String.valueOf(why.getMessage()), why.getCause())
                : new MessagingException(
                        refused == null ? Status.CONNECTION_INVALID : refused,
                        "%s refused a request: %s".formatted(channel, refused));
    }

    /** Whether it has ended, and nothing of it is left. */
    boolean isClosed() {
        return closed.isDone();
    }

    CompletableFuture<Status> closed() {
        return closed.copy();
    }

    /** Begins to close it, without waiting. */
    void beginClose() {
        Connector by;
        channel.lock.lock();
        try {
            by = isOpen() ? connector : null;
            reason.closing();
        } finally {
            channel.lock.unlock();
        }
        if (by == null) {
            closedHere();
        } else {
            Polled.disconnect(
                    by,
                    channel.options.values.connection.withDeadline(channel.options.values.timeout),
                    this::closedHere);
        }
    }

    private void closedHere() {
        reason.closedHere();
    }

    void awaitClosed() {
        if (channel.poller.isDispatchingHere()) {
            return;
        }
        Poller poller = channel.poller;
        Duration most = channel.options.values.timeout.plus(CLOSE_WITHIN);
        long deadline = System.nanoTime() + TimeUnit.NANOSECONDS.convert(most);
        try {
            poller.awaitDone(closed, deadline);
            Status ignored = closed.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new MessagingException(
                    Status.IO_TIMEOUT,
                    "%s did not close within %s".formatted(channel, Text.time(most)),
                    e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // it goes on without this thread
        } catch (ExecutionException e) {
            throw new AssertionError(e); // nothing completes it so
        }
    }
}
