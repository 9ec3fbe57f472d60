package dev.verbena.messaging;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.MemoryRegion;
import dev.verbena.OpFlags;
import dev.verbena.QueuePair;
import dev.verbena.Status;
import dev.verbena.VerbenaException;
import dev.verbena.internal.util.Arguments;
import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;

/**
 * The memory that this side of a {@link MessageChannel} exposes to its peer, which writes or reads
 * it through {@link PeerMemory}. Each exposed part is an {@link Exposure}: it has a remote key
 * (NDK: token) of its own, and it ends after a time.
 *
 * <p>There are three forms: {@code expose} waits for a free exposure; {@code tryExpose} returns at
 * once, reports the end to a callback, and allocates nothing; {@code exposeAsync} returns a future.
 *
 * {@snippet file="dev/verbena/examples/FileClient.java" region="fetch"}
 *
 * <p>May be used from the threads that may use the channel; {@code tryExpose} and {@code
 * exposeAsync} also from handlers and callbacks.
 */
public final class OwnMemory {
    private static final int MOST_FUTURES = 1024;
    private static final OpFlags RIGHTS = OpFlags.ALLOW_REMOTE_READ.and(OpFlags.ALLOW_REMOTE_WRITE);

    /** An exposure that waits for a free window. */
    private record Waiting(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            CompletableFuture<Exposure> future) {}

    private final MessageChannel channel;
    private final Exposures exposures;
    private Queue<Waiting> waiting = SafeQueue.empty(); // guarded by the channel's lock

    OwnMemory(MessageChannel channel, Exposures exposures) {
        this.channel = channel;
        this.exposures = exposures;
    }

    /**
     * Exposes memory to the peer, for a time, and waits for one of the {@linkplain
     * MessagingOptions#withExposures exposures} if all are in use. Not from a handler or callback.
     *
     * <p>The region needs LOCAL_WRITE to be written, nothing to be read. Do not give it {@link
     * dev.verbena.Access#REMOTE_WRITE}: a key of its own would then open all of it, and for good.
     *
     * @param region registered memory, of the {@linkplain Poller#domain poller's domain}
     * @param offset where the exposed part begins
     * @param length how long it is, at least 1
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long to wait for a free exposure; and, from when this call returns, how
     *     long the peer has: then it is revoked, see {@link Exposure}
     * @return what goes into a message to the peer; to be closed by the caller
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws MessagingException IO_TIMEOUT when all were in use for that time; or why the channel
     *     is closed
     * @throws VerbenaException as {@link QueuePair#bind} refuses: INVALID_PARAMETER for memory
     *     outside the region, INVALID_PARAMETER_MIX for a region of another domain,
     *     ACCESS_VIOLATION for rights that it does not have; NOT_SUPPORTED on a device without
     *     memory windows
     * @throws IllegalArgumentException for other rights, and for a time that is not positive
     * @throws IllegalStateException when either side allows no exposures, or in a handler or
     *     callback
     */
    @CheckReturnValue
    public Exposure expose(
            MemoryRegion region, long offset, long length, OpFlags rights, Duration within)
            throws InterruptedException {
        channel.poller.checkMayWait();
        CompletableFuture<Exposure> mine =
                async(region, offset, length, rights, within, Integer.MAX_VALUE);
        try {
            if (!channel.poller.awaitDone(mine, within) && mine.cancel(false)) {
                throw new MessagingException(
                        Status.IO_TIMEOUT,
                        "%s has %s, its limit, and none was taken back within %s: revoke one, or raise MessagingOptions.withExposures here and withPeerExposures at the peer"
                                .formatted(
                                        channel,
                                        Text.count(exposures.most(), "exposure"),
                                        Text.time(within)));
            }
        } catch (InterruptedException e) {
            if (mine.cancel(false)) {
                throw e;
            }
            Thread.currentThread().interrupt(); // it is exposed already
        }
        if (!mine.isCompletedExceptionally()) {
            return mine.join();
        }
        if (mine.exceptionNow() instanceof RuntimeException e
                && !(e instanceof MessagingException)) {
            throw e;
        }
        throw channel.exception(Status.CONNECTION_INVALID);
    }

    /**
     * Exposes a whole region to the peer, as {@link #expose(MemoryRegion, long, long, OpFlags,
     * Duration)} does.
     *
     * @param region registered memory
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @return what goes into a message to the peer; to be closed by the caller
     * @throws InterruptedException when the thread is interrupted while it waits
     */
    @CheckReturnValue
    public Exposure expose(MemoryRegion region, OpFlags rights, Duration within)
            throws InterruptedException {
        return expose(region, 0, region.bytes(), rights, within);
    }

    /**
     * Exposes memory to the peer, if not all exposures are in use, and returns at once. Allocates
     * nothing once as many exposures were in use before.
     *
     * @param region registered memory, of the poller's domain
     * @param offset where the exposed part begins
     * @param length how long it is, at least 1
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has
     * @param callback gets the end, and the peer's message
     * @param attachment what {@link Exposure#attachment} returns
     * @return null when all exposures are in use, others wait for one, or the channel is not
     *     established yet or closed
     * @throws VerbenaException as {@link #expose(MemoryRegion, long, long, OpFlags, Duration)}
     * @throws IllegalStateException when either side allows no exposures
     */
    @CheckReturnValue
    public @Nullable Exposure tryExpose(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            ExposureCallback callback,
            @Nullable Object attachment) {
        return exposeNow(region, offset, length, rights, within, callback, attachment);
    }

