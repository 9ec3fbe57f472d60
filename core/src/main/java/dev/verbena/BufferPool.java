package dev.verbena;

import com.google.errorprone.annotations.CheckReturnValue;

import dev.verbena.internal.queue.QueueLock;
import dev.verbena.internal.runtime.Teardown;
import dev.verbena.internal.runtime.Threads;
import dev.verbena.internal.util.FreeIndexes;
import dev.verbena.internal.util.Log;
import dev.verbena.internal.util.SafeQueue;
import dev.verbena.internal.util.Text;

import org.jspecify.annotations.Nullable;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Registered buffers of one size, taken before a request and given back after its completion. A
 * take from an empty pool waits until a buffer is given back: memory stays bounded, and a producer
 * is slowed down to the speed of the network.
 *
 * {@snippet :
 * try (BufferPool pool = domain.createBufferPool(BufferPoolOptions.of(256, 4096), Access.LOCAL_WRITE)) {
 *     PooledBuffer buffer = pool.take(Duration.ofSeconds(5));
 *     buffer.memory().setString(0, "Hello");
 *     pair.send(buffer.index(), buffer.buffers(0, 6)).orThrow();
 *     // and when the completion has come:
 *     pool.buffer((int) completions.context(0)).giveBack();
 * }
 * }
 *
 * <p>May be used from any thread, also from virtual ones: a take that waits holds no carrier
 * thread. Taking and giving back allocate nothing and take no lock, unless a take has to wait.
 * Takes that wait, threads and futures alike, are served in order.
 *
 * <p>If the pool is closed while buffers are taken, takes fail, including waiting ones, and its
 * memory is freed when the last buffer is given back ({@link #awaitClosed}).
 */
public final class BufferPool extends NativeObject {
    private static final long STRIDE = 64; // a cache line: buffers do not share one
    private static final int NONE = FreeIndexes.NONE;
    private static final int SHOWN = 3;
    private static final int MOST_FUTURES = 1024;

    // Of each buffer.
    private static final int FREE = 0;
    private static final int TAKEN = 1;

    private final BufferPoolOptions options;
    private final Maker maker;
    private final MemoryRegion region;
    private final AtomicReferenceArray<PooledBuffer> buffers;
    private final AtomicIntegerArray states;

    private final FreeIndexes free;

    final Queue<Waiter> waiters = new SafeQueue<>(); // guarded by itself
    private volatile int waiting; // how many they are

    private final LongAdder taken = new LongAdder();
    private final LongAdder returned = new LongAdder();
    private final LongAdder waits = new LongAdder();
    private final LongAdder refusals = new LongAdder();

    /** Makes the buffer with an index: once, or in a pool with tracking for each take. */
    interface Maker {
        PooledBuffer make(BufferPool pool, int index, MemorySegment memory);
    }

    BufferPool(ProtectionDomain domain, BufferPoolOptions options, Access... rights) {
        this(
                domain,
                options,
                options.tracking() ? PooledBuffer::tracked : PooledBuffer::new,
                rights);
    }

    @SuppressWarnings("MustBeClosedChecker") // the region closes the arena
    BufferPool(ProtectionDomain domain, BufferPoolOptions options, Maker maker, Access... rights) {
        super(domain);
        this.options = options;
        this.maker = maker;
        int count = options.count();
        MemoryRegion made = null;
        try {
            this.buffers = new AtomicReferenceArray<>(count);
            this.states = new AtomicIntegerArray(count);
            this.free = new FreeIndexes(count);
            made =
                    domain.allocate(
                            domain,
                            this,
                            Arena.ofShared(),
                            Math.multiplyExact(stride(), (long) count),
                            options.memory(),
                            rights);
            this.region = made;
            for (int index = count - 1; index >= 0; index--) {
                if (!options.tracking()) {
                    buffers.set(index, maker.make(this, index, memory(index)));
                }
                free.push(index);
            }
        } catch (Throwable t) {
            Teardown end = teardown();
            end.failed(t);
            if (made != null) {
                end.run(made, MemoryRegion::closeWithDivider);
            }
            abandon();
            throw t;
        }
    }

    private long stride() {
        return options.bytes() + STRIDE - 1 & -STRIDE;
    }

    private MemorySegment memory(int index) {
        return region.memory().asSlice(index * stride(), options.bytes());
    }

    /**
     * Takes a buffer, and waits for one if all are taken.
     *
     * @param timeout how long to wait at most
     * @return a buffer, to be given back
     * @throws InterruptedException when the thread is interrupted while it waits
     * @throws VerbenaException IO_TIMEOUT if none was given back in time
     * @throws IllegalStateException if the pool is closed, or is closed during the wait
     */
    @CheckReturnValue
    public PooledBuffer take(Duration timeout) throws InterruptedException {
        QueueLock.checkStack();
        acquire();
        int index = popBehindWaiters();
        if (index != NONE) {
            return hand(index);
        }
        CompletableFuture<PooledBuffer> mine = waitFor(Runnable::run, Integer.MAX_VALUE);
        try {
            return mine.get(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            if (mine.cancel(false)) {
                throw exhausted(timeout);
            }
        } catch (InterruptedException e) {
            if (mine.cancel(false)) {
                throw e;
            }
            Thread.currentThread().interrupt(); // a buffer came first
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Error error) {
                throw error;
            }
        }
        if (mine.state() == Future.State.SUCCESS) {
            return mine.resultNow();
        }
        throw new ClosedException(this);
    }

    /**
     * Takes a buffer when one is free. A future that is cancelled, or times out ({@link
     * CompletableFuture#orTimeout}), waits no more; a buffer that is handed to it at that moment
     * stays in the pool.
     *
     * @return a future of a buffer, to be given back. Where it had to wait, dependent stages run on
     *     a callback thread, and may block. It fails with a {@link VerbenaException}, with
     *     NO_MORE_ENTRIES, when 1,024 takes wait already, and with an {@link IllegalStateException}
     *     if the pool is closed, or is closed during the wait
     */
    @CheckReturnValue
    public CompletableFuture<PooledBuffer> takeAsync() {
        QueueLock.checkStack();
        CompletableFuture<PooledBuffer> now = new CompletableFuture<>(); // may find no memory
        if (!tryAcquire()) {
            now.completeExceptionally(new ClosedException(this));
            return now;
        }
        int index = popBehindWaiters();
        if (index == NONE) {
            return waitFor(Threads.CALLBACKS, MOST_FUTURES);
        }
        now.complete(hand(index));
        return now;
    }

    /**
     * Takes a buffer if one is free.
     *
     * @return a buffer, to be given back, or null when all are taken
     * @throws IllegalStateException if the pool is closed
     */
    @CheckReturnValue
    public @Nullable PooledBuffer tryTake() {
        QueueLock.checkStack();
        acquire();
        int index = popBehindWaiters();
        if (index == NONE) {
            release();
            refusals.increment();
            return null;
        }
        return hand(index);
    }

    private PooledBuffer hand(int index) {
        if (options.tracking()) {
            try {
                buffers.set(index, maker.make(this, index, memory(index)));
            } catch (Throwable t) { // no memory for it
                put(index);
                release();
                throw t;
            }
        }
        states.set(index, TAKEN);
        taken.increment();
        return buffers.get(index);
    }

    private VerbenaException exhausted(Duration timeout) {
        VerbenaException exception =
                new VerbenaException(
                        Status.IO_TIMEOUT,
                        "%s: none was given back within %s. Is the peer slow, or were buffers not given back? %s"
                                .formatted(
                                        describe(),
                                        Text.time(timeout),
                                        options.tracking()
                                                ? "The suppressed exceptions say where some were taken"
                                                : "A pool with tracking (BufferPoolOptions.withTracking) says where each was taken"));
        outstanding().stream().limit(SHOWN).forEach(exception::addSuppressed);
        return exception;
    }

    /** Returns a buffer to the pool; false when it is not taken. */
    boolean putBack(int index) {
        QueueLock.checkStack();
        if (!states.compareAndSet(index, TAKEN, FREE)) {
            return false;
        }
        returned.increment();
        put(index);
        release();
        return true;
    }

    private void put(int index) {
        free.push(index);
        serve();
    }

    // ---- takes that wait

    /** A take that waits. Holds a reference to the pool, which its buffer inherits. */
    final class Waiter implements Runnable {
        private final CompletableFuture<PooledBuffer> future;
        private final Executor executor; // on which the future is completed
        private @Nullable PooledBuffer buffer;
        private @Nullable Throwable failure;

        Waiter(CompletableFuture<PooledBuffer> future, Executor executor) {
            this.future = future;
            this.executor = executor;
        }

        /** Hands it a buffer, or none if the pool is closed. */
        void serve(int index) {
            try {
                if (index == NONE) {
                    release();
                    failure = new ClosedException(BufferPool.this);
                } else {
                    buffer = hand(index);
                }
            } catch (Throwable t) {
                failure = t;
            }
            try {
                executor.execute(this);
            } catch (Throwable t) { // no memory to do that
                run();
            }
        }

        @Override
        public void run() {
            PooledBuffer handed = buffer;
            if (handed == null) {
                future.completeExceptionally(Objects.requireNonNull(failure));
            } else if (!future.complete(handed)) {
                putBack(handed.index()); // it was cancelled at this moment
            }
        }
    }

    /** A free buffer, unless others wait for it; otherwise NONE. */
    private int popBehindWaiters() {
        return waiting == 0 ? free.pop() : NONE;
    }

    /** Waits at the end of the queue; fails if so many wait already. */
    private CompletableFuture<PooledBuffer> waitFor(Executor executor, int most) {
        CompletableFuture<PooledBuffer> future;
        boolean queued = false;
        try {
            CompletableFuture<PooledBuffer> made = new CompletableFuture<>();
            future = made;
            var _ =
                    future.whenComplete(
                            (buffer, thrown) -> {
                                if (thrown != null) {
                                    withdraw(made);
                                }
                            });
            Waiter waiter = new Waiter(future, executor);
            synchronized (waiters) {
                if (waiters.size() < most) {
                    waiters.add(waiter);
                    waiting = waiters.size();
                    queued = true;
                }
            }
        } finally {
            if (!queued) {
                release();
            }
        }
        if (queued) {
            waits.increment();
            serve(); // one may have been given back meanwhile, or the pool closed
        } else {
            refusals.increment();
            future.completeExceptionally(
                    new VerbenaException(
                            Status.NO_MORE_ENTRIES,
                            "%s: %s wait for a buffer already: wait for some of their futures first"
                                    .formatted(describe(), Text.count(most, "take"))));
        }
        return future;
    }

    @SuppressWarnings("ReferenceEquality") // a take is known by its future
    private void withdraw(CompletableFuture<PooledBuffer> future) {
        boolean withdrawn;
        synchronized (waiters) {
            withdrawn = waiters.removeIf(waiter -> waiter.future == future);
            waiting = waiters.size();
        }
        if (withdrawn) {
            refusals.increment();
            release();
        }
    }

    /** Serves those that wait, in order, while there are buffers; all of them if it is closed. */
    private void serve() {
        while (waiting > 0) {
            Waiter first;
            int index;
            synchronized (waiters) {
                boolean closed = isClosed();
                index = closed || waiters.isEmpty() ? NONE : free.pop();
                first = closed || index != NONE ? waiters.poll() : null;
                waiting = waiters.size();
            }
            if (first == null) {
                return;
            }
            first.serve(index);
        }
    }

    // ---- buffers

    boolean isTaken(int index) {
        return states.get(index) == TAKEN;
    }

    /**
     * The buffer with a given number, such as one that was used as a request's context.
     *
     * @param index {@link PooledBuffer#index}
     * @return the buffer, while it is taken
     * @throws IllegalStateException if it is not taken
     * @throws IndexOutOfBoundsException if there is no such buffer
     */
    public PooledBuffer buffer(int index) {
        Objects.checkIndex(index, options.count());
        PooledBuffer buffer = buffers.get(index);
        if (!isTaken(index)) {
            throw new IllegalStateException(
                    "Buffer %d of %s is not taken".formatted(index, describe()));
        }
        return buffer;
    }

    /**
     * Where each buffer was taken that has not been given back, for a pool with {@linkplain
     * BufferPoolOptions#withTracking tracking}.
     *
     * @return for each such buffer an exception, which is not thrown, with the stack trace of its
     *     take; empty without tracking
     */
    public List<Throwable> outstanding() {
        List<Throwable> places = new ArrayList<>();
        for (int index = 0; options.tracking() && index < options.count(); index++) {
            PooledBuffer buffer = buffers.get(index);
            Throwable place = buffer == null ? null : buffer.taken();
            if (place != null && isTaken(index)) {
                places.add(place);
            }
        }
        return places;
    }

    /**
     * Counts of takes and give-backs so far. Read without a lock, so concurrent calls may be in
     * some counts and not in others.
     *
     * @return a snapshot
     */
    @CheckReturnValue
    public Counters counters() {
        long back = returned.sum(); // first: a buffer is taken before it is given back
        long out = taken.sum();
        return new Counters(
                out,
                back,
                waits.sum(),
                refusals.sum(),
                Math.clamp(options.count() - (out - back), 0, options.count()));
    }

    /**
     * The counters of a pool, from {@link BufferPool#counters}.
     *
     * @param taken how often a buffer was taken
     * @param givenBack how often a buffer was given back
     * @param waits how often a take found the pool empty and waited
     * @param refusals how often a take returned no buffer: {@link BufferPool#tryTake} on an empty
     *     pool, and waits that ended without one
     * @param free how many buffers were free
     */
    public record Counters(long taken, long givenBack, long waits, long refusals, int free) {}

    /**
     * The region of all buffers.
     *
     * @return the region, which is closed with the pool
     */
    MemoryRegion region() {
        return region;
    }

    /** Ends all waits. With tracking, reports the buffers that are still taken. */
    @Override
    void shut(Teardown end) {
        serve();
        List<Throwable> places = outstanding();
        for (Throwable place : places) {
            Log.warn(
                    "%s was closed with %s not given back; its memory is freed when all are"
                            .formatted(describe(), Text.count(places.size(), "buffer")),
                    place);
        }
    }

    @Override
    void destroy(Teardown end) {
        region.closeWithDivider();
    }

    @Override
    String describe() {
        return "BufferPool of %s of %s"
                .formatted(
                        Text.count(options.count(), "buffer"), Text.count(options.bytes(), "byte"));
    }
}
