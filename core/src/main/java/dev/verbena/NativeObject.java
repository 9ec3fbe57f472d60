package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.QueueLock;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.Fields;
import dev.verbena.internal.util.Text;
import dev.verbena.internal.util.Uncaught;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * The lifetime of every NDK object: the owner closes it once, and the native object is destroyed
 * when the last object created from it is closed, too.
 *
 * <p>In NDK the close of an object pends on its dependants, whereas verbs returns EBUSY. A
 * reference count implements that: one for the owner and one for each dependant. The thread that
 * releases the last reference runs the native destroy.
 *
 * <p>Package-private, because only this package's objects extend it; their lifetime is final.
 */
abstract class NativeObject implements AutoCloseable {
    private static final VarHandle STATE =
            Fields.handle(MethodHandles.lookup(), "state", int.class);

    private static final CompletableFuture<Void> DESTROYED =
            CompletableFuture.completedFuture(null);
    private static final int CLOSED = 1 << 31;
    private static final int MOST_WAITS = 200;
    private static final long WAIT_NANOSECONDS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final int MOST_NAMED = 4; // in a message

    private final NativeObject[] parents;
    private volatile int state = 1; // the number of references, and CLOSED
    // Null until it is asked for, or complete. Guarded by the parents, as are the next.
    private @Nullable CompletableFuture<Void> destroyed;

    // They stay reachable, and messages name them. Guarded by the parents; null before the first:
    // of ten thousand queue pairs none may have any.
    private @Nullable Set<NativeObject> dependants;

    /**
     * Adds a reference to each parent. A subclass whose constructor fails calls {@link #abandon}.
     */
    NativeObject(NativeObject... parents) {
        this.parents = parents;
        int held = 0;
        boolean complete = false;
        try {
            for (NativeObject parent : parents) {
                parent.acquire();
                held++;
                parent.add(this);
            }
            complete = true;
        } finally {
            if (!complete) {
                releaseParents(held);
            }
        }
    }

    final Teardown teardown() {
        return new Teardown(this::describe, this::deviceGone);
    }

    /**
     * Makes what a close needs, and waits a while for memory: there may be no second close.
     *
     * @param make must capture nothing: a capturing lambda would need memory itself
     */
    static <T, R> R forClose(T of, Function<? super T, R> make) {
        for (int left = MOST_WAITS; ; left--) {
            try {
                return make.apply(of);
            } catch (OutOfMemoryError e) {
                if (left == 0) {
                    throw e;
                }
                Uncaught.pause(WAIT_NANOSECONDS);
            }
        }
    }

    /** Adds the steps that free the native object. Called once, for the last reference. */
    void destroy(Teardown end) {}

    /** Stops activity at the close by the owner, while dependants may still exist. */
    void shut(Teardown end) {}

    /** Called by each further close by the owner. */
    void closeAgain(Teardown end) {}

    /**
     * Throws if the current thread may not close this object. Called before the close changes
     * anything.
     */
    void checkMayClose() {}

    /** Undoes this constructor, for a subclass whose native object could not be created. */
    final void abandon() {
        markClosed();
        releaseParents(parents.length);
    }

    /** Releases the references to the first parents. There may be no memory for a teardown. */
    private void releaseParents(int count) {
        if (count > 0) {
            NativeObject parent = parents[count - 1];
            parent.remove(this);
            try {
                parent.release();
            } finally {
                releaseParents(count - 1);
            }
        }
    }

    private void releaseParents(int count, Teardown end) {
        for (int i = 0; i < count; i++) {
            parents[i].remove(this);
            end.run(parents[i], NativeObject::release);
        }
    }

    /** Describes the object for messages, without saying whether it is closed. */
    abstract String describe();

    @Override
    public final String toString() {
        return isClosed() ? describe() + ", closed" : describe();
    }

    /** Whether its owner has closed it; the native object may still exist. */
    final boolean isClosed() {
        return state < 0;
    }

    private boolean markClosed() {
        return (int) STATE.getAndBitwiseOr(this, CLOSED) >= 0;
    }

    final void ensureOpen() {
        if (isClosed()) {
            throw new ClosedException(this);
        }
    }

