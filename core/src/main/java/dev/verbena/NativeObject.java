package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.runtime.Threads;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The life of every NDK object: closed once by its owner, destroyed when nothing made from it is
 * left.
 *
 * <p>NDK lets the close of an object pend on its dependants, where verbs answers EBUSY. A count
 * does that: one for the owner, one for each dependant; whoever brings it to zero runs the native
 * destroy.
 */
abstract class NativeObject implements AutoCloseable {
    private final NativeObject[] parents;
    private final AtomicInteger holders = new AtomicInteger(1);
    private final AtomicBoolean closed = new AtomicBoolean();
    private final CompletableFuture<Void> destroyed = new CompletableFuture<>();

    /** Holds the parents; a subclass that cannot be made after all calls {@link #abandon}. */
    NativeObject(NativeObject... parents) {
        this.parents = parents;
        int held = 0;
        try {
            for (NativeObject parent : parents) {
                parent.hold();
                held++;
            }
        } finally {
            if (held < parents.length) {
                letGo(held);
            }
        }
    }

    /** Frees the native object; runs once, after the last dependant's. */
    abstract void destroy();

    /** What has to be stopped at the owner's close already, before dependants are gone. */
    void shut() {}

    /** Throws when the current thread may not close this object; nothing has changed then. */
    void checkMayClose() {}

    /** Undoes the constructor where the native object could not be made. */
    final void abandon() {
        closed.set(true);
        letGo(parents.length);
    }

    /** Lets the first parents go. */
    private void letGo(int count) {
        Teardown end = new Teardown(this);
        for (int i = 0; i < count; i++) {
            end.run(parents[i]::letGo);
        }
        end.finish();
    }

    /** What it is, whether open or closed: for messages that say which of the two. */
    abstract String describe();

    @Override
    public final String toString() {
        return isClosed() ? describe() + ", closed" : describe();
    }

    /** Whether its owner has closed it; the native object may still be there. */
    final boolean isClosed() {
        return closed.get();
    }

    final void ensureOpen() {
        if (isClosed()) {
            throw new ClosedException(this);
        }
    }

    /** Keeps the native object alive until {@link #letGo}, whoever closes what meanwhile. */
    final void hold() {
        ensureOpen();
        int seen;
        do {
            seen = holders.get();
            if (seen == 0) {
                throw new ClosedException(this);
            }
        } while (!holders.compareAndSet(seen, seen + 1));
    }

    /**
     * Keeps the native object alive beyond the close, until {@link #letGo}: for {@link #shut},
     * which runs while the owner's own hold is still there.
     */
    final void pend() {
        holders.incrementAndGet();
    }

    final void letGo() {
        if (holders.decrementAndGet() == 0) {
            Teardown end = new Teardown(this);
            end.run(this::destroyAndTell);
            end.run(() -> letGo(parents.length));
            end.finish();
        }
    }

    private void destroyAndTell() {
        try {
            destroy();
        } catch (RuntimeException | Error e) {
            destroyed.completeExceptionally(e);
            throw e;
        }
        destroyed.complete(null);
    }

    /**
     * Waits until this object is closed and its native object destroyed (NDK: until the close that
     * pended has completed). The close of an object pends on what was made from it, and on what
     * uses it: that of a {@link MemoryRegion} on windows that are bound to it, that of a {@link
     * QueuePair} on its connector, that of a {@link Connector} on the peer's answer, 10 s at most,
     * that of a {@link CompletionQueue} on its queue pairs and its callback. Where nothing was made
     * from an object and nothing uses it, it is destroyed when {@link #close} returns.
     *
     * <p>When this returns, the device does not touch the object's memory any more: what a {@link
     * MemoryRegion} has registered may be freed. When it throws, the memory has to stay.
     *
     * <p>Not for a callback of this very object, which it would wait for.
     *
     * @param timeout how long at most; zero looks and does not wait
     * @throws VerbenaException IO_TIMEOUT when it was not destroyed in time, CANCELLED when
     *     interrupted, and the status of a native destroy that failed, with that as its cause
     */
    public final void awaitClosed(Duration timeout) {
        try {
            destroyed.get(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new VerbenaException(Status.IO_TIMEOUT, stillThere(timeout));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new VerbenaException(
                    Status.CANCELLED, "Interrupted while waiting for the end of " + describe());
        } catch (ExecutionException e) {
            throw VerbenaException.ofDestroy(this, Objects.requireNonNull(e.getCause()));
        }
    }

    private String stillThere(Duration waited) {
        int users = holders.get();
        return closed.get()
                ? "%s is closed, but %d of what was made from it or uses it %s not, after %s: its memory has to stay"
                        .formatted(describe(), users, users == 1 ? "is" : "are", waited)
                : "%s is not closed, after %s".formatted(describe(), waited);
    }

    /**
     * The same for who does not wait. What hangs on the future runs on a thread of its own, and may
     * wait and close what it likes.
     *
     * @return a new future, which ends when {@link #awaitClosed} would return, and exceptionally,
     *     with what the native destroy threw, when that has failed
     */
    @CheckReturnValue
    public final CompletableFuture<Void> closed() {
        return destroyed.whenCompleteAsync((nothing, thrown) -> {}, Threads.CALLBACKS);
    }

    /**
     * Closes this object; again does nothing. What was made from it stays usable, and the native
     * object is destroyed with the last of that; {@link #awaitClosed} waits for it.
     *
     * <p>Every step is tried, also when one before it failed.
     *
     * @throws WrongThreadException when this object is confined to another thread that is alive; it
     *     is not closed then
     * @throws VerbenaException when the native destroy fails; the object is closed all the same. It
     *     names the first step that failed, and has the others {@linkplain Throwable#getSuppressed
     *     suppressed}: of this object, and of those whose close pended on it
     */
    @Override
    public final void close() {
        checkMayClose();
        if (closed.compareAndSet(false, true)) {
            Teardown end = new Teardown(this);
            end.run(this::shut);
            end.run(this::letGo);
            end.finish();
        }
    }
}
