package dev.verbena.messaging;

import dev.verbena.BufferList;
import dev.verbena.PostResult;
import dev.verbena.RemoteMemory;
import dev.verbena.Status;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Requests that wait for room: threads, or futures, in {@link WaitingRequests}. */
final class RoomWait {
    static final SendCallback COMPLETE_FUTURE = RoomWait::completeFuture;

    private final MessageChannel channel;
    private final Outbox outbox;

    RoomWait(MessageChannel channel, Outbox outbox) {
        this.channel = channel;
        this.outbox = outbox;
    }

    /** As {@link MessageChannel#send}. */
    void send(MemorySegment data, Duration timeout) throws InterruptedException {
        channel.poller.checkMayWait();
        PostResult result =
                outbox.submit(
                        RequestKind.SEND, data, 0, data.byteSize(), null, null, 0, null, null);
        if (result == PostResult.FULL) {
            awaitPost(data, timeout);
        } else if (!result.isAccepted()) {
            throw outbox.refusal(result, null);
        }
    }

    /** Waits in the queue of those that came first, until this message was posted. */
    private void awaitPost(MemorySegment data, Duration timeout) throws InterruptedException {
        CompletableFuture<Void> posted = new CompletableFuture<>();
        try (var _ = channel.lock.holdInterruptibly()) {
            if (!channel.takesRequests()) {
                throw channel.exception(Status.CONNECTION_INVALID);
            }
            boolean ignored =
                    outbox.enqueue(
                            new WaitingRequests.Request(
                                    RequestKind.SEND, data, null, null, posted, true));
        }
        try {
            if (!channel.poller.awaitDone(posted, timeout)
                    && withdraw(posted)
                    && channel.isOpen()) {
                throw new MessagingException(
                        Status.IO_TIMEOUT,
                        "There was no room for a message within %s: the peer of %s has not released enough messages"
                                .formatted(Text.time(timeout), channel));
            }
        } catch (InterruptedException | Error e) { // the wait itself may find no memory
            boolean waits = withdraw(posted); // or it would be sent later, from other bytes
            if (waits || (!posted.isDone() && channel.isOpen())) {
                throw e;
            }
            if (e instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
        }
        // It waits no more: it was posted or refused, or the channel has ended and may be about to
        // say so.
        if (posted.isCompletedExceptionally()) {
            RuntimeException why = (RuntimeException) posted.exceptionNow();
            throw why instanceof MessagingException refused ? refused.again() : why;
        }
        if (!posted.isDone()) {
            throw channel.exception(Status.CONNECTION_INVALID);
        }
    }

    private boolean withdraw(CompletableFuture<Void> future) {
        try (var _ = channel.lock.hold()) {
            return outbox.withdraw(future);
        }
    }

    /** Posts a request when there is room: a future that is done when it has ended. */
    CompletableFuture<Void> async(
            RequestKind kind,
            MemorySegment data,
            @Nullable BufferList local,
            @Nullable RemoteMemory remote) {
        CompletableFuture<Void> future = new CompletableFuture<>();
        try (var _ = channel.lock.hold()) {
            PostResult result =
                    outbox.submit(
                            kind,
                            data,
                            0,
                            data.byteSize(),
                            local,
                            remote,
                            0,
                            COMPLETE_FUTURE,
                            future);
            if (result == PostResult.FULL && channel.isOpen()) {
                channel.lock.whenFailed(future, thrown -> withdraw(future));
                if (!outbox.enqueue(
                        new WaitingRequests.Request(kind, data, local, remote, future, false))) {
                    future.completeExceptionally(
                            new MessagingException(
                                    result.status(),
                                    "1,024 requests wait for room already: wait for some of their futures first"));
                }
            } else if (!result.isAccepted()) {
                future.completeExceptionally(outbox.refusal(result, remote));
            }
        }
        return future;
    }

    /**
     * After the end: the oldest request that waits for room gets the reason.
     *
     * @return false when there is none
     */
    boolean cancelOldest(Status status) {
        WaitingRequests.Request oldest;
        try (var _ = channel.lock.hold()) {
            oldest = outbox.waiting.first();
        }
        if (oldest == null) {
            return false;
        }
        oldest.future().completeExceptionally(channel.exception(status));
        try (var _ = channel.lock.hold()) {
            boolean ignored = outbox.waiting.withdraw(oldest.future());
        }
        return true;
    }

    @SuppressWarnings("unchecked") // what async() attached
    static void completeFuture(MessageChannel channel, @Nullable Object attachment, Status status) {
        CompletableFuture<Void> future = (CompletableFuture<Void>) attachment;
        if (future == null) {
            return;
        }
        if (status.isSuccess()) {
            future.complete(null);
        } else {
            future.completeExceptionally(channel.exception(status));
        }
    }
}