    /** The result of {@code nativeHandle()} for a verbs object at this address. */
    final MemorySegment nativeHandle(long address) {
        ensureOpen();
        return MemorySegment.ofAddress(address);
    }

    /**
     * Adds a reference, which keeps the native object alive until {@link #release}. Throws if
     * closed.
     */
    final void acquire() {
        if (!tryAcquire()) {
            throw new ClosedException(this);
        }
    }

    /** Runs something that needs this object; throws when it is closed. Not for the data path. */
    final void run(Runnable what) {
        acquire();
        try {
            what.run();
        } finally {
            release();
        }
    }

    /** As {@link #run}, with a result. */
    final <T> T call(Supplier<T> what) {
        acquire();
        try {
            return what.get();
        } finally {
            release();
        }
    }

    /** Runs something that needs this object, unless it is closed. */
    final void runUnlessClosed(Runnable what) {
        if (tryAcquire()) {
            try {
                what.run();
            } finally {
                release();
            }
        }
    }

    /** Adds a reference as {@link #acquire} does; returns false if closed. */
    final boolean tryAcquire() {
        int seen = state;
        while (seen > 0) {
            if (STATE.compareAndSet(this, seen, seen + 1)) {
                return true;
            }
            seen = state;
        }
        return false;
    }

    /**
     * Adds a reference although the object is closed: for {@link #shut}, which runs before the
     * reference of the owner is released.
     */
    final void pend() {
        var _ = (int) STATE.getAndAdd(this, 1);
    }

    /** Releases a reference; the last one destroys the native object. */
    final void release() {
        if (((int) STATE.getAndAdd(this, -1) & ~CLOSED) == 1) {
            Teardown end = forClose(this, NativeObject::teardown);
            end.run(this, NativeObject::destroy);
            end.run(this, (object, all) -> object.destroyed(all.failure()));
            releaseParents(parents.length, end);
            end.finish();
        }
    }

    private void destroyed(@Nullable Throwable failure) {
        CompletableFuture<Void> future;
        synchronized (parents) {
            if (destroyed == null && failure == null) {
                destroyed = DESTROYED; // which needs no memory
            }
            future = destroyed();
        }
        if (failure == null) {
            future.complete(null);
        } else {
            future.completeExceptionally(failure);
        }
    }

    private CompletableFuture<Void> destroyed() {
        synchronized (parents) {
            if (destroyed == null) {
                destroyed = new CompletableFuture<>();
            }
            return destroyed;
        }
    }

    /** Closes this object without {@link #shut}: for its adapter, if its owner thread has ended. */
    final void reclaim(Teardown end) {
        if (markClosed()) {
            end.run(this, NativeObject::release);
        }
    }

    /** The objects created from this one that are not destroyed yet. */
    final List<NativeObject> dependants() {
        synchronized (parents) {
            return dependants == null ? List.of() : List.copyOf(dependants);
        }
    }

    private void add(NativeObject dependant) {
        synchronized (parents) {
            if (dependants == null) {
                dependants = Collections.newSetFromMap(new IdentityHashMap<>(1));
            }
            dependants.add(dependant);
        }
    }

    private void remove(NativeObject dependant) {
        synchronized (parents) {
            if (dependants != null) {
                dependants.remove(dependant);
            }
        }
    }