    /**
     * Exposes memory to the peer, when there is a free exposure. A future that is cancelled, or
     * times out ({@link CompletableFuture#orTimeout}), waits no more, and exposes nothing.
     *
     * @param region registered memory, of the poller's domain
     * @param offset where the exposed part begins
     * @param length how long it is, at least 1
     * @param rights {@link OpFlags#ALLOW_REMOTE_READ}, {@link OpFlags#ALLOW_REMOTE_WRITE} or both
     * @param within how long the peer has, from when the memory is exposed
     * @return a future of the exposure, to be closed by the caller. It fails with a {@link
     *     MessagingException}: why the channel was closed, or NO_MORE_ENTRIES when 1,024 wait
     *     already; or as {@link #expose(MemoryRegion, long, long, OpFlags, Duration)}. It is
     *     completed by the polling thread
     * @throws VerbenaException as {@link #expose(MemoryRegion, long, long, OpFlags, Duration)}, if
     *     that is known at once
     * @throws IllegalStateException when either side allows no exposures
     */
    @CheckReturnValue
    public CompletableFuture<Exposure> exposeAsync(
            MemoryRegion region, long offset, long length, OpFlags rights, Duration within) {
        return async(region, offset, length, rights, within, MOST_FUTURES);
    }

    // ---- those that wait for a free exposure

    /** Null when there is no free window, or others wait. */
    private @Nullable Exposure exposeNow(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            @Nullable ExposureCallback callback,
            @Nullable Object attachment) {
        check(rights, within);
        try (var _ = channel.lock.hold()) {
            return waiting.isEmpty()
                    ? exposures.begin(region, offset, length, rights, within, callback, attachment)
                    : null;
        }
    }

    private void check(OpFlags rights, Duration within) {
        if (rights == OpFlags.NONE || rights.and(RIGHTS) != RIGHTS) {
            throw new IllegalArgumentException(
                    "The rights of an exposure are ALLOW_REMOTE_READ, ALLOW_REMOTE_WRITE or both, not "
                            + rights);
        }
        Arguments.checkPositive(within, "The deadline of an exposure");
        if (exposures.most() == 0) {
            throw new IllegalStateException(
                    channel
                            + " has no exposures: see MessagingOptions.withExposures here, and withPeerExposures at the peer");
        }
    }

    /** As {@link #exposeAsync}, while fewer than this many wait. */
    private CompletableFuture<Exposure> async(
            MemoryRegion region,
            long offset,
            long length,
            OpFlags rights,
            Duration within,
            int mostWaiting) {
        CompletableFuture<Exposure> future = new CompletableFuture<>();
        try (var _ = channel.lock.hold()) {
            Exposure exposure = exposeNow(region, offset, length, rights, within, null, null);
            if (exposure != null) {
                future.complete(exposure);
            } else if (channel.reason.isFinal() || (channel.isOpen() && !channel.takesRequests())) {
                future.completeExceptionally(channel.exception(Status.CONNECTION_INVALID));
            } else if (waiting.size() >= mostWaiting) {
                future.completeExceptionally(
                        new MessagingException(
                                Status.NO_MORE_ENTRIES,
                                "%s wait on %s already: wait for some of their futures first"
                                        .formatted(Text.count(mostWaiting, "exposure"), channel)));
            } else {
                channel.lock.whenFailed(future, thrown -> withdraw(future));
                waiting = SafeQueue.own(waiting);
                waiting.add(new Waiting(region, offset, length, rights, within, future));
            }
        }
        return future;
    }

    @SuppressWarnings("ReferenceEquality") // it is known by its future
    private void withdraw(CompletableFuture<Exposure> future) {
        try (var _ = channel.lock.hold()) {
            boolean ignored = waiting.removeIf(one -> one.future() == future);
        }
    }

    /** There may be a free window: for those that wait, in order. The caller holds the lock. */
    void serve() {
        while (!waiting.isEmpty()) {
            Waiting first = waiting.element();
            Exposure exposure = null;
            RuntimeException refusal = null;
            try {
                exposure =
                        exposures.begin(
                                first.region(),
                                first.offset(),
                                first.length(),
                                first.rights(),
                                first.within(),
                                null,
                                null);
                if (exposure == null) {
                    return;
                }
            } catch (RuntimeException e) { // the region was closed meanwhile
                refusal = e;
            }
            complete(first.future(), exposure, refusal);
            waiting.remove();
        }
    }

    /** Completes a future by the polling thread, without the lock. */
    private void complete(
            CompletableFuture<Exposure> future,
            @Nullable Exposure exposure,
            @Nullable RuntimeException refusal) {
        channel.poller.execute(
                () -> {
                    if (refusal != null) {
                        future.completeExceptionally(refusal);
                    } else if (!future.complete(exposure) && exposure != null) {
                        exposure.revoke(); // the future was cancelled at this moment
                    }
                });
    }

    /**
     * After the end: the oldest one that waits gets the reason.
     *
     * @return false when there is none
     */
    boolean cancelOldest(Status status) {
        Waiting oldest;
        try (var _ = channel.lock.hold()) {
            oldest = waiting.peek();
        }
        if (oldest == null) {
            return false;
        }
        oldest.future().completeExceptionally(channel.exception(status));
        withdraw(oldest.future());
        return true;
    }
}