    /**
     * Waits until this object is closed and its native object destroyed (NDK: until
     * NdkCloseCompletion is called). The destroy waits until all objects created from this one are
     * closed, and for its other users: for a {@link MemoryRegion}, windows whose last bind was to
     * it (until {@link MemoryWindow#releaseRegion}, also after an invalidate); for a {@link
     * QueuePair}, its connector; for a {@link Connector}, the confirmation of the peer, at most 10
     * s; for a {@link CompletionQueue}, its queue pairs and its callback. An object without
     * dependants and users is already destroyed when {@link #close} returns.
     *
     * <p>When this returns, the device does not access the object's memory any more: the memory of
     * a {@link MemoryRegion} may be freed. If it throws, the memory must stay allocated.
     *
     * <p>Must not be called from a callback of the same object: it would wait for that callback.
     *
     * @param timeout how long to wait at most; with zero, this only checks
     * @throws VerbenaException IO_TIMEOUT if it was not destroyed in time, CANCELLED if
     *     interrupted, or the status of the native destroy if that failed, with its exception as
     *     the cause
     */
    public final void awaitClosed(Duration timeout) {
        try {
            destroyed().get(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new VerbenaException(Status.IO_TIMEOUT, stillThere(timeout));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new VerbenaException(
                    Status.CANCELLED, "Interrupted while waiting for the destroy of " + describe());
        } catch (ExecutionException e) {
            throw VerbenaException.ofDestroy(this, Objects.requireNonNull(e.getCause()));
        }
    }

    private String stillThere(Duration waited) {
        int users = state & ~CLOSED;
        return isClosed()
                ? "%s is closed, but %d of its dependants or users %s not, after %s%s: its memory must stay allocated"
                        .formatted(
                                describe(),
                                users,
                                users == 1 ? "is" : "are",
                                Text.time(waited),
                                namedDependants())
                : "%s is not closed, after %s".formatted(describe(), Text.time(waited));
    }

    /** Names a few of the dependants, in parentheses; "" when there are none. */
    private String namedDependants() {
        List<NativeObject> all = dependants();
        String names =
                all.stream()
                        .limit(MOST_NAMED)
                        .map(NativeObject::name)
                        .collect(Collectors.joining("; "));
        String others = all.size() > MOST_NAMED ? " and others" : "";
        return all.isEmpty() ? "" : " (%s%s)".formatted(names, others);
    }

    private String name() {
        try {
            return toString();
        } catch (RuntimeException e) {
            return getClass().getSimpleName() + ", not created yet"; // by another thread
        }
    }

    /**
     * The asynchronous form of {@link #awaitClosed} (NdkCloseCompletion). Dependent stages run on a
     * callback thread; they may block, and close any object.
     *
     * @return a new future, completed when the native object is destroyed; exceptionally, with the
     *     exception of the native destroy, if that failed
     */
    @CheckReturnValue
    public final CompletableFuture<Void> closed() {
        return destroyed().whenCompleteAsync((nothing, thrown) -> {}, Threads.CALLBACKS);
    }

    /**
     * Closes this object (NdkCloseObject; for a {@link MemoryRegion}, NdkDeregisterMr as well);
     * does nothing if it is closed, except that a further close of an {@link Adapter} destroys the
     * confined queues of threads that have ended meanwhile. Objects created from it stay usable,
     * and the native object is destroyed when the last of them is closed; {@link #awaitClosed}
     * waits for that.
     *
     * <p>Every step of the close is tried, even if an earlier one failed.
     *
     * @throws WrongThreadException if this object is confined to another thread; then it is not
     *     closed
     * @throws IllegalStateException for a {@link RegisteredArena} while another thread is inside a
     *     call that uses its memory, and for a region that belongs to an arena or a pool, which
     *     closes it; then it is not closed
     * @throws VerbenaException if the native destroy fails; the object is closed nevertheless. The
     *     exception describes the first step that failed; further ones, of this object and of
     *     parents that are destroyed with it, are its {@linkplain Throwable#getSuppressed
     *     suppressed} exceptions
     */
    @Override
    public final void close() {
        QueueLock.checkStack();
        checkMayClose();
        // First: a second close would not do what follows.
        Teardown end = forClose(this, NativeObject::teardown);
        if (markClosed()) {
            end.run(this, NativeObject::shut);
            end.run(this, NativeObject::release);
        } else {
            closeAgain(end);
        }
        end.finish();
    }

    private boolean deviceGone() {
        NativeObject root = this;
        while (root.parents.length > 0) {
            root = root.parents[0];
        }
        return root instanceof Adapter adapter && adapter.device().gone();
    }

    /** An object was used after it was closed, or while another thread was closing it. */
    static final class ClosedException extends IllegalStateException {
        private static final long serialVersionUID = 1;

        ClosedException(NativeObject object) {
            super(object.describe() + " is closed");
        }
    }
}
